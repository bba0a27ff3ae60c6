"""The broker repeats itself and goes away: the ledger alone is believed.

What holds for each effect is in test_hard_days.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from fencepost import Context, Fencepost
from fencepost.broker.embedded import EmbeddedBroker
from fencepost.errors import LedgerDiffers, NotFine
from fencepost_schemas.question import QuestionKind
from fencepost_schemas.row import State
from fencepost_schemas.subject import EVENTS, LEDGER, QUESTIONS
from kit.house import House, house
from kit.loss import lose
from kit.pool import (
    SHORT,
    SOURCE,
    Runs,
    app_with,
    doubtful,
    event,
    publish,
    publish_seam,
    questions,
    rows,
    see_questions,
    settle,
    states,
    working,
)
from kit.wait import until


async def delivered(home: House) -> int:
    """Return how often an event was handed to a worker of the shop."""
    info = await home.connection.api(f"CONSUMER.INFO.{EVENTS}.fp-shop")
    return int(info["delivered"]["consumer_seq"])


async def asking(home: House, workers: int) -> bool:
    """Return True once so many workers wait for an event of the shop."""
    info = await home.connection.api(f"CONSUMER.INFO.{EVENTS}.fp-shop")
    return int(info.get("num_waiting", 0)) >= workers


async def test_an_event_that_comes_again_while_it_runs_finds_the_row_busy(
    broker: EmbeddedBroker,
) -> None:
    """The broker is told not to wait for acks; the other worker gets it too, and leaves it be."""
    running, go = asyncio.Event(), asyncio.Event()
    runs = Runs()

    async def slow(payload: bytes, ctx: Context) -> None:
        running.set()
        await go.wait()

    # With one slot each, the worker that runs it cannot be the one that gets it again.
    patient = {"slots": 1, "handler_timeout_s": 20.0, "lease_s": 25.0, "ack_wait_s": 30.0}
    async with house(broker, SOURCE, pool=patient) as home:
        await home.init()
        async with working(home, app_with(runs, slow), app_with(runs, slow)):
            await until(lambda: asking(home, 2), "both workers to ask for events")
            info = await home.connection.api(f"CONSUMER.INFO.{EVENTS}.fp-shop")
            hasty = {**info["config"], "ack_wait": 50_000_000}
            request = {"stream_name": EVENTS, "config": hasty}
            created = await home.connection.api(f"CONSUMER.CREATE.{EVENTS}.fp-shop", request)
            assert "error" not in created
            await publish(home, event("a"))
            await running.wait()

            async def often() -> bool:
                return await delivered(home) >= 2

            await until(often, "the event to come again")
            assert runs.keys == ['{"k":"a"}']
            go.set()
            await settle(home)
            assert (await rows(home))["k:a"].state is State.APPLIED
            assert await questions(home) == []
    assert runs.most == 1


async def test_an_unreachable_ledger_closes_the_pool_until_it_is_back(
    broker: EmbeddedBroker,
) -> None:
    """No row, no run: with the ledger's stream out of reach nothing starts, and nothing is lost."""
    runs = Runs()
    async with house(broker, SOURCE, broker={"reply_s": 0.5}) as home:
        await home.init()
        config = (await home.connection.api(f"STREAM.INFO.{LEDGER}"))["config"]
        async with working(home, app_with(runs), app_with(runs)) as workers:
            away = {**config, "subjects": ["elsewhere.>"]}
            await home.connection.api(f"STREAM.UPDATE.{LEDGER}", away)
            await publish(home, *(event(str(one), str(one)) for one in range(40)))

            async def taken() -> bool:
                return await delivered(home) >= 32

            await until(taken, "the events to be taken")
            done, _ = await asyncio.wait(workers, timeout=1.2)
            assert not done, "the workers wait, they do not give up"
            assert runs.started == []
            await home.connection.api(f"STREAM.UPDATE.{LEDGER}", config)
            await settle(home)
        assert set((await states(home)).values()) == {State.APPLIED}
    assert runs.most == 1
    assert len(runs.started) == 40


async def test_a_commit_whose_ledger_went_away_ends_in_one_truth(broker: EmbeddedBroker) -> None:
    """The handlers end while the broker is dead: applied or in doubt, and never run twice."""
    running, go = asyncio.Event(), asyncio.Event()
    runs = Runs()

    async def slow(payload: bytes, ctx: Context) -> None:
        if len(runs.started) == 10:
            running.set()
        await go.wait()

    settings = {**SHORT, "handler_timeout_s": 5.0, "lease_s": 6.0, "ack_wait_s": 7.0}
    async with house(broker, SOURCE, broker={"reply_s": 0.5}, pool=settings) as home:
        await home.init()
        async with working(home, app_with(runs, slow)):
            await publish(home, *(event(str(one), str(one)) for one in range(10)))
            await running.wait()
            await broker.kill()
            go.set()
            await until(lambda: len(runs.done) == 10, "the handlers to end")
            await broker.start()
            await settle(home)
        found = await states(home)
        asked = {one.key for one in await questions(home, QuestionKind.DOUBT)}
    assert len(found) == 10
    assert set(found.values()) <= {State.APPLIED, State.IN_DOUBT}
    assert asked == {key for key, state in found.items() if state is State.IN_DOUBT}
    assert runs.most == 1


