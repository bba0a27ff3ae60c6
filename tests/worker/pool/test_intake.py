"""An intake takes no more than it has slots, and a message has its slot until it is through."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from fencepost.errors import Denied, NotFine, Unreachable
from fencepost.pool.intake import Intake, in_a_task
from fencepost.ports import Broker, Delivery
from kit.wait import until

ACK = b"+ACK"


class Pulled:
    """A consumer that brings what a test puts there, and notes what it is asked for."""

    def __init__(self, take: Callable[[Delivery], None]) -> None:
        self.gone = asyncio.Event()
        self.wanted: list[int] = []
        self.take = take

    async def open(self) -> None: ...

    async def want(self, count: int) -> None:
        self.wanted.append(count)

    async def close(self) -> None: ...


class Connection:
    """Notes the words that are said; one of them may fail."""

    def __init__(self) -> None:
        self.pulled: Pulled
        self.words: list[tuple[bytes, bytes]] = []
        self.fails: Exception | None = None

    def puller(self, stream: str, consumer: str, take: Callable[[Delivery], None]) -> Pulled:
        self.pulled = Pulled(take)
        return self.pulled

    async def settle(self, delivery: Delivery, word: bytes) -> None:
        await asyncio.sleep(0)
        if self.fails is not None:
            error, self.fails = self.fails, None
            raise error
        self.words.append((delivery.payload, word))


@asynccontextmanager
async def running(intake: Intake) -> AsyncIterator["asyncio.Task[None]"]:
    task = asyncio.create_task(intake.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def made(begin: Any, slots: int = 3) -> tuple[Intake, Connection]:
    connection = Connection()
    return Intake(cast(Broker, connection), "S", "c", slots, begin), connection


def message(text: bytes) -> Delivery:
    return Delivery("s", {}, text, "reply")


async def test_a_slot_is_free_again_once_the_word_was_said() -> None:
    """Not before: what is not acked yet is still this worker's."""
    begun: list[Delivery] = []
    intake, connection = made(lambda _, one: begun.append(one))
    async with running(intake):
        await until(lambda: connection.pulled.wanted == [3], "the first request")
        for text in (b"a", b"b"):
            connection.pulled.take(message(text))
        assert intake.taken == 2
        for one in begun:
            intake.settle(one, ACK)
        assert intake.taken == 2
        await intake.emptied()
        assert [(b"a", ACK), (b"b", ACK)] == connection.words
        await until(lambda: connection.pulled.wanted[-1] == 3, "all slots to be asked for")


async def test_about_what_another_worker_owns_nothing_is_said() -> None:
    begun: list[Delivery] = []
    intake, connection = made(lambda _, one: begun.append(one))
    connection.pulled.take(message(b"a"))
    intake.settle(begun[0], None)
    assert intake.taken == 0
    assert [] == connection.words


@pytest.mark.parametrize("error", [Unreachable("away"), NotFine("too large")])
async def test_one_event_that_cannot_be_dealt_with_does_not_stop_the_others(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """Wherever that shows: at its beginning, in its task, or when the word is said."""

    async def fails() -> None:
        raise error

    def begin(intake: Intake, one: Delivery) -> None:
        if one.payload == b"at once":
            raise error
        if one.payload == b"in a task":
            intake.spawn(fails)
        else:
            connection.fails = error
            intake.settle(one, ACK)

    intake, connection = made(begin)
    async with running(intake) as task:
        for text in (b"at once", b"in a task", b"at its word"):
            connection.pulled.take(message(text))
        await intake.emptied()
        assert not task.done()
    assert [f"{error}; the event comes again"] * 3 == caplog.messages


@pytest.mark.parametrize("error", [Denied("not allowed"), ValueError("a fault of this program")])
async def test_what_concerns_all_of_them_ends_the_worker(error: Exception) -> None:
    async def work_on(one: Delivery) -> None:
        raise error

    intake, connection = made(in_a_task(work_on))
    async with running(intake) as task:
        connection.pulled.take(message(b"a"))
        with pytest.raises(type(error)):
            await asyncio.wait_for(task, 5)


async def test_a_task_has_its_slot_to_its_end() -> None:
    going_on = asyncio.Event()

    async def work_on(one: Delivery) -> None:
        await going_on.wait()

    intake, connection = made(in_a_task(work_on))
    connection.pulled.take(message(b"a"))
    await asyncio.sleep(0)
    assert intake.taken == 1
    going_on.set()
    await intake.emptied()
    assert intake.taken == 0


async def test_what_is_cancelled_before_it_began_leaves_nothing_behind() -> None:
    """A worker that ends in the very moment in which a message comes."""

    async def work_on(one: Delivery) -> None:
        raise AssertionError("it was never to begin")

    intake, connection = made(in_a_task(work_on))
    connection.pulled.take(message(b"a"))
    for task in intake.tasks:
        task.cancel()
    await asyncio.gather(*intake.tasks, return_exceptions=True)
