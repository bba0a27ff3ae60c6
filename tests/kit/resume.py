"""A connection and the next one, through a dialect and the judge alone: no network, no clock."""

from collections.abc import Callable, Sequence

import msgspec

from fencepost_policies.dialects.dialect import Speech
from fencepost_policies.judge import judge
from fencepost_policies.lineage import place
from fencepost_policies.overlap import Ask, digest_of, remember
from fencepost_policies.witness import Hearing, Opening
from fencepost_schemas.cursor import Cursor, Mark, Position
from fencepost_schemas.sse import Decoder, Frame
from fencepost_schemas.standing import Standing
from fencepost_schemas.verdict import Verdict

AT_START = Cursor("orders", "0001-aaaaaaaa", Standing.GENESIS, "l", "o", fresh=True)


class Answer(msgspec.Struct, frozen=True):
    """What a server answers with. An open stream without a byte more is silent."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = {}


Serve = Callable[[str], Answer]
"""A server: from the position that was asked for ("" for none) to its answer."""


def frames_of(speech: Speech, body: bytes, ask: Ask | None = None) -> Sequence[Frame]:
    """Return the frames of a body as the bridge reads them."""
    return speech.reading(ask).read(Decoder().feed(body))


def followed(speech: Speech, answer: Answer) -> Cursor:
    """Return the cursor behind a first connection that brought this."""
    hearing = speech.hearing(AT_START)
    hearing.opened(Opening(answer.status, answer.headers))
    cursor = msgspec.structs.replace(AT_START, fresh=False)
    for frame in frames_of(speech, answer.body):
        _hear(speech, hearing, frame)
        cursor = _moved(speech, cursor, frame)
    return msgspec.structs.replace(cursor, token=hearing.generation.token)


def resumed_with(speech: Speech, cursor: Cursor, serve: Serve) -> Verdict:
    """Return the verdict on the next connection: each way of asking in turn, as the bridge does."""
    asks: Sequence[Ask | None] = speech.asks(cursor) or (None,)
    missed: Hearing | None = None
    for number, ask in enumerate(asks, 1):
        last_chance = number == len(asks)
        hearing = speech.hearing(cursor, ask, last_chance=last_chance)
        refused = not _answered(speech, hearing, ask, serve)
        if refused and last_chance and missed is None:
            _answered(speech, hearing, None, serve)
        elif not last_chance and (refused or hearing.overlap.missed):
            missed = missed if missed is not None or refused else hearing
            continue
        elif missed is not None and not hearing.overlapped:
            missed.concede(hearing)
            hearing = missed
        hearing.silent()
        return judge(hearing.evidence())
    raise AssertionError("the last way is always judged")


def _answered(speech: Speech, hearing: Hearing, ask: Ask | None, serve: Serve) -> bool:
    """Hear what the server says to this way of asking; return False where it refuses."""
    asked = ask.position.id if ask is not None else ""
    answer = serve(asked)
    hearing.opened(Opening(answer.status, answer.headers, asked))
    if answer.status != 200:
        return False
    for frame in frames_of(speech, answer.body, ask):
        _hear(speech, hearing, frame)
    return True


def _hear(speech: Speech, hearing: Hearing, frame: Frame) -> None:
    if frame.data is None or speech.counts(frame):
        hearing.arrived(frame)
    else:
        hearing.noticed(frame)


def _moved(speech: Speech, cursor: Cursor, frame: Frame) -> Cursor:
    """Return the cursor behind this frame."""
    if frame.data is None or not speech.counts(frame):
        if not speech.advances(frame):
            return cursor
        return msgspec.structs.replace(cursor, position=Position(frame.last_event_id))
    position = place(cursor.position, frame)
    mark = Mark(position, digest_of(frame, speech.volatile))
    return msgspec.structs.replace(
        cursor,
        position=position,
        published=cursor.published + 1,
        ring=remember(cursor.ring, mark),
    )
