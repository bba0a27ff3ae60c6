"""Leases are kept up while handlers run, from a thread that no handler can hold up."""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from fencepost import Context, Fencepost
from fencepost.broker.embedded import EmbeddedBroker
from fencepost.broker.jetstream import JetStream, connect
from fencepost.errors import Unreachable
from fencepost.pool.clock import BrokerClock
from fencepost.pool.leases import Leases, Running
from fencepost.pool.renewal import renew_in_thread
from fencepost.pool.worker import Renewal
from fencepost.settings import Pool
from fencepost.settings_file import login_for
from fencepost_schemas.question import QuestionKind
from fencepost_schemas.row import Effect, Row, State
from fencepost_schemas.standing import Standing
from kit.house import House, house
from kit.pool import SOURCE, Runs, app_with, event, publish, questions, rows, settle, steal, working
from kit.wait import until

LONG: dict[str, Any] = {"handler_timeout_s": 30.0, "lease_s": 0.9, "ack_wait_s": 1.2}
"""Handlers may take much longer than a lease, as long as it is renewed."""


def in_thread(home: House) -> Renewal:
    @asynccontextmanager
    async def connected() -> AsyncIterator[JetStream]:
        broker = home.settings.broker
        connection = await connect(broker, login_for(broker, "worker"), "worker")
        try:
            yield connection
        finally:
            await connection.close()

    return lambda leases: renew_in_thread(leases, connected)


async def test_a_long_handler_keeps_its_lease(broker: EmbeddedBroker) -> None:
    """Three leases long, with another worker waiting for it to lapse: it runs once."""
    runs = Runs()

    async def long(payload: bytes, ctx: Context) -> None:
        await asyncio.sleep(3 * LONG["lease_s"])

    async with house(broker, SOURCE, pool=LONG) as home:
        await home.init()
        await publish(home, event("a"))
        app = app_with(runs, long)
        async with working(home, app, app):
            await until(lambda: bool(runs.started), "it to begin")
            first = (await rows(home))["k:a"].lease_until_ms

            async def renewed() -> bool:
                return (await rows(home))["k:a"].lease_until_ms > first

            await until(renewed, "a renewal")
            await settle(home)
        row = (await rows(home))["k:a"]
    assert (State.APPLIED, 1, 1) == (row.state, row.attempt, len(runs.done))


