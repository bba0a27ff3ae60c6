"""What the rooms need of the world, in a few methods each; adapters are chosen at the edge."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from fencepost.settings import Source
from fencepost_policies.drift import Drift
from fencepost_policies.retry import WaitBounds
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.row import Row
from fencepost_schemas.sse import Frame

# --- the broker ---------------------------------------------------------------------------------
_DISK = "; where the broker's disk was full, free some of it and restart the broker"
_ADVICE = {
    10023: _DISK,
    10047: "; raise the storage of the broker's account, or free some of it",
    10077: _DISK,
    10176: _DISK,
}
"""What to do about a refusal, by the broker's number. A stream that met a full disk takes nothing
more before the broker is restarted, and says no more than that its batch is incomplete."""


class Message(msgspec.Struct, frozen=True, gc=False):
    """What is to be stored; `expect` is the sequence that its subject must stand at."""

    subject: str
    payload: bytes
    headers: dict[str, str] = {}
    expect: int | None = None


class Stored(msgspec.Struct, frozen=True, gc=False):
    """The broker holds it durably. `sequence` is that of the last message of a batch."""

    sequence: int


class NotStored(msgspec.Struct, frozen=True, gc=False):
    """The broker refused it, whole. `error` is its own number for why."""

    error: int
    text: str

    @property
    def conflict(self) -> bool:
        """True where the subject does not stand at the expected sequence."""
        return self.error == 10071

    @property
    def in_flight(self) -> bool:
        """True where another write to the same subject has not been decided yet: ask again."""
        return self.error == 10164

    @property
    def unbatched(self) -> bool:
        """True where a batch, and nothing in it, is refused: a stream has room for fifty that are
        open, and one whose beginning found none is incomplete at its end."""
        return self.error in (10176, 10210)

    @property
    def advice(self) -> str:
        """What to do about it, "" where the broker's own words say so."""
        return _ADVICE.get(self.error, "")

    @property
    def taken(self) -> bool:
        """True where the stream keeps the first message of a subject, and has one.

        The number alone is the broker's word for any failure to store, so the text counts too.
        """
        return self.error == 10077 and "per subject" in self.text


class StoredMessage(msgspec.Struct, frozen=True, gc=False):
    """A message read back through the stream's leader."""

    subject: str
    sequence: int
    payload: bytes
    headers: dict[str, str]


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """A message as a consumer delivers it. `reply` is where its settlement goes.

    `again` is a hint only: the broker may forget that it has delivered a message before.
    """

    subject: str
    headers: dict[str, str]
    payload: bytes
    reply: str
    again: bool = False


class StreamState(msgspec.Struct, frozen=True):
    """A stream at one moment of the broker's: when it was made, its last sequence, and how old its
    messages may become (0: they stay)."""

    made: str
    last: int
    now_ms: int
    age_ms: int


class ConsumerState(msgspec.Struct, frozen=True):
    """All up to `floor` is acked. `idle` says that nothing waits and nothing is unacked, as far as
    the broker has counted: what has just been stored may be missing from that."""

    floor: int
    idle: bool


class Stood(msgspec.Struct, frozen=True):
    """Where a message stands, and when it was stored."""

    sequence: int
    stored_ms: int


class ConsumerPlan(msgspec.Struct, frozen=True):
    """A durable pull consumer. The ledger counts attempts, so the broker never gives up.

    `behind` holds for one that is made: it passes over what is up to this sequence.
    """

    stream: str
    name: str
    subjects: tuple[str, ...]
    ack_wait_s: float
    pending_max: int
    replicas: int = 1
    behind: int = 0


class Pull(Protocol):
    """Messages of one consumer, as many as are asked for."""

    @property
    def gone(self) -> asyncio.Event:
        """Set once the consumer is no longer there."""

    async def open(self) -> None: ...

    async def want(self, count: int) -> None:
        """See to it that `count` messages are asked for, counting those asked for before."""

    async def close(self) -> None: ...


