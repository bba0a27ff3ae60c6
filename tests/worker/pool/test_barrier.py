"""The effect barrier: before it everything may be tried again, inside only what is proven."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from fencepost import Context, Fencepost, NotApplied, Reject
from fencepost.broker.embedded import EmbeddedBroker
from fencepost_schemas.question import QuestionKind
from fencepost_schemas.row import State
from kit.house import house
from kit.pool import (
    SHORT,
    SOURCE,
    CrashAt,
    Runs,
    crash,
    event,
    publish,
    questions,
    rows,
    settle,
    steal,
    working,
)

Behave = Callable[[Runs, Context], Awaitable[None]]


def app_with_barrier(runs: Runs, behave: Behave, *, name: str = "charge") -> Fencepost:
    app = Fencepost(f"shop-{name}")

    @app.on("task", name=name, barrier=True)
    async def handler(payload: bytes, ctx: Context) -> None:
        runs.started.append((payload.decode(), ctx.attempt))
        await behave(runs, ctx)

    return app


async def nothing(runs: Runs, ctx: Context) -> None:
    async with ctx.effect():
        runs.done.append("effect")


async def fails_before_once(runs: Runs, ctx: Context) -> None:
    if ctx.attempt == 1:
        raise RuntimeError("no connection to the bank")
    await nothing(runs, ctx)


async def fails_inside(runs: Runs, ctx: Context) -> None:
    async with ctx.effect():
        runs.done.append("effect")
        raise RuntimeError("connection lost")


async def fails_behind(runs: Runs, ctx: Context) -> None:
    await nothing(runs, ctx)
    raise RuntimeError("no receipt printed")


async def not_applied_inside_once(runs: Runs, ctx: Context) -> None:
    async with ctx.effect():
        if ctx.attempt == 1:
            raise NotApplied("the bank said no such account yet")
        runs.done.append("effect")


async def rejects_inside(runs: Runs, ctx: Context) -> None:
    async with ctx.effect():
        raise Reject("the card is void")


async def never_enters(runs: Runs, ctx: Context) -> None:
    return None


async def enters_twice(runs: Runs, ctx: Context) -> None:
    await nothing(runs, ctx)
    await nothing(runs, ctx)


async def too_slow_before_once(runs: Runs, ctx: Context) -> None:
    if ctx.attempt == 1:
        await asyncio.Event().wait()
    await nothing(runs, ctx)


async def too_slow_inside(runs: Runs, ctx: Context) -> None:
    async with ctx.effect():
        runs.done.append("effect")
        await asyncio.Event().wait()


CASES: dict[str, tuple[Behave, State, int, int]] = {
    # what the handler does; the row at the end, how often it ran, how often its effect happened
    "goes well": (nothing, State.APPLIED, 1, 1),
    "fails before": (fails_before_once, State.APPLIED, 2, 1),
    "fails inside": (fails_inside, State.IN_DOUBT, 1, 1),
    "fails behind": (fails_behind, State.APPLIED, 1, 1),
    "not applied inside": (not_applied_inside_once, State.APPLIED, 2, 1),
    "rejects inside": (rejects_inside, State.REJECTED, 1, 0),
    "never enters": (never_enters, State.APPLIED, 1, 0),
    "enters twice": (enters_twice, State.IN_DOUBT, 1, 1),
    "too slow before": (too_slow_before_once, State.APPLIED, 2, 1),
    "too slow inside": (too_slow_inside, State.IN_DOUBT, 1, 1),
}


async def test_what_an_exception_means_on_each_side_of_the_barrier(
    broker: EmbeddedBroker,
) -> None:
    """Before: again. Inside: in doubt unless proven. Behind: the effect counts."""
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        lives = {}
        for number, (case, (behave, *_)) in enumerate(CASES.items()):
            runs = Runs()
            lives[case] = (f"h{number}", runs, app_with_barrier(runs, behave, name=f"h{number}"))
        await publish(home, event("a"))
        async with working(home, *(app for _, _, app in lives.values())):
            await asyncio.gather(*(settle(home, app.name) for _, _, app in lives.values()))
        states = {row.handler: row.state for row in await home.rows()}
        found = {
            case: (states[name], len(runs.started), len(runs.done))
            for case, (name, runs, _) in lives.items()
        }
        asked = await questions(home, QuestionKind.DOUBT)
    assert {case: tuple(expected) for case, (_, *expected) in CASES.items()} == found
    doubts = [case for case, (_, state, *_) in CASES.items() if state is State.IN_DOUBT]
    assert len(doubts) == len(asked)


@pytest.mark.parametrize(
    ("point", "nth", "expected", "effects"),
    [
        ("written", 1, State.APPLIED, 1),
        ("at_barrier", 1, State.APPLIED, 1),
        ("entered", 1, State.IN_DOUBT, 0),
        ("ran", 1, State.IN_DOUBT, 1),
        ("written", 2, State.APPLIED, 1),
        ("published", 1, State.APPLIED, 1),
    ],
)
async def test_only_a_crash_behind_the_barrier_is_a_doubt(
    broker: EmbeddedBroker, point: str, nth: int, expected: State, effects: int
) -> None:
    """A worker that dies before it is followed by another one, without a question."""
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        await publish(home, event("a"))
        runs = Runs()
        app = app_with_barrier(runs, nothing)
        await crash(home, app, CrashAt(point, nth))
        async with working(home, app):
            await settle(home, app.name)
        assert expected is (await rows(home))["k:a"].state
        assert effects == len(runs.done)


async def test_a_lost_claim_does_not_get_through_the_barrier(broker: EmbeddedBroker) -> None:
    """A worker that slept past its lease finds the event taken over, and leaves it alone."""
    asleep, awake = asyncio.Event(), asyncio.Event()

    async def dozes(runs: Runs, ctx: Context) -> None:
        if ctx.attempt == 1:
            asleep.set()
            await awake.wait()
        await nothing(runs, ctx)

    pool = {**SHORT, "handler_timeout_s": 20.0, "renew_s": 0.3, "lease_s": 1.0}
    async with house(broker, SOURCE, pool=pool) as home:
        await home.init()
        await publish(home, event("a"))
        runs = Runs()
        app = app_with_barrier(runs, dozes)
        async with working(home, app):
            async with asyncio.timeout(10):
                await asleep.wait()
            await steal(home, "k:a")
            awake.set()
            await settle(home, app.name)
        row = (await rows(home))["k:a"]
        assert (1, State.APPLIED, 3) == (len(runs.done), row.state, row.attempt)


async def test_a_handler_in_a_thread_has_a_barrier_too(broker: EmbeddedBroker) -> None:
    """`with` instead of `async with`, and the same rules."""
    runs = Runs()
    app = Fencepost("shop")

    @app.on("task", name="charge", barrier=True)
    def handler(payload: bytes, ctx: Context) -> None:
        runs.started.append((payload.decode(), ctx.attempt))
        if ctx.attempt == 1:
            raise RuntimeError("no connection to the bank")
        with ctx.effect():
            runs.done.append("effect")

    @app.on("task", name="refund", barrier=True)
    def fails(payload: bytes, ctx: Context) -> None:
        with ctx.effect():
            raise RuntimeError("connection lost")

    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        await publish(home, event("a"))
        async with working(home, app):
            await settle(home)
        found = {row.handler: (row.state, row.attempt) for row in await home.rows()}
    assert {"charge": (State.APPLIED, 2), "refund": (State.IN_DOUBT, 1)} == found
    assert ["effect"] == runs.done


async def test_with_in_a_coroutine_is_told_and_does_not_hang(broker: EmbeddedBroker) -> None:
    """It would wait for its own loop; it fails before the barrier, so nothing is in doubt."""

    async def wrong(runs: Runs, ctx: Context) -> None:
        with ctx.effect():
            runs.done.append("effect")

    async with house(broker, SOURCE, pool={**SHORT, "retry_longest_s": 0.05}) as home:
        await home.init()
        await publish(home, event("a"))
        runs = Runs()
        app = app_with_barrier(runs, wrong)
        async with working(home, app):
            await settle(home, app.name)
        row = (await rows(home))["k:a"]
    assert State.REJECTED is row.state
    assert "async with ctx.effect()" in row.error
    assert [] == runs.done