async def test_a_handler_that_blocks_the_loop_does_not_cost_the_others_their_leases(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """It blocks for three leases; the others run through, and the log names the culprit."""
    runs = Runs()

    async def behave(payload: bytes, ctx: Context) -> None:
        if ctx.event.key == "blocks":
            await asyncio.sleep(0.2)
            time.sleep(3 * LONG["lease_s"])  # noqa: ASYNC251 - this is the fault under test
        else:
            await asyncio.sleep(0.5)

    async with house(broker, SOURCE, pool=LONG) as home:
        await home.init()
        await publish(home, *(event(key) for key in ("a", "b", "blocks", "c")))
        with caplog.at_level(logging.ERROR, "fencepost.pool"):
            async with working(home, app_with(runs, behave), renewal=in_thread(home)):
                await settle(home)
        states = {key: (row.state, row.attempt) for key, row in (await rows(home)).items()}
        assert [] == await questions(home, QuestionKind.DOUBT)
    assert {(State.APPLIED, 1)} == set(states.values())
    assert 4 == len(runs.done)
    blamed = [line for line in caplog.messages if "the event loop has stood still" in line]
    assert 1 == len(blamed)
    assert "charge at '1' of orders" in blamed[0]
    assert "in behave" in blamed[0]


async def test_a_worker_that_cannot_renew_stops_its_handler_first(
    broker: EmbeddedBroker,
) -> None:
    """Cancelled within its lease, so that it is over before another worker may begin."""
    runs = Runs()
    ended: list[float] = []
    loop = asyncio.get_running_loop()

    async def endless(payload: bytes, ctx: Context) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(loop.time())

    @asynccontextmanager
    async def never(leases: Leases) -> AsyncIterator[None]:
        yield

    async with house(broker, SOURCE, pool=LONG) as home:
        await home.init()
        await publish(home, event("a"))
        began_s = loop.time()
        async with working(home, app_with(runs, endless), renewal=never):
            await settle(home)
        row = (await rows(home))["k:a"]
    assert State.IN_DOUBT is row.state
    assert "its lease could not be renewed" in row.error
    assert 1 == len(ended)
    assert ended[0] - began_s < 10.0


async def test_a_handler_in_a_thread_is_waited_for(broker: EmbeddedBroker) -> None:
    """It cannot be stopped at its limit; nobody else may run meanwhile, and its word counts."""
    runs = Runs()
    free = threading.Event()
    app = Fencepost("shop")

    @app.on("task", name="charge")
    def handler(payload: bytes, ctx: Context) -> str:
        runs.started.append((payload.decode(), ctx.attempt))
        free.wait(20)
        return "receipt"

    pool = {**LONG, "handler_timeout_s": 0.3}
    async with house(broker, SOURCE, pool=pool) as home:
        await home.init()
        await publish(home, event("a"))
        async with working(home, app, app):
            await until(lambda: bool(runs.started), "it to begin")
            first = (await rows(home))["k:a"].lease_until_ms

            async def outlived() -> bool:
                return (await rows(home))["k:a"].lease_until_ms > first + 2_000

            await until(outlived, "its lease to be renewed past its limit")
            free.set()
            await settle(home)
        row = (await rows(home))["k:a"]
    assert (State.APPLIED, 1, 1) == (row.state, row.attempt, len(runs.started))
    assert row.result_digest


async def test_what_a_thread_raises_is_what_a_coroutine_raises(broker: EmbeddedBroker) -> None:
    """An unknown error is a doubt, whichever way the handler ran; StopIteration is no exception."""
    app = Fencepost("shop")

    @app.on("task", name="charge")
    def handler(payload: bytes) -> None:
        raise StopIteration("odd")

    async with house(broker, SOURCE, pool=LONG) as home:
        await home.init()
        await publish(home, event("a"))
        async with working(home, app):
            await settle(home)
        row = (await rows(home))["k:a"]
    assert State.IN_DOUBT is row.state
    assert "StopIteration" in row.error


async def test_a_renewal_that_lost_to_another_worker_leaves_the_row_alone(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker that was away finds its row taken over: it neither renews nor acks."""
    runs = Runs()
    go_on = asyncio.Event()

    async def waits(payload: bytes, ctx: Context) -> None:
        if ctx.attempt == 1:
            await go_on.wait()

    async with house(broker, SOURCE, pool=LONG) as home:
        await home.init()
        await publish(home, event("a"))
        app = app_with(runs, waits, effect="idempotent")
        with caplog.at_level(logging.WARNING, "fencepost.pool"):
            async with working(home, app):
                await until(lambda: bool(runs.started), "it to begin")
                await steal(home, "k:a")
                told = "another worker has taken it over"
                await until(
                    lambda: any(told in line for line in caplog.messages), "the loss to be seen"
                )
                go_on.set()
                await settle(home)
        row = (await rows(home))["k:a"]
    assert (State.APPLIED, 3) == (row.state, row.attempt)


ROW = Row(
    state=State.STARTED,
    handler="charge",
    namespace="orders",
    key="k:a",
    fingerprint="f",
    effect=Effect.ONCE,
    standing=Standing.RESUMED,
    source="orders",
    generation="0001-aaaaaaaa",
    position="1",
    first_seen_ms=0,
    changed_ms=0,
    attempt=1,
    claim="mine",
)


async def test_a_broker_that_is_away_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    """A renewal that could not be made is no reason to stop renewing."""
    asked: list[int] = []

    # Neither is more of its port than a renewal asks for, which is why the types are overruled.
    class Away:
        async def clock_ms(self, stream: str) -> int:
            return 1_000_000

        async def store_burst(self, messages: list[Any]) -> list[Any]:
            asked.append(len(messages))
            raise Unreachable("the broker does not answer")

    class Now:
        def monotonic_s(self) -> float:
            return 1_000.0

    pool = Pool(lease_s=0.9, ack_wait_s=1.2)
    # As above: it is as much of a world as a clock asks of one.
    clock = BrokerClock(Now(), pool.reading_s)  # type: ignore[arg-type]
    leases = Leases(pool, clock)
    row = msgspec.structs.replace(ROW, lease_until_ms=1_000_100)
    running = Running(
        "fp.ledger.a.b.c", row, 1, over_ms=1_000_100, until_ms=None, reply="", shown="charge"
    )
    leases.watch(running)
    with caplog.at_level(logging.WARNING, "fencepost.pool"):
        task = asyncio.create_task(leases.renew_for_ever(Away()))  # type: ignore[arg-type]
        await until(lambda: len(asked) >= 2, "a second try")
        task.cancel()
    assert any("1 run and may have to stop" in line for line in caplog.messages)
