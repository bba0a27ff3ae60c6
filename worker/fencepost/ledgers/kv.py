"""The ledger on JetStream: one subject a row, its newest message is the row.

Writes are compare-and-set and travel together: what is waiting goes in one atomic batch, and a
small load does not wait for a batch to fill. One conflict refuses a whole batch; then the rows are
read through the leader, the losers are told what stands, and the rest is sent again. "Absent" is
decided by an insert, never by a read.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence

import msgspec

from fencepost.errors import Denied, LedgerDiffers, Unreachable
from fencepost.ledgers.told import write_and_wait
from fencepost.ports import (
    Broker,
    Found,
    Message,
    NotStored,
    Stored,
    StoredMessage,
    Told,
    Written,
)
from fencepost.records import read_record
from fencepost_schemas.identity import LedgerIdentity
from fencepost_schemas.limits import (
    BATCH_ATOMIC_MIN,
    BATCH_MESSAGES_MAX,
    LEDGER_BATCH_WELL_FILLED,
    LEDGER_BATCHES_MAX,
    LEDGER_READS_MAX,
)
from fencepost_schemas.row import Row, State, UnknownRowVersion, decode_row, encode_row
from fencepost_schemas.subject import LEDGER, Subjects

log = logging.getLogger("fencepost.ledger")

AGAIN_S = 0.02
"""Before asking again while another write of the same row is in flight."""
UNREACHABLE_S = 1.0
STARTS = (State.CLAIMED, State.STARTED)
"""Behind a row in one of these something runs."""
_NO_HEADERS: dict[str, str] = {}
ELECTION_S = 15.0
"""For a stream that was just made to be led; the broker's own elections take 4 to 9 s."""


class _Write(msgspec.Struct, gc=False):
    message: Message
    told: Told
    starts: bool
    open: bool = True


class KvLedger:
    """Run `run` beside whoever writes. A decided row is kept for `retention_s`, 0 for ever."""

    def __init__(self, connection: Broker, subjects: Subjects, retention_s: int = 0) -> None:
        self._connection = connection
        self._subjects = subjects
        self._expiry = {"Nats-TTL": f"{retention_s}s"} if retention_s else {}
        self._waiting: deque[_Write] = deque()
        self._on_their_way = 0
        self._stirred = asyncio.Event()
        self._identity: str | None = None
        """The one that this worker was found to be right with."""
        self._look: asyncio.Task[None] | None = None
        """The last look at the identity, which began no later than the last start was written."""
        self._reads = asyncio.Semaphore(LEDGER_READS_MAX)

    def submit(self, subject: str, row: Row, expect: int, told: Told) -> None:
        headers = self._expiry if row.state.terminal else _NO_HEADERS
        message = Message(subject, encode_row(row), headers, expect)
        self._waiting.append(_Write(message, told, row.state in STARTS))
        if self._may_commit():
            self._stirred.set()

    async def write(self, subject: str, row: Row, expect: int) -> Written | Found:
        return await write_and_wait(self, subject, row, expect)

    async def read(self, subject: str) -> Found:
        stored = await self._read(subject)
        return _found(stored)

    async def identity(self) -> str | None:
        found = await read_identity(self._connection, self._subjects)
        self._identity = self._identity if self._identity is not None else found
        return found

    async def confirm(self) -> None:
        look = self._look
        if look is None:
            return
        if not look.done():
            await asyncio.wait((look,))
        look.result()

    async def run(self) -> None:
        """Commit what is waiting, batch after batch, for ever."""
        committing = [
            asyncio.create_task(self._commit_for_ever()) for _ in range(LEDGER_BATCHES_MAX)
        ]
        try:
            await asyncio.gather(*committing)
        finally:
            for task in committing:
                task.cancel()

    async def _commit_for_ever(self) -> None:
        while True:
            while not self._may_commit():
                self._stirred.clear()
                await self._stirred.wait()
            batch = self._take()
            self._on_their_way += 1
            try:
                await self._commit(batch)
            except Exception as error:  # a row's writer must not wait for ever on a dead loop
                for write in [*batch, *self._waiting]:
                    _tell(write, error)
                raise
            finally:
                self._on_their_way -= 1
                self._stirred.set()

    def _may_commit(self) -> bool:
        """What is there goes; while other batches are on their way, only what fills one well."""
        if self._on_their_way:
            return len(self._waiting) >= LEDGER_BATCH_WELL_FILLED
        return bool(self._waiting)

    def _take(self) -> list[_Write]:
        """Take what is waiting, up to a batch, and up to the second write of one subject."""
        subjects: set[str] = set()
        batch: list[_Write] = []
        while self._waiting and len(batch) < BATCH_MESSAGES_MAX:
            subject = self._waiting[0].message.subject
            if subject in subjects:
                break
            subjects.add(subject)
            batch.append(self._waiting.popleft())
        return batch

    async def _commit(self, batch: list[_Write]) -> None:
        if self._identity is not None and any(write.starts for write in batch):
            # Side by side with the write, which is about as long on its way.
            self._look = asyncio.create_task(self._look_at_identity(self._identity))
            self._look.add_done_callback(_looked_at)
        messages = [write.message for write in batch]
        if len(batch) < BATCH_ATOMIC_MIN:
            await self._commit_burst(batch, messages)
        else:
            await self._commit_batch(batch, messages)

    async def _commit_burst(self, batch: list[_Write], messages: Sequence[Message]) -> None:
        replies: Sequence[Stored | NotStored | None]
        try:
            replies = await self._connection.store_burst(messages)
        except Denied:
            raise
        except Unreachable as error:
            log.warning("ledger: %s; looking what was stored", error)
            replies = [None] * len(batch)
        open_writes = []
        for write, reply in zip(batch, replies, strict=True):
            if isinstance(reply, Stored):
                _tell(write, Written(reply.sequence))
            else:
                open_writes.append((write, reply))
        if open_writes:
            await self._pause(open_writes[0][1])
            await self._settle([write for write, _ in open_writes])

    async def _commit_batch(self, batch: list[_Write], messages: Sequence[Message]) -> None:
        reply: Stored | NotStored | None
        try:
            reply = await self._connection.store_batch(messages)
        except Denied:
            raise
        except Unreachable as error:
            log.warning("ledger: %s; looking what was stored", error)
            reply = None
        if isinstance(reply, Stored):
            first = reply.sequence - len(batch) + 1
            for number, write in enumerate(batch):
                _tell(write, Written(first + number))
            return
        if reply is not None and reply.unbatched:
            # Rows need no company: one by one is slower, and waits for nobody's batches to end.
            await self._commit_burst(batch, messages)
            return
        await self._pause(reply)
        await self._settle(batch)

    async def _pause(self, reply: NotStored | Stored | None) -> None:
        """Wait as long as the refusal asks for."""
        if not isinstance(reply, NotStored) or reply.in_flight:
            await asyncio.sleep(AGAIN_S)
        elif not reply.conflict:
            log.error(
                "ledger: the broker does not take rows: %s (%d); nothing runs until it does%s",
                reply.text,
                reply.error,
                reply.advice,
            )
            await asyncio.sleep(UNREACHABLE_S)

    async def _settle(self, writes: list[_Write]) -> None:
        """Look what stands of each row: tell the losers, recognise our own, send the rest again."""
        stored = await asyncio.gather(*(self._read(write.message.subject) for write in writes))
        again = []
        for write, stands in zip(writes, stored, strict=True):
            revision = stands.sequence if stands is not None else 0
            if stands is not None and stands.payload == write.message.payload:
                _tell(write, Written(revision))
            elif revision == write.message.expect:
                again.append(write)
            else:
                _tell_found(write, stands)
        self._waiting.extendleft(reversed(again))
        self._stirred.set()

    async def _look_at_identity(self, identity: str) -> None:
        """Raise LedgerDiffers where the ledger is no longer the one that this worker began with."""
        stored = await self._read(self._subjects.ledger_identity())
        if stored is None:
            raise LedgerDiffers(
                f"the ledger has lost its identity {identity}: somebody made its stream again or "
                "removed what it held, and it does not know what was applied. Bring it back, or "
                "go on in doubt (`fencepost ledger adopt`)"
            )
        found = read_record(stored, LedgerIdentity).identity
        if found != identity:
            raise LedgerDiffers(
                f"the ledger was {identity} and is {found} now: it was made again or restored, and "
                "does not know what was applied. Bring it back, or go on in doubt "
                "(`fencepost ledger adopt`)"
            )

    async def _read(self, subject: str) -> StoredMessage | None:
        while True:
            try:
                async with self._reads:
                    return await self._connection.last(LEDGER, subject)
            except Denied:
                raise
            except Unreachable as error:
                log.warning("ledger: %s; nothing runs until it answers", error)
                await asyncio.sleep(UNREACHABLE_S)


