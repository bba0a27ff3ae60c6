"""A break, rehearsed: what fencepost would conclude of answers that a server has really given.

The same hearings are held and the same judge is asked as when a source is followed; only the bytes
are those of the probe. What a bridge does with a second probe, a refusal, silence and an audit is
done here in the same order.
"""

from collections.abc import Sequence

import msgspec

from fencepost_policies.dialects.dialect import Dialect
from fencepost_policies.judge import judge
from fencepost_policies.lineage import generation_name, place
from fencepost_policies.overlap import Ask, asks_for, digest_of, remember
from fencepost_policies.probe.answers import Answer, Ending, Question, answer_to
from fencepost_policies.reply import Reply, read_reply
from fencepost_policies.witness import Hearing, contradiction
from fencepost_schemas.cursor import Cursor, Mark, Position
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Frame
from fencepost_schemas.standing import Standing
from fencepost_schemas.verdict import Verdict

SOURCE = "probe"


class Positions(msgspec.Struct, frozen=True):
    """Ids to resume from; "" where there is none that could be sent."""

    newest: str = ""
    last_but_one: str = ""
    older: str = ""


def positions_of(events: Sequence[Frame]) -> Positions:
    """Return where a bridge that had these events would ask from."""
    cursor = cursor_behind(events, "")
    ids = [ask.position.id for ask in asks_for(cursor.ring)]
    if not ids:
        marked = [mark.position for mark in cursor.ring[:-1]]
        ids = [one.id for one in marked if one.id and not one.ordinal][-1:]
    newest = cursor.position.id if cursor.position is not None else ""
    older = ids[0] if ids else ""
    last = ids[-1] if ids else ""
    return Positions(newest, last if last != newest else "", older if older != last else "")


def cursor_behind(events: Sequence[Frame], token: str, volatile: tuple[str, ...] = ()) -> Cursor:
    """Return the cursor of a bridge that has published these events, and no others."""
    position: Position | None = None
    ring: tuple[Mark, ...] = ()
    for frame in events:
        position = place(position, frame)
        ring = remember(ring, Mark(position, digest_of(frame, volatile)))
    return Cursor(
        source=SOURCE,
        generation=generation_name(1, SOURCE),
        standing=Standing.GENESIS,
        ledger="",
        owner="",
        position=position,
        token=token,
        published=len(events),
        ring=ring,
    )


def token_in(speech: Dialect, answer: Answer) -> str:
    """Return the generation that an answer names, in the place where the dialect looks."""
    hearing = speech.hearing(None)
    hearing.opened(answer.opening)
    for frame in answer.frames:
        hearing.arrived(frame)
    return hearing.generation.token


def rehearse(speech: Dialect, cursor: Cursor, answers: Sequence[Answer]) -> Verdict | None:
    """Return the verdict on a break behind this cursor; None where nothing tells.

    A position that the probe has not asked from is passed over, as if the ring did not hold it.
    """
    asks = [(ask, found) for ask in speech.asks(cursor) if (found := _answer_at(ask, answers))]
    if not asks:
        return _without_position(speech, cursor, answers)
    missed: Hearing | None = None
    hearing: Hearing | None = None
    for number, (ask, answer) in enumerate(asks, 1):
        last_chance = number == len(asks)
        hearing = speech.hearing(cursor, ask, last_chance=last_chance)
        over = _hear(speech, hearing, answer)
        if hearing.overlapped:
            _audit(speech, cursor, ask, hearing, answers)
            return judge(hearing.evidence())
        if missed is None and (last_chance or over):
            return judge(hearing.evidence())
        if missed is None and hearing.overlap.missed:
            missed = hearing
    assert missed is not None
    missed.concede(hearing)
    return judge(missed.evidence())


def resumes_differ(speech: Dialect, cursor: Cursor, answers: Sequence[Answer]) -> bool:
    """Return True where one true position was continued and a newer one was not.

    A log may have let go of an older place, never of a newer one; so another log has answered.
    """
    continued = False
    for question in (Question.OLDER, Question.LAST_BUT_ONE, Question.NEWEST):
        answer = answer_to(question, answers)
        if answer is None or answer.status in _BUSY:
            continue
        ask = next((one for one in speech.asks(cursor) if one.position.id == answer.asked), None)
        hearing = speech.hearing(cursor, ask or Ask(Position(answer.asked)))
        _hear(speech, hearing, answer)
        if continued and contradiction(hearing.facts):
            return True
        continued = continued or hearing.overlapped
    return False


_BUSY = frozenset({409, 429, 503})
"""Statuses that say nothing of the position: not now, or not twice."""


def _answer_at(ask: Ask, answers: Sequence[Answer]) -> Answer | None:
    return next(
        (
            answer
            for answer in answers
            if answer.asked == ask.position.id
            and answer.ending is not Ending.NEVER
            and answer.question is not Question.AGAIN
        ),
        None,
    )


def _without_position(speech: Dialect, cursor: Cursor, answers: Sequence[Answer]) -> Verdict | None:
    """Judge a second connection that could ask for nothing."""
    beside = answer_to(Question.BESIDE, answers)
    if beside is None or not beside.streams or speech.asks(cursor):
        return None
    hearing = speech.hearing(cursor)
    _hear(speech, hearing, beside)
    return judge(hearing.evidence())


def _hear(speech: Dialect, hearing: Hearing, answer: Answer) -> bool:
    """Hear an answer to its end; return False where the next way to ask is to be tried."""
    facts = hearing.opened(answer.opening)
    reset = any(fact.reason is Reason.RESET_STATUS for fact in facts)
    reading = read_reply(answer.status, answer.headers, asked=bool(answer.asked), reset=reset)
    if reading.reply is not Reply.STREAM:
        return False
    for frame in answer.frames:
        if hearing.ready() or hearing.overlap.missed:
            break
        if frame.data is None or speech.counts(frame):
            hearing.arrived(frame)
    if answer.ending is Ending.ENDED and not hearing.events and hearing.ended():
        return False
    if hearing.overlap.missed and not hearing.ready():
        return False
    if hearing.overlap.owing and not hearing.overlap.missed:
        hearing.silent()
        return False
    return True


def _audit(
    speech: Dialect, cursor: Cursor, ask: Ask, hearing: Hearing, answers: Sequence[Answer]
) -> None:
    """Where the step from replayed to live events loses, hear the second replay as well."""
    if speech.join != "racy":
        return
    again = answer_to(Question.AGAIN, answers)
    if again is None or again.asked != ask.position.id:
        hearing.audited(refused="it was not asked for")
        return
    second = speech.hearing(cursor, ask)
    _hear(speech, second, again)
    hearing.audited(refused="" if second.overlapped else f"it answered {again.status}")


def cursor_of_another(cursor: Cursor, asked: str, salt: str) -> Cursor:
    """Return a cursor into a log that the server has never held, at the position asked for.

    Its marks stand for what a client had from a server that has lost its log since. Where those of
    the real one are all alike, so are these: then no overlap is asked for, either.
    """
    position = Position(asked)
    alike = len({mark.digest for mark in cursor.ring}) < 2
    owed = "asked" if alike else "owed"
    marks = (
        Mark(position, f"{salt} asked"),
        Mark(Position(f"{asked}.{salt}"), f"{salt} {owed}"),
    )
    return msgspec.structs.replace(cursor, position=position, ring=marks)
