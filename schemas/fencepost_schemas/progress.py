"""How far an app has come in a stream, kept where a deleted consumer does not lose it."""

import msgspec


class Published(msgspec.Struct, frozen=True, array_like=True):
    """How many events of a source were published in its generation, by the source's cursor."""

    generation: str
    count: int


class Progress(msgspec.Struct, frozen=True):
    """What one consumer of an app has dealt with: all of its stream up to `sequence`.

    `made` is when the stream was made: sequences of another stream say nothing. `waiting` is the
    first event behind `sequence` that was there at `at_ms`, 0 where none was; then `published` is
    how far each source had come by then. Times are the broker's.
    """

    app: str
    feed: str
    made: str
    sequence: int
    at_ms: int
    waiting: int = 0
    waiting_since_ms: int = 0
    published: dict[str, Published] = {}