def _looked_at(look: asyncio.Task[None]) -> None:
    """See to it that nobody is told of a failure that nobody waited for: the next start will be."""
    look.cancelled() or look.exception()


def _tell(write: _Write, result: Written | Found | Exception) -> None:
    if write.open:
        write.open = False
        write.told(result)


def _tell_found(write: _Write, message: StoredMessage | None) -> None:
    try:
        found = _found(message)
    except UnknownRowVersion as error:
        _tell(write, error)
    else:
        _tell(write, found)


def _found(message: StoredMessage | None) -> Found:
    if message is None:
        return Found(None, 0)
    try:
        return Found(decode_row(message.payload), message.sequence)
    except msgspec.DecodeError as error:
        raise UnknownRowVersion(f"ledger row {message.subject} cannot be read: {error}") from None


# --- identity -----------------------------------------------------------------------------------
async def ensure_identity(
    connection: Broker, subjects: Subjects, identity: str, now_ms: int
) -> str:
    """Return the ledger's identity, making this one where there is none.

    On several servers nobody listens before the new stream has elected who leads it, and a write
    loses to another one that is not decided yet. Neither is an answer, so it is asked again.
    """
    payload = msgspec.json.encode(LedgerIdentity(identity, now_ms))
    message = Message(subjects.ledger_identity(), payload, expect=0)
    loop = asyncio.get_running_loop()
    until_s = loop.time() + ELECTION_S
    while True:
        try:
            reply = await connection.store(message)
            if isinstance(reply, Stored):
                return identity
            found = await read_identity(connection, subjects)
        except Denied:
            raise
        except Unreachable:
            if loop.time() >= until_s:
                raise
        else:
            if found is not None:
                return found
            if not reply.in_flight or loop.time() >= until_s:
                raise LedgerDiffers(f"the ledger's identity cannot be written: {reply.text}")
        await asyncio.sleep(AGAIN_S)


async def read_identity(connection: Broker, subjects: Subjects) -> str | None:
    stored = await connection.last(LEDGER, subjects.ledger_identity())
    if stored is None:
        return None
    return read_record(stored, LedgerIdentity).identity
