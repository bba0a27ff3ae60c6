"""The signals that a server gives, as far as one look can tell: where it names what.

A token is only known for one by its name and by being the same all the time; whether it changes
with the log is something that no probe can see. So each is a suggestion, and is said to be one.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from fencepost_policies.probe.answers import Answer, Question, answer_to
from fencepost_policies.probe.ids import Kind, Shape, looks_of, shape_of
from fencepost_policies.probe.steady import Comparison, compare, leaves
from fencepost_policies.schemes.integer import number
from fencepost_schemas.cursor import sendable
from fencepost_schemas.event import KeyScope
from fencepost_schemas.sse import Frame

_GENERATION = re.compile("generation|epoch|incarnation|boot|instance|lineage|stream-?handle", re.I)
_WINDOW = re.compile("floor|oldest|earliest|retained|window-?start|first-?(event-?)?id", re.I)
_RESET = re.compile("reset|refetch|resync|truncat|lagged|stale|invalid|expired|gap|error", re.I)
_HEARTBEAT = re.compile("ping|heart-?beat|keep-?alive|thump", re.I)
_KEY = re.compile("idempot|dedup|(^|_)(id|key|uuid)$|[a-z]Id$", re.I)
_UUID = re.compile('"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"')
_HEADERS_OF_HTTP = frozenset(
    {"date", "server", "content-type", "transfer-encoding", "connection", "cache-control"}
)


class Signals(msgspec.Struct, frozen=True, kw_only=True):
    """What the answers showed. A field is "" or empty where there was nothing of its kind.

    `id_pattern` says where in an id its generation is. `echo_header` names a header that repeats
    the position asked for; `echoes_anything` is True where it repeats one that was never given,
    too, `echo_true` where it was seen not to. `key` is a pointer to what might name the work.
    """

    shape: Shape = Shape(Kind.NONE)
    id_pattern: str = ""
    generation_header: str = ""
    generation_pointer: str = ""
    window_header: str = ""
    echo_header: str = ""
    echoes_anything: bool = False
    echo_true: bool = False
    reset_events: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    heartbeats: tuple[str, ...] = ()
    comparison: Comparison = Comparison()
    key: str = ""
    keys: KeyScope = KeyScope.NONE


def read_signals(answers: Sequence[Answer]) -> Signals:
    """Return what all answers together show."""
    streams = [answer for answer in answers if answer.streams]
    ignore = noise(streams)
    events = acknowledged(answers, ignore)
    # To an id that it never gave, a server may count on from that.
    true = [answer for answer in streams if not answer.question.wrong]
    comparison = compare([_counted(answer.events, ignore) for answer in true])
    echo, echoed = _echo(answers)
    key, keys = _key(events, comparison.volatile)
    ids = [frame.last_event_id for frame in events if frame.id_seen]
    shape = shape_of(ids)
    return Signals(
        shape=shape,
        id_pattern=_id_pattern(ids[-1]) if shape.kind is Kind.PREFIXED else "",
        generation_header=_generation_header(streams),
        generation_pointer=_generation_pointer(streams, ignore),
        window_header=_window_header(streams, shape),
        echo_header=echo,
        echoes_anything=echoed is True,
        echo_true=echoed is False,
        reset_events=_reset_events(streams),
        ignore=ignore,
        heartbeats=_heartbeats(streams, ignore),
        comparison=comparison,
        key=key,
        keys=keys,
    )


def acknowledged(answers: Sequence[Answer], ignore: Sequence[str]) -> tuple[Frame, ...]:
    """Return the events that a client has had before its break: those of the first connection.

    The break is where the first position was asked for; what came later on a connection that was
    still open is what the client missed. A quiet server has sent none; what it gave back from its
    beginning stands in.
    """
    positions = [answer for answer in answers if answer.asked]
    breaks = [one.asked_s for one in positions if one.question is not Question.BEGINNING]
    break_s = min(breaks, default=math.inf)
    for question in (Question.LISTEN, Question.BEGINNING):
        answer = answer_to(question, answers)
        came = answer.came if answer is not None and answer.streams else ()
        before = (one.frame for one in came if one.at_s <= break_s)
        events = _counted((frame for frame in before if frame.data is not None), ignore)
        if events:
            return events
    return ()


def _counted(frames: Iterable[Frame], ignore: Sequence[str]) -> tuple[Frame, ...]:
    return tuple(frame for frame in frames if frame.event not in ignore)


# --- events that are none -----------------------------------------------------------------------
def noise(answers: Sequence[Answer]) -> tuple[str, ...]:
    """Return event types that are no events: heartbeats, and such whose id is no place to be.

    A type whose ids look unlike those of all others is the server speaking of itself.
    """
    events = [frame for answer in answers for frame in answer.events]
    types = dict.fromkeys(frame.event for frame in events)
    named = [one for one in types if _HEARTBEAT.fullmatch(one) or _silent(one, events)]
    poison = [one for one in poisonous(answers) if one not in named]
    return (*named, *poison)


def _silent(kind: str, events: Sequence[Frame]) -> bool:
    """Return True where all events of a type are empty, or say ping, and have no id."""
    mine = [frame for frame in events if frame.event == kind]
    return all(frame.data in ("", "ping", "heartbeat") and not frame.id_seen for frame in mine)


def poisonous(answers: Sequence[Answer]) -> tuple[str, ...]:
    """Return event types whose ids no resume could begin from: they look unlike the others'."""
    looks: dict[str, set[str]] = {}
    count: dict[str, int] = {}
    for answer in answers:
        for frame in answer.events:
            if frame.id_seen and frame.last_event_id:
                looks.setdefault(frame.event, set()).add(_made_of(frame.last_event_id))
                count[frame.event] = count.get(frame.event, 0) + 1
    if len(looks) < 2:
        return ()
    most = max(count, key=lambda kind: count[kind])
    if not all(_numbered(one) for one in looks[most]):
        return ()
    others = {kind: own for kind, own in looks.items() if kind != most}
    return tuple(kind for kind, own in others.items() if not any(_numbered(one) for one in own))


