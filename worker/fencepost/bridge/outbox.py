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
from fencepost.ports import Message
from fencepost.telemetry import PUBLISH, trace_headers, tracer
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.limits import BATCH_BYTES_MAX, BATCH_EVENTS_MAX


class Entry(msgspec.Struct, frozen=True):
    """Messages that belong together (none to write the cursor alone), and the cursor behind them.

    A verdict's record and its first event are one entry: stored apart, a crash in between would
    leave a generation without a position to ask for.
    """

    messages: tuple[Message, ...]
    cursor: Cursor

    @property
    def size(self) -> int:
        """The bytes of its payloads."""
        return sum([len(message.payload) for message in self.messages])


class Outbox:
    def __init__(self, shelf: Shelf, revision: int) -> None:
        self.revision = revision
        self.context: context.Context | None = None
        self._shelf = shelf
        self._entries: deque[tuple[Entry, int]] = deque()
        self._bytes = 0
        self._writing = False
        self._filled = asyncio.Event()
        self._moved = asyncio.Condition()

    def add(self, entry: Entry) -> None:
        """Take an entry and wake the writer, which finds all that is added in one go.

        Wait for `room` afterwards, before more is taken from the source.
        """
        size = entry.size
        self._entries.append((entry, size))
        self._bytes += size
        self._filled.set()

    async def room(self) -> None:
        """Return once no more than a batch waits."""
        async with self._moved:
            await self._moved.wait_for(
                lambda: len(self._entries) <= BATCH_EVENTS_MAX and self._bytes <= BATCH_BYTES_MAX
            )

    async def drained(self) -> None:
        """Return once everything is stored."""
        async with self._moved:
            await self._moved.wait_for(lambda: not self._entries and not self._writing)

    async def run(self) -> None:
        """Store batch after batch, for ever; raises what `Shelf.write` raises."""
        while True:
            await self._filled.wait()
            async with self._moved:
                batch = self._take()
                self._writing = True
                self._moved.notify_all()
            self.revision = await self._store(batch)
            async with self._moved:
                self._writing = False
                self._moved.notify_all()

    def _take(self) -> list[Entry]:
        batch: list[Entry] = []
        count = size = 0
        while self._entries:
            entry, entry_size = self._entries[0]
            count += len(entry.messages)
            size += entry_size
            if batch and (count > BATCH_EVENTS_MAX or size > BATCH_BYTES_MAX):
                break
            batch.append(entry)
            self._entries.popleft()
            self._bytes -= entry_size
        if not self._entries:
            self._filled.clear()
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
            messages = [message for entry in batch for message in entry.messages]
            if traced := trace_headers():
                messages = [
                    msgspec.structs.replace(message, headers={**message.headers, **traced})
                    for message in messages
                ]
            return await self._shelf.write(messages, cursor, self.revision)
