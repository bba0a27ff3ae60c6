"""There is room again once a batch is taken: what is judged next gathers while it is stored."""

import asyncio
from collections.abc import Sequence
from typing import cast

from fencepost.bridge.outbox import Entry, Outbox
from fencepost.bridge.shelf import Shelf
from fencepost.ports import Message
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.limits import BATCH_BYTES_MAX, BATCH_EVENTS_MAX
from fencepost_schemas.standing import Standing
from kit.wait import until

CURSOR = Cursor("orders", "0001-aaaaaaaa", Standing.GENESIS, "l", "b")


class Slow:
    """A shelf that stores when it is told to."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.go = asyncio.Event()

    async def write(self, messages: Sequence[Message], cursor: Cursor, revision: int) -> int:
        self.batches.append(len(messages))
        await self.go.wait()
        return revision + 1


def entry(size: int = 1) -> Entry:
    return Entry((Message("s", b"x" * size),), CURSOR)


async def test_there_is_room_while_a_batch_is_stored_and_none_behind_a_second_one() -> None:
    shelf = Slow()
    outbox = Outbox(cast(Shelf, shelf), 0)
    for _ in range(BATCH_EVENTS_MAX + 1):
        outbox.add(entry())
    room = asyncio.create_task(outbox.room())
    await asyncio.sleep(0)
    assert not room.done()
    running = asyncio.create_task(outbox.run())
    await asyncio.wait_for(room, 5)
    assert [BATCH_EVENTS_MAX] == shelf.batches
    for _ in range(BATCH_EVENTS_MAX):
        outbox.add(entry())
    room = asyncio.create_task(outbox.room())
    await asyncio.sleep(0)
    assert not room.done()
    shelf.go.set()
    await asyncio.wait_for(outbox.drained(), 5)
    await room
    assert [BATCH_EVENTS_MAX, BATCH_EVENTS_MAX, 1] == shelf.batches
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_room_is_counted_in_bytes_too() -> None:
    shelf = Slow()
    outbox = Outbox(cast(Shelf, shelf), 0)
    for _ in range(3):
        outbox.add(entry(BATCH_BYTES_MAX // 2))
    room = asyncio.create_task(outbox.room())
    await asyncio.sleep(0)
    assert not room.done()
    running = asyncio.create_task(outbox.run())
    await until(lambda: shelf.batches == [2], "what fits into one batch")
    await asyncio.wait_for(room, 5)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