class Broker(Protocol):
    """Streams with compare-and-set by subject, and consumers of them.

    Each call ends in an answer, in Denied, or in Unreachable (of which Unanswered leaves open
    whether it was carried out).
    """

    @property
    def payload_bytes_max(self) -> int:
        """The largest message, headers and all, that this broker takes."""

    async def store(self, message: Message) -> Stored | NotStored: ...

    async def store_burst(self, messages: Sequence[Message]) -> list[Stored | NotStored | None]:
        """Store each message on its own, all in flight at once; None where the fate is unknown."""

    async def store_batch(
        self, messages: Sequence[Message], sent: Callable[[], None] = lambda: None
    ) -> Stored | NotStored:
        """Store all messages or none, in order and without another between them."""

    async def last(self, stream: str, subject: str) -> StoredMessage | None:
        """Return the newest message that a filter takes, read through the leader."""

    def scan(self, stream: str, subject: str, sequence: int = 1) -> AsyncIterator[StoredMessage]:
        """Yield each message that a filter takes, oldest first, read through the leader."""

    async def subjects(self, stream: str, subject: str) -> list[str]:
        """Return the subjects that a filter takes and that hold a message, sorted."""

    async def clock_ms(self, stream: str) -> int:
        """Return the broker's clock."""

    async def stream_state(self, stream: str) -> StreamState: ...

    async def consumer_state(self, stream: str, consumer: str) -> ConsumerState | None:
        """Return how far a consumer is, None where it is not there."""

    async def first_behind(self, stream: str, subject: str, sequence: int) -> Stood | None:
        """Return the first message that a filter takes behind a sequence."""

    async def count(self, stream: str, subject: str) -> int:
        """Return how many messages a filter takes."""

    async def ensure_consumer(self, plan: ConsumerPlan) -> None: ...

    async def drifts(self) -> list[Drift]:
        """Return where the broker's streams are not as `fencepost init` makes them."""

    def puller(self, stream: str, consumer: str, take: Callable[[Delivery], None]) -> Pull: ...

    async def settle(self, delivery: Delivery, word: bytes) -> None: ...

    async def settle_all(self, words: Sequence[tuple[Delivery, bytes]]) -> None:
        """Settle each delivery with its word, in one go."""

    def on_reconnect(self, call: Callable[[], None]) -> None: ...


# --- sources ------------------------------------------------------------------------------------
class Request(msgspec.Struct, frozen=True):
    """One request to a source; `asked` is sent as Last-Event-ID unless it is empty."""

    method: str
    url: str
    headers: Mapping[str, str]
    asked: str = ""
    body: bytes = b""


class SourceResponse(Protocol):
    """An open response of a source. Header names are lower case.

    `url` is where it came from in the end; it may hold secrets. `own` is False where a redirect led
    to another origin: neither configured headers nor our position were sent there.
    """

    @property
    def status(self) -> int: ...

    @property
    def url(self) -> str: ...

    @property
    def own(self) -> bool: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes; raise SourceUnreachable where it breaks or stalls."""


class SourceUnreachable(Exception):
    """The connection could not be made, or broke, or went silent. Passing, and never fatal.

    `wait_s` is how long the source wants to be let alone.
    """

    def __init__(self, text: str, wait_s: float = 0.0) -> None:
        super().__init__(text)
        self.wait_s = wait_s


class Way(Protocol):
    """The only way to a source: over its redirects, with its credentials and certificates."""

    def open(self, request: Request) -> AbstractAsyncContextManager[SourceResponse]:
        """Send a request and hold its response open."""


class Transport(Protocol):
    """The connections of one process."""

    def of(self, name: str, source: Source) -> Way:
        """Return the way to one source; raise UsageError where its files are wrong."""

    async def close(self) -> None: ...


class Door(Protocol):
    """How one source is opened, connection after connection."""

    @property
    def session(self) -> str:
        """The session that the source has given us, to be kept with the cursor; "" for none."""

    @property
    def answers(self) -> bool:
        """True where frames of the source may ask for an answer."""

    def open(self, cursor: Cursor, asked: str) -> AbstractAsyncContextManager[SourceResponse]:
        """Open the stream, behind `asked` if it is an id."""

    async def answer(self, frame: Frame) -> None:
        """Answer what a frame asks of its client."""


# --- the world ----------------------------------------------------------------------------------
class World(Protocol):
    """Time and chance. Decisions get them as arguments; only these tell them."""

    def wall_ms(self) -> int:
        """Return this machine's clock in milliseconds since 1970."""

    def monotonic_s(self) -> float:
        """Return a clock that nobody sets, and that goes on while this machine is suspended."""

    def random_name(self, chars: int) -> str:
        """Return that many random lower-case base32 characters."""

    def draw_s(self, bounds: WaitBounds) -> float:
        """Return a wait drawn evenly between bounds."""


# --- the ledger ---------------------------------------------------------------------------------
class Written(msgspec.Struct, frozen=True, gc=False):
    """The row stands; `revision` is what the next write of it must expect."""

    revision: int


class Found(msgspec.Struct, frozen=True, gc=False):
    """The row that stands there now, and its revision (None and 0 where there is none)."""

    row: Row | None
    revision: int


Told = Callable[[Written | Found | Exception], None]
"""Hears once what came of a write: an exception where that cannot be known, or not be read."""


class Ledger(Protocol):
    """Rows by compare-and-set. Nothing else can change one."""

    def submit(self, subject: str, row: Row, expect: int, told: Told) -> None:
        """Write the row if its subject stands at `expect` (0: absent); else tell what stands.

        Returns at once. `told` is called by `run`, once one of the two is known, however long the
        broker takes.
        """

    async def write(self, subject: str, row: Row, expect: int) -> Written | Found:
        """Submit, and return or raise what is told."""

    async def read(self, subject: str) -> Found:
        """Return what stands, through the leader."""

    async def identity(self) -> str | None:
        """Return the ledger's identity, None where init has not made one."""

    async def confirm(self) -> None:
        """Return once the ledger is known to be the same one as at first, since the last start.

        Raises LedgerDiffers where it is not: then nothing may run.
        """

    async def run(self) -> None:
        """Do what writes need to have done beside them, for ever."""
