"""What is wrong with a server, or strange about it, beside whether it can be proven."""

from collections.abc import Iterable, Sequence
from enum import StrEnum

from fencepost_policies.overlap import digest_of
from fencepost_policies.probe.answers import Answer, Ending, Question, answer_to
from fencepost_policies.probe.ids import Kind
from fencepost_policies.probe.signals import Signals, acknowledged, poisonous, unsendable
from fencepost_policies.probe.steady import renumbered

LATE_S = 2.0
"""Headers that take longer are late."""
BURST_EVENTS = 2
BURSTS_MIN = 2


class Trouble(StrEnum):
    """The value is what programs read."""

    WRONG_TYPE = "wrong_type"
    COMPRESSED = "compressed"
    LATE_HEADERS = "late_headers"
    BUFFERED = "buffered"
    INJECTED_TEXT = "injected_text"
    LEGACY_MCP = "legacy_mcp"
    QUIET = "quiet"
    NO_IDS = "no_ids"
    UNSENDABLE_ID = "unsendable_id"
    ALIKE = "alike"
    CONNECTION_COUNTER = "connection_counter"
    RESUMES_DIFFER = "resumes_differ"
    CURSOR_POISONED = "cursor_poisoned"
    POSITION_IGNORED = "position_ignored"
    NOT_REPLAYED = "not_replayed"
    ENDS_BEHIND_REPLAY = "ends_behind_replay"
    LIVE_NOT_ATTACHED = "live_not_attached"
    BOGUS_TAKEN_FOR_NONE = "bogus_taken_for_none"
    BLACK_HOLE = "black_hole"
    SILENT_ON_BOGUS = "silent_on_bogus"
    ECHOES_ANYTHING = "echoes_anything"
    SESSION_GUESSED = "session_guessed"
    ONE_STREAM = "one_stream"

    @property
    def meaning(self) -> str:
        """One line for a person."""
        return _MEANINGS[self]


_MEANINGS = {
    Trouble.WRONG_TYPE: "it answered 200 with something else than text/event-stream",
    Trouble.COMPRESSED: "the stream is compressed although identity was asked for; "
    "fencepost does not read it",
    Trouble.LATE_HEADERS: "response headers come late, as from a server that sends none before "
    "its first event: raise bridge.headers_s if they can take longer than a minute",
    Trouble.BUFFERED: "live events come in bursts: a proxy may be holding them back",
    Trouble.INJECTED_TEXT: "lines came that are no event stream, as proxies put them in",
    Trouble.LEGACY_MCP: "this is MCP's old HTTP+SSE transport, which has no resumption",
    Trouble.QUIET: "no event came, and with none there is nothing to resume from",
    Trouble.NO_IDS: "events have no id, so there is nothing to resume from",
    Trouble.UNSENDABLE_ID: "an id came that no request can send back; a break behind it is "
    "unverifiable",
    Trouble.ALIKE: "the events cannot be told apart by their bytes, so giving them back proves "
    "nothing",
    Trouble.CONNECTION_COUNTER: "one id names different events on different connections: ids are "
    "counted for each connection, or replicas behind one address have logs of their own",
    Trouble.RESUMES_DIFFER: "one resume is continued and the next is not, as where replicas behind "
    "one address have logs of their own",
    Trouble.CURSOR_POISONED: "events of the server's own carry ids that no resume can begin from",
    Trouble.POSITION_IGNORED: "a resume also brings what came before its position",
    Trouble.NOT_REPLAYED: "a resume from an id that it gave did not bring what came behind it",
    Trouble.ENDS_BEHIND_REPLAY: "a resumed connection ends behind its replay",
    Trouble.LIVE_NOT_ATTACHED: "live events came on the first connection, and not on one that was "
    "resumed beside it",
    Trouble.BOGUS_TAKEN_FOR_NONE: "an id that it never gave is answered as if none had been sent",
    Trouble.BLACK_HOLE: "a resume from an id that it never gave is accepted, and no event comes "
    "there while others get them",
    Trouble.SILENT_ON_BOGUS: "an id that it never gave is accepted without a word; whether events "
    "come behind it could not be seen",
    Trouble.ECHOES_ANYTHING: "the header that repeats our position repeats one that it never gave",
    Trouble.SESSION_GUESSED: "a session that it never gave is accepted",
    Trouble.ONE_STREAM: "it refuses a second stream of a session; after a break that it does not "
    "notice, a reconnect waits",
}
assert set(_MEANINGS) == set(Trouble), "every Trouble has a meaning"


def troubles_in(
    answers: Sequence[Answer], signals: Signals, *, differ: bool = False
) -> tuple[Trouble, ...]:
    """Return what is wrong, each once, in the order of the list above.

    `differ` says that true resumes came out differently, which takes a dialect to tell.
    """
    found = {
        *([Trouble.RESUMES_DIFFER] if differ else []),
        *_of_transport(answers),
        *_of_events(answers, signals),
        *_of_resumes(answers, signals),
        *_of_wrong_positions(answers, signals),
    }
    return tuple(trouble for trouble in Trouble if trouble in found)


