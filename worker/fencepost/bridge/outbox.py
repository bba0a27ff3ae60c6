"""What was judged and is not stored yet, in order, and the one task that stores it.

While a batch is on its way the next one gathers, so a quiet source does not wait and a busy one
fills its batches. The cursor in memory is never ahead of a connection: a new one is opened only
when the outbox is empty.
"""

import asyncio
from collections import deque

import msgspec
from opentelemetry import context

from fencepost.bridge.shelf import Shelf
from fencepost.broker.connection import Message
from fencepost.telemetry import PUBLISH, trace_headers, tracer
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.limits import BATCH_BYTES_MAX, BATCH_EVENTS_MAX


class Entry(msgspec.Struct, frozen=True):
    """A message (None to write the cursor alone) and the cursor as it stands behind it."""

    message: Message | None
    cursor: Cursor


class Outbox:
    def __init__(self, shelf: Shelf, revision: int) -> None:
        self.revision = revision
        self.context: context.Context | None = None
        self._shelf = shelf
        self._entries: deque[Entry] = deque()
        self._bytes = 0
        self._writing = False
        self._changed = asyncio.Condition()

    def add(self, entry: Entry) -> None:
        """Take an entry; wait for `room` afterwards, before more is read from the source."""
        self._entries.append(entry)
        self._bytes += _size(entry)

    async def room(self) -> None:
        """Wake the writer, and return once there is room for another read."""
        async with self._changed:
            self._changed.notify_all()
            await self._changed.wait_for(
                lambda: len(self._entries) <= BATCH_EVENTS_MAX and self._bytes <= BATCH_BYTES_MAX
            )

    async def drained(self) -> None:
        """Return once everything is stored."""
        async with self._changed:
            self._changed.notify_all()
            await self._changed.wait_for(lambda: not self._entries and not self._writing)

    async def run(self) -> None:
        """Store batch after batch, for ever; raises what `Shelf.write` raises."""
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: bool(self._entries))
                batch = self._take()
                self._writing = True
            self.revision = await self._store(batch)
            async with self._changed:
                self._writing = False
                self._changed.notify_all()

    def _take(self) -> list[Entry]:
        batch: list[Entry] = []
        size = 0
        while self._entries and len(batch) < BATCH_EVENTS_MAX:
            size += _size(self._entries[0])
            if batch and size > BATCH_BYTES_MAX:
                break
            batch.append(self._entries.popleft())
        self._bytes -= sum(_size(entry) for entry in batch)
        return batch

    async def _store(self, batch: list[Entry]) -> int:
        cursor = batch[-1].cursor
        with tracer().start_as_current_span(
            f"publish {cursor.source}",
            context=self.context,
            kind=PUBLISH,
            attributes={
                "fencepost.source": cursor.source,
                "fencepost.generation": cursor.generation,
                "messaging.system": "nats",
                "messaging.batch.message_count": len(batch),
            },
        ):
            traced = trace_headers()
            messages = [
                msgspec.structs.replace(entry.message, headers={**entry.message.headers, **traced})
                for entry in batch
                if entry.message is not None
            ]
            return await self._shelf.write(messages, cursor, self.revision)


def _size(entry: Entry) -> int:
    return len(entry.message.payload) if entry.message is not None else 0
