"""A retry that is far off waits in a stream of its own, and in nobody's way."""

import asyncio

import msgspec
import pytest

from fencepost import Context, Fencepost, Retry
from fencepost.broker.embedded import EmbeddedBroker
from fencepost.ports import Message
from fencepost_schemas.question import Held, Parked
from fencepost_schemas.row import State
from fencepost_schemas.subject import EVENTS, RETRIES
from kit.house import House, house
from kit.pool import SHORT, SOURCE, CrashAt, Runs, crash, event, publish, rows, settle, working
from kit.wait import until

AFTER_S = 2.0
"""Longer than SHORT's ack_wait_s, so that it is parked."""


def app_that_waits(runs: Runs, after: float = AFTER_S) -> Fencepost:
    app = Fencepost("shop")

    @app.on("task", name="charge")
    async def handler(payload: bytes, ctx: Context) -> None:
        runs.started.append((payload.decode(), ctx.attempt))
        if ctx.attempt == 1:
            raise Retry("the bank is closed", after=after)
        runs.done.append(payload.decode())

    return app


async def parked(home: House) -> list[Parked]:
    scan = home.connection.scan(RETRIES, home.subjects.retries_of("shop"))
    return [msgspec.json.decode(one.payload, type=Parked) async for one in scan]


async def unacked(home: House) -> int:
    info = await home.connection.api(f"CONSUMER.INFO.{EVENTS}.fp-shop")
    return int(info["num_ack_pending"]) + int(info["num_pending"])


async def test_a_far_retry_is_parked_and_comes_when_it_is_due(broker: EmbeddedBroker) -> None:
    """The event is acked meanwhile; once it is dealt with nothing is left behind."""
    runs = Runs()
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        await publish(home, event("a"))
        async with working(home, app_that_waits(runs)):

            async def waits() -> bool:
                return bool(await parked(home)) and await unacked(home) == 0

            await until(waits, "the event to be parked and acked")
            row = (await rows(home))["k:a"]
            assert (State.RETRY_WAIT, "the bank is closed") == (row.state, row.error)
            assert [row.due_ms] == [one.due_ms for one in await parked(home)]
            assert [] == runs.done
            await until(lambda: bool(runs.done), "the second attempt")
            await settle(home)
        row = (await rows(home))["k:a"]
        assert (State.APPLIED, 2) == (row.state, row.attempt)
        assert row.changed_ms - row.first_seen_ms >= AFTER_S * 1000
        assert [] == await parked(home)


async def test_a_near_retry_stays_with_the_broker(broker: EmbeddedBroker) -> None:
    """Nothing is parked that comes again before its delivery would have been given up."""
    runs = Runs()
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        await publish(home, event("a"))
        async with working(home, app_that_waits(runs, 0.1)):
            await settle(home)
        assert 0 == (await home.connection.api(f"STREAM.INFO.{RETRIES}"))["state"]["last_seq"]
        assert State.APPLIED is (await rows(home))["k:a"].state


@pytest.mark.parametrize(("point", "nth"), [("written", 2), ("published", 1)])
async def test_a_crash_around_the_parking_loses_no_retry(
    broker: EmbeddedBroker, point: str, nth: int
) -> None:
    """The row waits and the event comes again unacked: it is parked then."""
    runs = Runs()
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        await publish(home, event("a"))
        app = app_that_waits(runs)
        await crash(home, app, CrashAt(point, nth))
        async with working(home, app):
            await until(lambda: bool(runs.done), "the second attempt")
            await settle(home)
        assert State.APPLIED is (await rows(home))["k:a"].state
    assert 2 == len(runs.started)
    assert 1 == len(runs.done)


async def test_an_event_that_comes_again_before_it_is_due(broker: EmbeddedBroker) -> None:
    """Another generation brings the key again: it runs once, when it is due."""
    runs = Runs()
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        await publish(home, event("a"))
        async with working(home, app_that_waits(runs)):

            async def waits() -> bool:
                return bool(await parked(home))

            await until(waits, "the event to be parked")
            await publish(home, event("a", "2"))
            await until(lambda: bool(runs.done), "the second attempt")
            await settle(home)
        assert (State.APPLIED, 2) == (
            (await rows(home))["k:a"].state,
            (await rows(home))["k:a"].attempt,
        )


async def test_what_is_no_parked_event_is_passed_over(broker: EmbeddedBroker) -> None:
    """Garbage goes; what only a newer release knows stays for it."""
    runs = Runs()
    carrier = Held("", {}, b"{}", "shop", "refund")
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        subject = home.subjects.retry("shop", "charge", 1)
        for payload in (b"\xff", b'{"due_ms":"soon"}', msgspec.json.encode(Parked(0, carrier))):
            await home.connection.store(Message(subject, payload))
        await publish(home, event("b"))
        async with working(home, app_that_waits(runs, 0.1)):
            await until(lambda: bool(runs.done), "the event behind them to be applied")

            async def two_left() -> bool:
                info = await home.connection.api(f"STREAM.INFO.{RETRIES}")
                return int(info["state"]["messages"]) == 2

            await until(two_left, "the garbage to go, and the rest to stay")
            await asyncio.sleep(0)