def _of_transport(answers: Sequence[Answer]) -> Iterable[Trouble]:
    for answer in answers:
        if answer.status == 200 and not answer.streams:
            yield Trouble.WRONG_TYPE
        if answer.headers.get("content-encoding", "identity").lower() != "identity":
            yield Trouble.COMPRESSED
        if answer.streams and answer.headers_s >= LATE_S:
            yield Trouble.LATE_HEADERS
        if answer.question in (Question.AGAIN, Question.BESIDE) and answer.status == 409:
            yield Trouble.ONE_STREAM
        if any(frame.unknown_lines for frame in answer.frames):
            yield Trouble.INJECTED_TEXT
    listened = answer_to(Question.LISTEN, answers)
    if listened is not None and _in_bursts(listened):
        yield Trouble.BUFFERED


def _in_bursts(answer: Answer) -> bool:
    """Return True where each piece behind the first brought several events at once.

    The first may be a replay. Times between events cannot be known, so it takes several of them.
    """
    pieces: dict[int, int] = {}
    for one in answer.came:
        if one.frame.data is not None:
            pieces[one.piece] = pieces.get(one.piece, 0) + 1
    later = list(pieces.values())[1:]
    return len(later) >= BURSTS_MIN and min(later) >= BURST_EVENTS


def _of_events(answers: Sequence[Answer], signals: Signals) -> Iterable[Trouble]:
    streams = [answer for answer in answers if answer.streams]
    events = acknowledged(answers, signals.ignore)
    if streams and streams[0].events and streams[0].events[0].event == "endpoint":
        yield Trouble.LEGACY_MCP
    if streams and not events:
        yield Trouble.QUIET
    if events and signals.shape.kind is Kind.NONE:
        yield Trouble.NO_IDS
    if unsendable(streams):
        yield Trouble.UNSENDABLE_ID
    volatile = signals.comparison.volatile
    if len(events) > 1 and len({digest_of(frame, volatile) for frame in events}) == 1:
        yield Trouble.ALIKE
    if counted_anew(answers, signals):
        yield Trouble.CONNECTION_COUNTER
    if poisonous(streams):
        yield Trouble.CURSOR_POISONED


def counted_anew(answers: Sequence[Answer], signals: Signals) -> bool:
    """Return True where ids do not mean the same on each connection."""
    true = [answer.events for answer in answers if not answer.question.wrong]
    return signals.comparison.others > 0 or renumbered(true)


def _of_resumes(answers: Sequence[Answer], signals: Signals) -> Iterable[Trouble]:
    listened = answer_to(Question.LISTEN, answers)
    known = [one.last_event_id for one in acknowledged(answers, signals.ignore) if one.id_seen]
    for answer in answers:
        if answer.question not in (Question.LAST_BUT_ONE, Question.OLDER) or not answer.streams:
            continue
        brought = {frame.last_event_id for frame in answer.events if frame.id_seen}
        behind = known.index(answer.asked) + 1 if answer.asked in known else 0
        if brought & set(known[:behind]):
            yield Trouble.POSITION_IGNORED
        if not brought & set(known[behind:]):
            # A log that holds little may have let go of an older place, but not of the newest.
            if answer.question is Question.LAST_BUT_ONE:
                yield Trouble.NOT_REPLAYED
        elif listened is not None and listened.ending is Ending.OPEN:
            if answer.ending is Ending.ENDED:
                yield Trouble.ENDS_BEHIND_REPLAY
            elif _missed_live(answer, listened):
                yield Trouble.LIVE_NOT_ATTACHED


def _missed_live(answer: Answer, listened: Answer) -> bool:
    """Return True where live events came on the first connection, and none of them on this one."""
    here = {one.frame.data for one in answer.came}
    live = _live_beside(answer, listened)
    return answer.ending is Ending.OPEN and bool(live) and not here & live


def _live_beside(answer: Answer, listened: Answer) -> set[str | None]:
    """Return the data of events that came on the first connection while the other was open."""
    open_s = answer.asked_s + answer.headers_s
    return {
        one.frame.data
        for one in listened.came
        if one.frame.data is not None and one.frame.id_seen and one.at_s > open_s
    }


def _of_wrong_positions(answers: Sequence[Answer], signals: Signals) -> Iterable[Trouble]:
    listened = answer_to(Question.LISTEN, answers)
    for answer in answers:
        if not answer.question.wrong or not answer.streams:
            continue
        if answer.question is Question.SESSION:
            yield Trouble.SESSION_GUESSED
            continue
        reset = any(frame.event in signals.reset_events for frame in answer.events)
        told = [frame for frame in answer.events if frame.event not in signals.ignore]
        if told and not reset:
            yield Trouble.BOGUS_TAKEN_FOR_NONE
        elif answer.ending is Ending.OPEN and not reset:
            missed = listened is not None and bool(_live_beside(answer, listened))
            yield Trouble.BLACK_HOLE if missed else Trouble.SILENT_ON_BOGUS
    if signals.echoes_anything:
        yield Trouble.ECHOES_ANYTHING
