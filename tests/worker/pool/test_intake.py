"""An intake takes no more than it has slots, and a message has its slot until it is through."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from fencepost.errors import Denied, NotFine, Unreachable
from fencepost.pool.intake import Intake, in_a_task
from fencepost.ports import Broker, ConsumerPlan, Delivery
from kit.wait import until

ACK = b"+ACK"
PLAN = ConsumerPlan("S", "c", ("s.>",), 30.0, 1_000)


class Pulled:
    """A consumer that brings what a test puts there, and notes what it is asked for."""

    def __init__(self, take: Callable[[Delivery], None]) -> None:
        self.gone = asyncio.Event()
        self.wanted: list[int] = []
        self.take = take
        self.fails_to_close: Exception | None = None

    async def open(self) -> None: ...

    async def want(self, count: int) -> None:
        self.wanted.append(count)

    async def close(self) -> None:
        if self.fails_to_close is not None:
            raise self.fails_to_close


class Connection:
    """Notes the words that are said; one of them may fail."""

    def __init__(self) -> None:
        self.pulled: Pulled
        self.words: list[tuple[bytes, bytes]] = []
        self.writes = 0
        self.fails: Exception | None = None
        self.made: list[ConsumerPlan] = []
        self.fails_to_make: list[Exception] = []

    def puller(self, stream: str, consumer: str, take: Callable[[Delivery], None]) -> Pulled:
        self.pulled = Pulled(take)
        return self.pulled

    async def ensure_consumer(self, plan: ConsumerPlan) -> None:
        if self.fails_to_make:
            raise self.fails_to_make.pop()
        self.made.append(plan)

    async def settle_all(self, words: Sequence[tuple[Delivery, bytes]]) -> None:
        self.writes += 1
        await asyncio.sleep(0)
        if self.fails is not None:
            error, self.fails = self.fails, None
            raise error
        self.words += [(delivery.payload, word) for delivery, word in words]


@asynccontextmanager
async def running(intake: Intake) -> AsyncIterator["asyncio.Task[None]"]:
    task = asyncio.create_task(intake.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def plan_again() -> ConsumerPlan:
    return PLAN


def made(begin: Any, slots: int = 3) -> tuple[Intake, Connection]:
    connection = Connection()
    return Intake(cast(Broker, connection), PLAN, slots, begin, plan_again), connection


def message(text: bytes) -> Delivery:
    return Delivery("s", {}, text, "reply")


async def test_a_slot_is_free_again_once_the_word_was_said() -> None:
    """Not before: what is not acked yet is still this worker's."""
    begun: list[Delivery] = []
    intake, connection = made(lambda _, some: begun.extend(some))
    async with running(intake):
        await until(lambda: connection.pulled.wanted == [3], "the first request")
        for text in (b"a", b"b"):
            connection.pulled.take(message(text))
        assert intake.taken == 2
        await until(lambda: len(begun) == 2, "both to be begun")
        for one in begun:
            intake.settle(one, ACK)
        assert intake.taken == 2
        await intake.emptied()
        assert [(b"a", ACK), (b"b", ACK)] == connection.words
        assert 1 == connection.writes, "the words of one moment are said in one go"
        await until(lambda: connection.pulled.wanted[-1] == 3, "all slots to be asked for")


async def test_about_what_another_worker_owns_nothing_is_said() -> None:
    intake, connection = made(lambda intake, some: [intake.settle(one, None) for one in some])
    async with running(intake):
        connection.pulled.take(message(b"a"))
        await intake.emptied()
    assert [] == connection.words


async def test_what_came_meanwhile_is_begun_together() -> None:
    """In the order in which it came."""
    begun: list[list[bytes]] = []
    intake, connection = made(lambda _, some: begun.append([one.payload for one in some]))
    for text in (b"a", b"b"):
        connection.pulled.take(message(text))
    async with running(intake):
        await until(lambda: len(begun) == 1, "both to be begun")
        connection.pulled.take(message(b"c"))
        await until(lambda: len(begun) == 2, "the third to be begun")
    assert [[b"a", b"b"], [b"c"]] == begun


async def test_what_has_come_by_the_end_is_begun() -> None:
    """It has its slot, and a worker that drains waits for it."""
    intake, connection = made(lambda intake, some: [intake.settle(one, ACK) for one in some])
    async with running(intake):
        await until(lambda: connection.pulled.wanted == [3], "the first request")
        connection.pulled.take(message(b"a"))
    await intake.emptied()
    assert [(b"a", ACK)] == connection.words