def _made_of(event_id: str) -> str:
    """Return how an id looks, however long its parts are."""
    return re.sub(r"([9ax])\1+", r"\1", looks_of(event_id))


def _numbered(made_of: str) -> bool:
    return "9" in made_of or "x" in made_of


def _heartbeats(answers: Sequence[Answer], ignore: Sequence[str]) -> tuple[str, ...]:
    """Return what keeps a silent connection alive, in words."""
    found = [f"event {one}" for one in ignore if _HEARTBEAT.fullmatch(one)]
    comments = sum(len(frame.comments) for answer in answers for frame in answer.frames)
    return (*found, *(["comments"] if comments > len(answers) else []))


# --- tokens -------------------------------------------------------------------------------------
def _id_pattern(event_id: str) -> str:
    """Return where the generation is in a prefixed id: what stands before its number, where that
    looks like a name that is minted, and not like one that somebody gave to a channel.
    """
    prefix = event_id.rstrip("0123456789")
    minted = any(char.isdigit() for char in prefix) or _GENERATION.search(prefix)
    return f"gen{prefix[-1]}pos" if minted and prefix[-1] in ":-" else ""


def _generation_header(answers: Sequence[Answer]) -> str:
    """Return a header that is named like a generation, and was the same on every connection."""
    for name in _named(answers, _GENERATION):
        values = [answer.headers.get(name, "") for answer in answers]
        if len(values) > 1 and len(set(values)) == 1 and values[0]:
            return name
    return ""


def _generation_pointer(answers: Sequence[Answer], ignore: Sequence[str]) -> str:
    """Return a pointer that is named like a generation, and the same in the data of each event."""
    found: dict[str, set[str]] = {}
    count = 0
    for frame in (frame for answer in answers for frame in _counted(answer.events, ignore)):
        count += 1
        for pointer, value in (leaves(frame.data or "") or {}).items():
            if _GENERATION.search(pointer.rsplit("/", 1)[-1]):
                found.setdefault(pointer, set()).add(value)
    whole = {pointer: values for pointer, values in found.items() if len(values) == 1}
    return next(iter(whole), "") if count > 1 else ""


def _window_header(answers: Sequence[Answer], shape: Shape) -> str:
    """Return a header that is named like the oldest id that is held, and looks like an id."""
    if shape.kind is not Kind.INTEGER:
        return ""
    for name in _named(answers, _WINDOW):
        if all(number(answer.headers.get(name, "")) is not None for answer in answers):
            return name
    return ""


def _named(answers: Sequence[Answer], grammar: re.Pattern[str]) -> list[str]:
    names = dict.fromkeys(name for answer in answers for name in answer.headers)
    return [name for name in names if grammar.search(name) and name not in _HEADERS_OF_HTTP]


def _echo(answers: Sequence[Answer]) -> tuple[str, bool | None]:
    """Return the header that repeats each true position, and whether it repeats false ones too.

    That is None where no false one was asked for.
    """
    asked = [answer for answer in answers if answer.asked and answer.status]
    true = [answer for answer in asked if answer.streams and not answer.question.wrong]
    wrong = [answer for answer in asked if answer.question.wrong]
    for name in dict.fromkeys(name for answer in true for name in answer.headers):
        if name in _HEADERS_OF_HTTP:
            continue
        if len(true) > 1 and all(answer.headers.get(name) == answer.asked for answer in true):
            false = any(answer.headers.get(name) == answer.asked for answer in wrong)
            return name, false if wrong else None
    return "", None


def _reset_events(answers: Sequence[Answer]) -> tuple[str, ...]:
    """Return types that are named like a reset and came only where the position was wrong."""
    wrong, right = _types(answers, wrong=True), _types(answers, wrong=False)
    return tuple(kind for kind in wrong if kind not in right and _RESET.search(kind))


def _types(answers: Sequence[Answer], *, wrong: bool) -> list[str]:
    mine = [answer for answer in answers if answer.question.wrong is wrong]
    return list(dict.fromkeys(frame.event for answer in mine for frame in answer.events))


# --- keys ---------------------------------------------------------------------------------------
def _key(events: Sequence[Frame], volatile: Sequence[str]) -> tuple[str, KeyScope]:
    """Return a pointer to what differs from event to event and is named like a key.

    A random name is taken to name the work for ever; anything else may begin anew with its source.
    """
    documents = [leaves(frame.data or "") for frame in events]
    whole: list[Mapping[str, str]] = [one for one in documents if one is not None]
    if not whole or len(whole) < len(events):
        return "", KeyScope.NONE
    for pointer in whole[0]:
        values = [document.get(pointer, "") for document in whole]
        distinct = len(set(values)) == len(values) and "" not in values
        textual = all(value[:1] == '"' or number(value) is not None for value in values)
        if distinct and textual and pointer not in volatile and _key_like(pointer):
            random = all(_UUID.fullmatch(value) for value in values)
            return pointer, KeyScope.DURABLE if random else KeyScope.GENERATION
    return "", KeyScope.NONE


def _key_like(pointer: str) -> bool:
    return bool(_KEY.search(pointer.rsplit("/", 1)[-1]))


def unsendable(answers: Sequence[Answer]) -> bool:
    """Return True where an id came that no request can send back."""
    return any(
        frame.id_seen and frame.last_event_id and not sendable(frame.last_event_id)
        for answer in answers
        for frame in answer.frames
    )
