"""A worker dies at each of its crash points; another goes on, and nothing is done in ignorance."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from fencepost import Context, Fencepost, NotApplied, Reject
from fencepost.broker.embedded import EmbeddedBroker
from fencepost_schemas.question import QuestionKind
from fencepost_schemas.row import State
from kit.house import house
from kit.pool import (
    SHORT,
    SOURCE,
    Behave,
    Crash,
    CrashAt,
    Runs,
    app_with,
    crash,
    dead,
    event,
    nothing,
    publish,
    questions,
    rows,
    see_questions,
    settle,
    working,
)

POINTS = [("written", 1), ("ran", 1), ("written", 2), ("published", 1)]
"""In the order in which one application passes them: started, run, committed, about to ack."""


async def reject(payload: bytes, ctx: Context) -> None:
    raise Reject("never")


async def fail(payload: bytes, ctx: Context) -> None:
    raise RuntimeError("cut off")


async def fail_once(payload: bytes, ctx: Context) -> None:
    if ctx.attempt == 1:
        raise NotApplied("busy")


HANDLERS: dict[str, Behave] = {
    "applies": nothing, "rejects": reject, "fails": fail, "is busy once": fail_once
}  # fmt: skip
DOUBT, APPLIED, REJECTED = State.IN_DOUBT, State.APPLIED, State.REJECTED

LIVES: list[tuple[str, str, list[tuple[State, int]]]] = [
    # effect, handler, and for each of POINTS the row at the end and how often the handler ran
    ("once", "applies", [(DOUBT, 0), (DOUBT, 1), (APPLIED, 1), (APPLIED, 1)]),
    ("once", "rejects", [(DOUBT, 0), (DOUBT, 1), (REJECTED, 1), (REJECTED, 1)]),
    ("once", "fails", [(DOUBT, 0), (DOUBT, 1), (DOUBT, 1), (DOUBT, 1)]),
    ("once", "is busy once", [(DOUBT, 0), (DOUBT, 1), (APPLIED, 2), (APPLIED, 2)]),
    ("idempotent", "applies", [(APPLIED, 1), (APPLIED, 2), (APPLIED, 1), (APPLIED, 1)]),
    ("idempotent", "rejects", [(REJECTED, 1), (REJECTED, 2), (REJECTED, 1), (REJECTED, 1)]),
    ("idempotent", "fails", [(REJECTED, 4), (REJECTED, 5), (REJECTED, 5), (REJECTED, 5)]),
    ("idempotent", "is busy once", [(APPLIED, 1), (APPLIED, 2), (APPLIED, 2), (APPLIED, 2)]),
]


@pytest.mark.parametrize("number", range(len(POINTS)), ids=[f"{p}-{n}" for p, n in POINTS])
async def test_a_crash_at_any_point_is_answered_by_the_next_worker(
    broker: EmbeddedBroker, number: int
) -> None:
    """In doubt exactly where it cannot be known, asked once, nothing run in vain, all acked."""
    point, nth = POINTS[number]
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        lives = []
        for place, (effect, handler, ends) in enumerate(LIVES):
            runs = Runs()
            app = app_with(
                runs,
                HANDLERS[handler],
                effect=effect,
                name=f"h{place}",
                app=f"app{place}",
            )
            lives.append((app, runs, ends[number]))
        await publish(home, event("a"))
        await asyncio.gather(*(crash(home, app, CrashAt(point, nth)) for app, _, _ in lives))
        async with working(home, *(app for app, _, _ in lives)):
            await asyncio.gather(*(settle(home, app.name) for app, _, _ in lives))
        found = {row.handler: row.state for row in await home.rows()}
        asked = [one.text.split()[3] for one in await questions(home, QuestionKind.DOUBT)]
        buried = {one.subject.rsplit(".", 1)[1] for one in await dead(home)}
    expected = {f"h{place}": end for place, (_, _, end) in enumerate(lives)}
    ran = {f"h{place}": len(runs.started) for place, (_, runs, _) in enumerate(lives)}
    assert {name: (found[name], ran[name]) for name in found} == expected
    assert sorted(asked) == sorted(name for name, (state, _) in expected.items() if state is DOUBT)
    rejected = {name for name, (state, _) in expected.items() if state is REJECTED}
    assert buried == rejected


async def test_a_crash_between_rejecting_and_burying_does_not_lose_the_burial(
    broker: EmbeddedBroker,
) -> None:
    """The row says rejected, and the event that comes again must find its way to the dead."""
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        await publish(home, event("a"))
        app = app_with(Runs(), reject)
        await crash(home, app, CrashAt("written", 2))
        async with working(home, app):
            await settle(home)
        assert [one.payload for one in await dead(home)] == [event("a").payload]


async def test_a_worker_that_is_cut_down_leaves_what_it_ran_in_doubt(
    broker: EmbeddedBroker,
) -> None:
    """No drain, no word to the broker: eight are running, and eight are asked about."""
    running, never = asyncio.Event(), asyncio.Event()
    runs = Runs()

    async def hang(payload: bytes, ctx: Context) -> None:
        if len(runs.started) == 8:
            running.set()
        await never.wait()

    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        await publish(home, *(event(str(one), str(one)) for one in range(8)))
        async with home.worker(app_with(runs, hang)) as worker:
            await running.wait()
            worker.cancel()
            await asyncio.wait([worker])
            assert runs.done == []
        later = Runs()
        async with working(home, app_with(later)):
            await settle(home)
        found = await rows(home)
        asked = await questions(home, QuestionKind.DOUBT)
    assert later.started == []
    assert {row.state for row in found.values()} == {DOUBT}
    assert {one.key for one in asked} == set(found)


async def test_a_worker_that_is_told_to_stop_brings_to_an_end_what_it_began(
    broker: EmbeddedBroker,
) -> None:
    """The drain waits for the handlers, commits, and takes nothing new."""
    running, go = asyncio.Event(), asyncio.Event()
    runs = Runs()

    async def wait(payload: bytes, ctx: Context) -> None:
        running.set()
        await go.wait()

    async with house(broker, SOURCE) as home:
        await home.init()
        await publish(home, event("a", "1"))
        async with home.worker(app_with(runs, wait)):
            await running.wait()
            asyncio.get_running_loop().call_later(0.1, go.set)
        assert len(runs.done) == 1
        assert (await rows(home))["k:a"].state is APPLIED
        await publish(home, event("b", "2"))
        assert set(await rows(home)) == {"k:a"}


async def test_the_app_is_not_closed_under_a_handler(broker: EmbeddedBroker) -> None:
    """What the lifespan holds open is there until the last handler has ended, drained or not."""
    order: list[str] = []

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        yield
        order.append("closed")

    app = Fencepost("shop", lifespan=lifespan)
    running = asyncio.Event()

    @app.on("task", name="charge")
    async def charge(payload: bytes) -> None:
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            order.append("ended")

    async with house(
        broker, SOURCE, pool={"drain_s": 0.05, "handler_timeout_s": 20, "lease_s": 30,
                              "ack_wait_s": 40}
    ) as home:  # fmt: skip
        await home.init()
        await publish(home, event("a"))
        async with home.worker(app):
            await running.wait()
    assert order == ["ended", "closed"]


async def test_a_handler_that_outlives_its_lease_cannot_commit(broker: EmbeddedBroker) -> None:
    """It swallows its limit and goes on; another worker has asked by then, and its word counts."""
    slow, go, over = asyncio.Event(), asyncio.Event(), asyncio.Event()
    runs = Runs()

    async def stubborn(payload: bytes, ctx: Context) -> None:
        slow.set()
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                over.set()

    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        await publish(home, event("a"))
        app = app_with(runs, stubborn)
        async with working(home, app), working(home, app_with(Runs())):
            await slow.wait()
            await over.wait()
            await see_questions(home, 1, QuestionKind.DOUBT)
            before = (await rows(home))["k:a"]
            go.set()
            await settle(home)
            assert len(runs.done) == 1
        assert (await rows(home))["k:a"] == before
    assert before.state is DOUBT


def test_a_crash_is_nothing_that_the_program_may_catch() -> None:
    """The crashes of these tests are no Exception, as a kill is none."""
    assert not issubclass(Crash, Exception)