async def test_what_has_come_is_begun_even_where_no_end_can_be_made_of_asking() -> None:
    intake, connection = made(lambda intake, some: [intake.settle(one, ACK) for one in some])
    async with running(intake) as task:
        await until(lambda: connection.pulled.wanted == [3], "the first request")
        connection.pulled.fails_to_close = Unreachable("away")
        connection.pulled.take(message(b"a"))
        task.cancel()
        with pytest.raises(Unreachable, match="away"):
            await task
    await intake.emptied()
    assert [(b"a", ACK)] == connection.words


@pytest.mark.parametrize("error", [Unreachable("away"), NotFine("too large")])
async def test_one_event_that_cannot_be_dealt_with_does_not_stop_the_others(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """Wherever that shows: at its beginning, in its task, or when the word is said."""

    async def fails() -> None:
        raise error

    def begin(intake: Intake, some: Sequence[Delivery]) -> None:
        for one in some:
            if one.payload == b"at once":
                intake.failed(error)
            elif one.payload == b"in a task":
                intake.spawn(fails)
            else:
                connection.fails = error
                intake.settle(one, ACK)

    intake, connection = made(begin, slots=5)
    async with running(intake) as task:
        for text in (b"at once", b"in a task", b"at its word", b"at its word", b"at its word"):
            connection.pulled.take(message(text))
        await intake.emptied()
        assert not task.done()
    assert 0 == intake.taken
    assert [f"{error}; the event comes again"] * 5 == caplog.messages


@pytest.mark.parametrize("error", [Denied("not allowed"), ValueError("a fault of this program")])
async def test_what_concerns_all_of_them_ends_the_worker(error: Exception) -> None:
    async def work_on(one: Delivery) -> None:
        raise error

    intake, connection = made(in_a_task(work_on))
    async with running(intake) as task:
        connection.pulled.take(message(b"a"))
        with pytest.raises(type(error)):
            await asyncio.wait_for(task, 5)


async def test_a_fault_at_the_beginning_ends_the_worker() -> None:
    """Whatever came with it comes again; to see to some of it with a fault is no better."""

    def begin(intake: Intake, some: Sequence[Delivery]) -> None:
        raise ValueError("a fault of this program")

    intake, connection = made(begin)
    connection.pulled.take(message(b"a"))
    with pytest.raises(ValueError, match="a fault"):
        await asyncio.wait_for(intake.run(), 5)


async def test_a_task_has_its_slot_to_its_end() -> None:
    begun, going_on = asyncio.Event(), asyncio.Event()

    async def work_on(one: Delivery) -> None:
        begun.set()
        await going_on.wait()

    intake, connection = made(in_a_task(work_on))
    async with running(intake):
        connection.pulled.take(message(b"a"))
        await begun.wait()
        assert intake.taken == 1
        going_on.set()
        await intake.emptied()


async def test_what_is_cancelled_before_it_began_leaves_nothing_behind() -> None:
    """A worker that ends in the very moment in which a message comes."""

    async def work_on(one: Delivery) -> None:
        raise AssertionError("it was never to begin")

    begin = in_a_task(work_on)
    intake, _ = made(begin)
    begin(intake, [message(b"a")])
    [task] = intake.tasks
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert set() == intake.tasks


async def test_a_consumer_that_somebody_deleted_is_made_again() -> None:
    """What runs keeps its slot, and the broker is asked again where it does not answer."""
    intake, connection = made(lambda *_: None)
    connection.fails_to_make = [Unreachable("a node is elected")]
    async with running(intake):
        await until(lambda: bool(connection.pulled.wanted), "the first asking")
        connection.pulled.take(message(b"a"))
        connection.pulled.gone.set()
        await until(lambda: connection.made == [PLAN], "the consumer to be made again")
        await until(lambda: connection.pulled.wanted[-1] == 2, "the other slots to be asked for")
    assert not connection.pulled.gone.is_set() and 1 == intake.taken


@pytest.mark.parametrize("error", [Denied("no right"), NotFine("there is no stream")])
async def test_a_consumer_that_cannot_be_made_again_ends_the_intake(error: Exception) -> None:
    intake, connection = made(lambda *_: None)
    connection.fails_to_make = [error]
    async with running(intake) as task:
        await until(lambda: bool(connection.pulled.wanted), "the first asking")
        connection.pulled.gone.set()
        await asyncio.wait([task])
        assert error is task.exception()
