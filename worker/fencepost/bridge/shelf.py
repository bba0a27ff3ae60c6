"""Where a source's lineage is kept: verdict records, events and the cursor, in one stream.

They are written together in one atomic batch, which stands or falls with the compare-and-set on
the cursor. So there is no second store to disagree with, and a bridge that has been overtaken is
refused whole.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec

from fencepost.errors import Denied, Fenced, NotFine, Unreachable, Unreadable
from fencepost.ports import Broker, Message, NotStored, Stored
from fencepost.records import read_record
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.event import ClassifiedEvent, event_of
from fencepost_schemas.question import Answer, Ruling, seam_question_id
from fencepost_schemas.subject import ANSWERS, EVENTS, Subjects
from fencepost_schemas.verdict import EpochRecord

log = logging.getLogger("fencepost.bridge")

AGAIN_S = 0.05
"""Before asking again while the broker has another write in flight."""
FULL_S = 2.0
"""Before trying again where the broker does not take (disk or stream full)."""

SHOWN_CHARS_MAX = 256
"""What a verdict's record keeps of a text that a source sent."""


class Loaded(msgspec.Struct, frozen=True):
    cursor: Cursor
    revision: int


def nothing_reached(point: str) -> None:
    """The crash point of every day: nothing happens."""


class Shelf:
    def __init__(
        self,
        connection: Broker,
        subjects: Subjects,
        reached: Callable[[str], None] = nothing_reached,
    ) -> None:
        self.connection = connection
        self.subjects = subjects
        self._reached = reached

    @property
    def payload_bytes_max(self) -> int:
        return self.connection.payload_bytes_max

    async def load(self, source: str) -> Loaded:
        """Return the cursor; raise NotFine where there is none, for that is never a beginning."""
        stored = await self.connection.last(EVENTS, self.subjects.cursor(source))
        if stored is not None:
            return Loaded(read_record(stored, Cursor), stored.sequence)
        record = await self.connection.last(EVENTS, self.subjects.epochs_of(source))
        if record is not None:
            raise _cursor_gone(source)
        raise NotFine(f"{source}: not begun yet: run `fencepost init` once")

    async def ruling(self, source: str, generation: str) -> Ruling | None:
        """Return what was ruled on the seam of this generation, if anything."""
        subject = self.subjects.answer(seam_question_id(source, generation))
        stored = await self.connection.last(ANSWERS, subject)
        if stored is None:
            return None
        try:
            return read_record(stored, Answer).ruling
        except Unreadable as error:
            log.error("%s: %s; it counts as no answer", source, error)
            return None

    async def published(
        self, source: str, generation: str, behind: int
    ) -> AsyncIterator[ClassifiedEvent]:
        """Yield the events of a generation behind a sequence of the stream, in order."""
        scan = self.connection.scan(
            EVENTS, self.subjects.events_in(source, generation), sequence=behind + 1
        )
        async for stored in scan:
            yield event_of(stored.headers, stored.payload)

    def record_message(self, record: EpochRecord) -> Message:
        # A source may send an id of a megabyte; what a fact shows of it is for people.
        facts = tuple(
            msgspec.structs.replace(
                fact,
                expected=fact.expected[:SHOWN_CHARS_MAX],
                observed=fact.observed[:SHOWN_CHARS_MAX],
            )
            for fact in record.verdict.facts
        )
        verdict = msgspec.structs.replace(record.verdict, facts=facts)
        # Verdict records outlive the events that they govern.
        return Message(
            self.subjects.epoch(record.source, record.generation),
            msgspec.json.encode(msgspec.structs.replace(record, verdict=verdict)),
            {"Nats-TTL": "never"},
        )

    def cursor_message(self, cursor: Cursor, expect: int) -> Message:
        subject = self.subjects.cursor(cursor.source)
        return Message(subject, msgspec.json.encode(cursor), expect=expect)

    async def write(self, messages: Sequence[Message], cursor: Cursor, revision: int) -> int:
        """Write all of it or nothing; return the cursor's new revision.

        Raises Fenced where another bridge has written the cursor since `revision`. Anything else
        that keeps the broker from taking it is waited out: nothing is dropped.
        """
        batch = [*messages, self.cursor_message(cursor, revision)]
        self._reached("batch_built")
        while True:
            try:
                if len(batch) == 1:
                    reply = await self.connection.store(batch[0])
                else:
                    reply = await self.connection.store_batch(
                        batch, sent=lambda: self._reached("batch_sent")
                    )
            except Denied:
                raise
            except Unreachable as error:
                log.warning("%s: %s; looking whether it was stored", cursor.source, error)
                await asyncio.sleep(AGAIN_S)
                stored = await self._look(cursor, batch[-1].payload, revision)
                if stored is not None:
                    return stored
                continue
            if isinstance(reply, Stored):
                self._reached("batch_stored")
                return reply.sequence
            if reply.conflict:
                stored = await self._look(cursor, batch[-1].payload, revision)
                if stored is not None:
                    return stored
            elif reply.in_flight:
                await asyncio.sleep(AGAIN_S)
            else:
                await self._wait_out(cursor.source, reply)

    async def _look(self, cursor: Cursor, payload: bytes, revision: int) -> int | None:
        """Return the revision if our write stands, None if nothing was written; else raise."""
        while True:
            try:
                stored = await self.connection.last(EVENTS, self.subjects.cursor(cursor.source))
                break
            except Denied:
                raise
            except Unreachable:
                await asyncio.sleep(FULL_S)
        if stored is not None and stored.payload == payload and stored.sequence > revision:
            return stored.sequence
        if stored is not None and stored.sequence == revision:
            return None
        if stored is None:
            raise _cursor_gone(cursor.source)
        other = read_record(stored, Cursor).owner
        raise Fenced(
            f"{cursor.source}: its cursor was written by another ({other}), so this "
            "bridge no longer has it"
        )

    async def _wait_out(self, source: str, refusal: NotStored) -> None:
        log.error(
            "%s: the broker does not take events: %s (%d); nothing is lost, trying again%s",
            source,
            refusal.text,
            refusal.error,
            refusal.advice,
        )
        await asyncio.sleep(FULL_S)


def _cursor_gone(source: str) -> NotFine:
    return NotFine(
        f"{source}: it was begun before but its cursor is gone, and a missing cursor is not a "
        "beginning: find out what happened to the broker's data"
    )