async def test_a_question_is_asked_once_the_desk_can_be_reached(broker: EmbeddedBroker) -> None:
    """Nobody takes questions for a while: the event comes again until its question stands."""

    async def fail(payload: bytes, ctx: Context) -> None:
        raise RuntimeError("cut off")

    runs = Runs()
    async with house(broker, SOURCE, broker={"reply_s": 0.5}, pool=SHORT) as home:
        await home.init()
        name = "FENCEPOST_QUESTIONS"
        config = (await home.connection.api(f"STREAM.INFO.{name}"))["config"]
        async with working(home, app_with(runs, fail)):
            away = {**config, "subjects": ["elsewhere.>"]}
            await home.connection.api(f"STREAM.UPDATE.{name}", away)
            await publish(home, event("a"))

            async def doubtful() -> bool:
                return State.IN_DOUBT in (await states(home)).values()

            await until(doubtful, "the doubt")
            await home.connection.api(f"STREAM.UPDATE.{name}", config)
            await settle(home)
            [asked] = await questions(home, QuestionKind.DOUBT)
    assert asked.key == "k:a"
    assert runs.most == 1


async def test_a_broker_that_is_away_at_the_stop_does_not_hang_the_worker(
    broker: EmbeddedBroker,
) -> None:
    """The drain has a limit; what it could not bring to an end is another worker's."""
    runs = Runs()
    async with house(broker, SOURCE, broker={"reply_s": 0.5}, pool={"drain_s": 0.5}) as home:
        await home.init()
        async with working(home, app_with(runs)) as [worker]:
            await publish(home, event("a"))
            await until(lambda: len(runs.done) == 1, "the run")
            await settle(home)
            await broker.kill()
        assert worker.done()
        await broker.start()


async def test_an_event_that_the_desk_cannot_take_does_not_stop_the_others(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Its bytes fit into an event but not under a question: it waits in the stream for a ruling."""
    runs = Runs()
    big = doubtful("big", "2", payload=b"x" * 820_000)
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        await publish_seam(home)
        async with working(home, app_with(runs)):
            await publish(home, big, event("a", "1"))
            [seam] = await see_questions(home, 1, QuestionKind.SEAM)
            await until(lambda: runs.keys == ['{"k":"a"}'], "the other event")
            await until(lambda: "max_payload" in caplog.text, "a complaint")
            await home.book.answer(seam.id, "accept", "ada")
            await settle(home)
        found = await states(home)
    assert found == {"k:a": State.APPLIED, "k:big": State.APPLIED}
    assert runs.most == 1


async def test_a_ledger_that_is_another_one_after_a_break_stops_the_worker(
    broker: EmbeddedBroker,
) -> None:
    """It was made again while the worker was cut off, as in a restore: nothing must run by it."""
    async with house(broker, SOURCE, broker={"reply_s": 1.0}) as home:
        await home.init()
        async with home.worker(app_with(Runs())) as worker:
            await until(lambda: asking(home, 1), "the worker to ask for events")
            await home.connection.api(f"STREAM.DELETE.{LEDGER}")
            with pytest.raises(LedgerDiffers):
                await home.init()
            await broker.kill()
            await broker.start()
            await asyncio.wait([worker], timeout=20)
            with pytest.raises(LedgerDiffers):
                worker.result()


async def lose_the_identity(home: House) -> None:
    """Do what a limit does that forgets the oldest row first, which is the identity."""
    await lose(home.connection, LEDGER, home.subjects.ledger_identity())


async def make_the_ledger_again(home: House) -> None:
    await home.connection.api(f"STREAM.DELETE.{LEDGER}")
    with pytest.raises(LedgerDiffers):
        await home.init()


@pytest.mark.parametrize("trouble", [lose_the_identity, make_the_ledger_again])
@pytest.mark.parametrize("barrier", [False, True], ids=["once", "barrier"])
async def test_a_ledger_that_is_exchanged_under_a_worker_stops_it_at_its_next_start(
    broker: EmbeddedBroker, trouble: Callable[[House], Awaitable[None]], barrier: bool
) -> None:
    """No handler begins by a ledger that does not know what was applied, whoever made it so.

    What runs at that moment comes to its end. The worker's connection is never lost.
    """
    began, go, done = asyncio.Event(), asyncio.Event(), []
    app = Fencepost("shop")

    @app.on("task", name="charge", barrier=barrier)
    async def charge(payload: bytes, ctx: Context) -> None:
        async with ctx.effect():
            began.set()
            await go.wait()
            done.append(payload.decode())

    async with house(broker, SOURCE) as home:
        await home.init()
        async with home.worker(app) as worker:
            await publish(home, event("a", "1"))
            await began.wait()
            await trouble(home)
            await publish(home, event("b", "2"))
            go.set()
            await asyncio.wait([worker], timeout=20)
            with pytest.raises(LedgerDiffers):
                worker.result()
    assert ['{"k":"a"}'] == done


@pytest.mark.parametrize("limit", ["max_bytes", "max_msgs"])
async def test_a_worker_does_not_begin_on_a_ledger_that_forgets(
    broker: EmbeddedBroker, limit: str
) -> None:
    """Nor does it where the questions do; `init` sets it right."""
    async with house(broker, SOURCE) as home:
        for name in (LEDGER, QUESTIONS):
            await home.init()
            config = (await home.connection.api(f"STREAM.INFO.{name}"))["config"]
            forgets = {**config, "discard": "old", limit: 100_000}
            assert "error" not in await home.connection.api(f"STREAM.UPDATE.{name}", forgets)
            async with home.worker(app_with(Runs())) as worker:
                await asyncio.wait([worker], timeout=20)
                with pytest.raises(NotFine, match=f"stream {name}: discard .*fencepost init"):
                    worker.result()
            mended = (await home.init()).streams_mended
            assert [True, True] == [f"stream {name}: " in one for one in mended]
        runs = Runs()
        async with working(home, app_with(runs)):
            await publish(home, event("a"))
            await settle(home)
    assert 1 == runs.most
