"""A handler's own checker is asked before a person, and only once nobody can still be at work."""

import asyncio
from typing import Any

import pytest

from fencepost import Context, Fencepost
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
    working,
)


def app_that_checks(runs: Runs, says: Any, *, fails: bool = False) -> Fencepost:
    """Return an app whose handler has an effect, or fails first, and whose checker says this."""
    app = Fencepost("shop")

    @app.on("task", name="charge")
    async def handler(payload: bytes, ctx: Context) -> None:
        runs.started.append((payload.decode(), ctx.attempt))
        if fails and ctx.attempt == 1:
            raise RuntimeError("connection lost")
        runs.done.append("effect")

    @app.verify("charge")
    async def check(payload: bytes, ctx: Context) -> Any:
        if isinstance(says, Exception):
            raise says
        if callable(says):
            return await says()
        return says

    return app


async def hang() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("says", "state", "attempts", "actor"),
    [
        (True, State.APPLIED, 1, "verify"),
        (False, State.APPLIED, 2, ""),
        (None, State.IN_DOUBT, 1, ""),
        ("yes", State.IN_DOUBT, 1, ""),
        (ValueError("no such account"), State.IN_DOUBT, 1, ""),
        (hang, State.IN_DOUBT, 1, ""),
    ],
    ids=["it happened", "it did not", "unknown", "nonsense", "fails", "hangs"],
)
async def test_what_a_checker_says_of_a_failure(
    broker: EmbeddedBroker, says: Any, state: State, attempts: int, actor: str
) -> None:
    """Yes commits, no runs it again; everything else goes to a person."""
    runs = Runs()
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        await publish(home, event("a"))
        async with working(home, app_that_checks(runs, says, fails=True)):
            await settle(home)
        row = (await rows(home))["k:a"]
        asked = await questions(home, QuestionKind.DOUBT)
    assert (state, attempts, actor) == (row.state, row.attempt, row.actor)
    assert (1 if state is State.IN_DOUBT else 0) == len(asked)


@pytest.mark.parametrize(("said", "effects"), [(True, 1), (False, 2)])
async def test_after_a_crash_the_checker_is_asked_behind_the_quarantine(
    broker: EmbeddedBroker, said: bool, effects: int
) -> None:
    """The dead worker's handler might still be running somewhere; no answer counts before."""
    runs = Runs()
    asked_at: list[float] = []
    loop = asyncio.get_running_loop()

    async def says() -> bool:
        asked_at.append(loop.time())
        return said

    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        await publish(home, event("a"))
        app = app_that_checks(runs, says)
        await crash(home, app, CrashAt("ran"))
        started_s = loop.time()
        async with working(home, app):
            await settle(home)
        row = (await rows(home))["k:a"]
    assert State.APPLIED is row.state
    assert effects == len(runs.done)
    assert 1 == len(asked_at)
    quarantine_s = SHORT["lease_s"] + SHORT["handler_timeout_s"]
    assert asked_at[0] - started_s > quarantine_s - 0.5  # it had begun a moment before


async def test_a_crash_while_the_checker_is_asked(broker: EmbeddedBroker) -> None:
    """Nothing was decided: the next worker asks again."""
    runs = Runs()
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        await publish(home, event("a"))
        app = app_that_checks(runs, True, fails=True)
        await crash(home, app, CrashAt("verified"))
        async with working(home, app):
            await settle(home)
        assert State.APPLIED is (await rows(home))["k:a"].state
    assert 1 == len(runs.started)
