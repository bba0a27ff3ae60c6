"""Which writes travel together: what is there goes, a second batch only where it is worth it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import cast

from fencepost.ledgers.kv import KvLedger
from fencepost.ports import Broker, Found, Message, Stored, Written
from fencepost_schemas.limits import LEDGER_BATCH_WELL_FILLED, LEDGER_BATCHES_MAX
from fencepost_schemas.subject import Subjects
from kit.rows import row
from kit.wait import until

SUBJECTS = Subjects()


class Held:
    """Takes batches, and says so when it is told to."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self._go = asyncio.Semaphore(0)
        self._sequence = 0

    def let_go(self, count: int = 1) -> None:
        for _ in range(count):
            self._go.release()

    async def store_batch(self, messages: Sequence[Message]) -> Stored:
        self.batches.append(len(messages))
        await self._go.acquire()
        self._sequence += len(messages)
        return Stored(self._sequence)

    async def store_burst(self, messages: Sequence[Message]) -> list[Stored]:
        await self.store_batch(messages)
        return [Stored(self._sequence)] * len(messages)


class Scene:
    def __init__(self) -> None:
        self.broker = Held()
        self.ledger = KvLedger(cast(Broker, self.broker), SUBJECTS)
        self.told: list[Written | Found | Exception] = []
        self._count = 0

    def submit(self, count: int) -> None:
        for _ in range(count):
            self._count += 1
            key = str(self._count)
            self.ledger.submit(SUBJECTS.row("h", "n", key), row(key), 0, self.told.append)

    async def sees(self, *batches: int) -> None:
        await until(lambda: self.broker.batches == list(batches), f"batches of {batches}")

    async def still_sees(self, *batches: int) -> None:
        """Fail if another batch goes, once everybody has had a turn or two."""
        for _ in range(10):
            await asyncio.sleep(0)
        assert self.broker.batches == list(batches)


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    made = Scene()
    task = asyncio.create_task(made.ledger.run())
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_small_load_does_not_wait_for_a_batch_to_fill() -> None:
    async with scene() as made:
        made.submit(1)
        await made.sees(1)
        made.broker.let_go()
        await until(lambda: len(made.told) == 1, "the one write to be told of")


async def test_few_writes_wait_for_the_batch_in_front_of_them() -> None:
    """They gather meanwhile, and go together once it is there."""
    async with scene() as made:
        made.submit(20)
        await made.sees(20)
        for _ in range(3):
            made.submit(10)
        await made.still_sees(20)
        made.broker.let_go()
        await made.sees(20, 30)


async def test_a_well_filled_batch_does_not_wait_for_the_ones_in_front_of_it() -> None:
    """Up to so many are on their way at once, and no more."""
    async with scene() as made:
        made.submit(20)
        await made.sees(20)
        sent = [20]
        for _ in range(LEDGER_BATCHES_MAX - 1):
            made.submit(LEDGER_BATCH_WELL_FILLED)
            sent.append(LEDGER_BATCH_WELL_FILLED)
            await made.sees(*sent)
        made.submit(LEDGER_BATCH_WELL_FILLED)
        await made.still_sees(*sent)
        made.broker.let_go()
        await made.sees(*sent, LEDGER_BATCH_WELL_FILLED)


async def test_whoever_waits_is_told_when_the_ledger_gives_up() -> None:
    """A writer must not wait for ever on a loop that is dead."""

    class Broken(Held):
        async def store_batch(self, messages: Sequence[Message]) -> Stored:
            raise ValueError("a fault of this program")

    made = Scene()
    made.broker = Broken()
    made.ledger = KvLedger(cast(Broker, made.broker), SUBJECTS)
    made.submit(3)
    [outcome] = await asyncio.gather(made.ledger.run(), return_exceptions=True)
    assert isinstance(outcome, ValueError)
    assert made.told == [outcome] * 3
