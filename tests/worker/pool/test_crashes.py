"""A worker dies at each of its crash points; another goes on, and nothing is done in ignorance."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fencepost import Context, Fencepost, NotApplied, Reject
from fencepost.broker.embedded import EmbeddedBroker
from fencepost.pool.crash_points import Crash
from fencepost_schemas.question import QuestionKind
from fencepost_schemas.row import State
from kit.anywhere import play_in_memory, play_on_broker
from kit.house import House, house
from kit.lives import Before, Life
from kit.pool import (
    SHORT,
    SOURCE,
    CrashAt,
    Runs,
    app_with,
    crash,
    dead,
    event,
    publish,
    questions,
    rows,
    see_questions,
    settle,
    working,
)

POINTS = [
    ("written", 1), ("at_barrier", 1), ("entered", 1), ("ran", 1), ("written", 2), ("published", 1)
]  # fmt: skip
"""In the order in which one application passes them: claimed, started, run, committed, to ack."""
DOUBT, APPLIED = State.IN_DOUBT, State.APPLIED


async def reject(ctx: Context) -> None:
    raise Reject("never")


async def fail(ctx: Context) -> None:
    raise RuntimeError("cut off")


async def be_busy_once(ctx: Context) -> None:
    if ctx.attempt == 1:
        raise NotApplied("busy")


ENDINGS: dict[str, Before] = {"rejects": reject, "fails": fail, "is-busy-once": be_busy_once}

LIVES: list[tuple[str, str, str]] = [
    # What a handler says of its effect, how it ends inside of it, and for each of POINTS the row at
    # the end with how often the handler began. That nothing happened twice is seen in any case.
    #    written 1  | at_barrier | entered    | ran        | written 2  | published
    ("once", "rejects",
        "in_doubt 0 | -          | -          | in_doubt 1 | rejected 1 | rejected 1"),
    ("once", "fails",
        "in_doubt 0 | -          | -          | in_doubt 1 | in_doubt 1 | in_doubt 1"),
    ("once", "is-busy-once",
        "in_doubt 0 | -          | -          | in_doubt 1 | applied 2  | applied 2 "),
    ("barrier", "rejects",
        "rejected 1 | rejected 2 | in_doubt 1 | in_doubt 1 | rejected 1 | rejected 1"),
    ("barrier", "fails",
        "in_doubt 1 | in_doubt 2 | in_doubt 1 | in_doubt 1 | in_doubt 1 | in_doubt 1"),
    ("barrier", "is-busy-once",
        "applied 1  | applied 2  | in_doubt 1 | in_doubt 1 | applied 2  | applied 2 "),
    ("keyed", "rejects",
        "rejected 1 | -          | -          | rejected 2 | rejected 1 | rejected 1"),
    ("keyed", "fails",
        "rejected 4 | -          | -          | rejected 5 | rejected 5 | rejected 5"),
    ("keyed", "is-busy-once",
        "applied 1  | -          | -          | applied 2  | applied 2  | applied 2 "),
    ("idempotent", "rejects",
        "rejected 1 | -          | -          | rejected 2 | rejected 1 | rejected 1"),
    ("idempotent", "fails",
        "rejected 4 | -          | -          | rejected 5 | rejected 5 | rejected 5"),
    ("idempotent", "is-busy-once",
        "applied 1  | -          | -          | applied 2  | applied 2  | applied 2 "),
]  # fmt: skip


@pytest.mark.parametrize("where", ["memory", "broker"])
@pytest.mark.parametrize("number", range(len(POINTS)), ids=[f"{p}-{n}" for p, n in POINTS])
def test_a_handler_that_does_not_end_well_is_answered_by_the_next_worker(
    number: int, where: str, tmp_path: Path
) -> None:
    """Rejected, failed or busy: in doubt exactly where it cannot be known, and buried once it is.

    How an application ends that goes well is the table of crash points (test_crash_table).
    """
    point, nth = POINTS[number]
    ends = {
        (effect, ending): told.split("|")[number].strip()
        for effect, ending, told in LIVES
        if told.split("|")[number].strip() != "-"
    }

    async def live(home: House, effect: str, ending: str) -> str:
        life = Life(home, effect, f"{effect}-{ending}")
        life.inside = ENDINGS[ending]
        await life.comes()
        await life.is_cut_short(reached=CrashAt(point, nth))
        await life.goes_on()
        state_and_runs, effects = (await life.is_one()).split("/")
        assert int(effects) == (1 if state_and_runs.startswith("applied") else 0)
        return state_and_runs

    async def play(home: House) -> dict[tuple[str, str], str]:
        told = await asyncio.gather(*(live(home, *one) for one in ends))
        return dict(zip(ends, told, strict=True))

    if where == "memory":
        assert ends == play_in_memory(play, 0, pool=SHORT)
    else:
        assert ends == play_on_broker(play, tmp_path / "broker", pool=SHORT)


async def test_a_crash_between_rejecting_and_burying_does_not_lose_the_burial(
    broker: EmbeddedBroker,
) -> None:
    """The row says rejected, and the event that comes again must find its way to the dead."""

    async def rejects(payload: bytes, ctx: Context) -> None:
        raise Reject("never")

    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        await publish(home, event("a"))
        app = app_with(Runs(), rejects)
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
        async with working(home, app):
            await slow.wait()  # only then may the other one take events: this one is not for it
            async with working(home, app_with(Runs())):
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
