"""A handler that is cancelled and does not end is left behind: its event goes on without it."""

import asyncio
import contextlib
import logging
from typing import Any

import pytest

from fencepost import Context, Fencepost
from fencepost.errors import NotFine
from fencepost.pool.limits import END_WITHIN_S
from fencepost_schemas.question import QuestionKind
from fencepost_schemas.row import State
from kit.anywhere import play_in_memory, worker
from kit.house import House
from kit.lives import Life
from kit.pool import Runs, app_with, event, publish, questions, rows, see_questions
from kit.wait import until

LONG_S = 300.0
"""Virtual seconds, for what takes leases and quarantines."""
POOL: dict[str, Any] = {
    "slots": 4,
    "handler_timeout_s": 2.0,
    "lease_s": 6.0,
    "ack_wait_s": 8.0,
    "drain_s": 30.0,
}


class Hanging:
    """What swallows every cancellation, in the first attempt of each event, until it is let go."""

    def __init__(self) -> None:
        self.let_go = asyncio.Event()
        self.hangs = 0

    async def __call__(self, ctx: Context) -> None:
        if ctx.attempt > 1:
            return
        self.hangs += 1
        while not self.let_go.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await self.let_go.wait()
        self.hangs -= 1


@pytest.mark.parametrize(
    ("effect", "place", "expected"),
    [
        ("once", "before", "in_doubt 1/0"),
        ("once", "behind", "in_doubt 1/1"),
        ("barrier", "before", "applied 2/1"),
        ("barrier", "inside", "in_doubt 1/0"),
        ("keyed", "before", "applied 2/1"),
        ("keyed", "behind", "applied 2/1"),
        ("idempotent", "before", "applied 2/1"),
        ("idempotent", "behind", "applied 2/2"),
    ],
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_its_row_is_dealt_with_as_if_its_worker_had_not_come_back(
    effect: str, place: str, expected: str, seed: int
) -> None:
    """By the very worker in which it hangs, of which there is only one."""

    async def play(home: House) -> tuple[str, str]:
        life, hanging = Life(home, effect), Hanging()
        setattr(life, place, hanging)
        await life.comes()
        async with life.worker() as running:
            await life.begun.wait()
            await life.rests()
            before = await life.is_one()
            assert hanging.hangs == 1
            assert not running.done()
            hanging.let_go.set()
            await until(lambda: len(life.ended) == len(life.started), "it to end at last")
            await life.rests()
            stands = (await life.row()).state
        running.result()
        return before, stands

    before, stands = play_in_memory(play, seed, pool=POOL)
    assert before == expected
    assert expected.startswith(stands), "what it said in the end changed nothing"


def test_who_stands_before_its_barrier_does_not_get_through_any_more() -> None:
    async def play(home: House) -> str:
        life, hanging = Life(home, "barrier"), Hanging()
        life.before = hanging
        await life.comes()
        async with life.worker():
            await life.begun.wait()
            await life.rests()
            hanging.let_go.set()
            await until(lambda: len(life.ended) == 2, "both attempts to end")
        return await life.is_one()

    assert play_in_memory(play, 1, pool=POOL) == "applied 2/1"


def test_a_checker_decides_behind_the_quarantine() -> None:
    async def play(home: House) -> tuple[str, int]:
        life, hanging = Life(home, "once"), Hanging()
        life.behind, life.checker = hanging, lambda: True
        await life.comes()
        async with life.worker():
            await life.begun.wait()
            await life.rests()
            hanging.let_go.set()
        return await life.is_one(), life.checked

    assert play_in_memory(play, 1, pool=POOL) == ("applied 1/1", 1)


def test_it_is_told_by_name_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    async def play(home: House) -> None:
        life, hanging = Life(home, "once"), Hanging()
        life.before = hanging
        await life.comes()
        async with life.worker():
            await life.begun.wait()
            await life.rests()
            hanging.let_go.set()
            await until(lambda: bool(life.ended), "it to end at last")

    with caplog.at_level(logging.WARNING, "fencepost.pool"):
        play_in_memory(play, 1, pool=POOL)
    left, ended = [line for line in caplog.messages if "left behind" in line]
    assert left.startswith("once at '1' of orders: ran into its limit of 2 s; it was cancelled")
    assert ended == "once at '1' of orders: left behind, ended now: applied; it does not count"


def test_its_slot_is_free_again() -> None:
    """One slot, and one event that hangs: the next one is applied."""

    async def play(home: House) -> dict[str, State]:
        runs, hanging = Runs(), Hanging()

        async def behave(payload: bytes, ctx: Context) -> None:
            if ctx.event.key == "hangs":
                await hanging(ctx)

        await publish(home, event("hangs", "1"), event("next", "2"))
        async with worker(home, app_with(runs, behave)):
            await until(lambda: len(runs.done) == 1, "the next one", LONG_S)
            hanging.let_go.set()
        return {key: row.state for key, row in (await rows(home)).items()}

    stand = play_in_memory(play, 1, pool={**POOL, "slots": 1})
    assert stand["k:next"] is State.APPLIED


@pytest.mark.parametrize(("returns", "expected"), [(True, State.APPLIED), (False, State.IN_DOUBT)])
def test_a_long_clean_up_is_waited_for(returns: bool, expected: State) -> None:
    """What it says within the bound counts, as nobody has taken over."""

    async def play(home: House) -> State:
        life = Life(home, "once")

        async def cleans_up(ctx: Context) -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await asyncio.sleep(END_WITHIN_S / 2)
                if not returns:
                    raise

        life.behind = cleans_up
        await life.comes()
        async with life.worker():
            await life.begun.wait()
            await life.rests()
        return (await life.row()).state

    assert play_in_memory(play, 1, pool={**POOL, "lease_s": 25.0, "ack_wait_s": 30.0}) is expected


def test_its_lease_is_renewed_no_more() -> None:
    async def play(home: House) -> tuple[int, int]:
        life, hanging = Life(home, "idempotent"), Hanging()
        life.before = hanging
        await life.comes()
        async with life.worker():
            await life.begun.wait()
            first = (await life.row()).lease_until_ms
            await asyncio.sleep(100.0 + END_WITHIN_S + 1.0)
            before = (await life.row()).lease_until_ms
            assert first < before, "it was renewed while it might run"
            await asyncio.sleep(50.0)
            after = (await life.row()).lease_until_ms
            hanging.let_go.set()
        return before, after

    pool = {**POOL, "handler_timeout_s": 100.0, "lease_s": 150.0, "ack_wait_s": 200.0}
    before, after = play_in_memory(play, 1, pool=pool)
    assert before == after


def test_a_checker_that_does_not_end_is_left_behind_and_a_person_asked() -> None:
    async def play(home: House) -> tuple[str, State]:
        app, let_go = Fencepost("shop"), asyncio.Event()

        @app.on("task", name="charge")
        async def charge(payload: bytes) -> None:
            raise RuntimeError("connection lost")

        @app.verify("charge")
        async def check(payload: bytes) -> bool:
            while not let_go.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await let_go.wait()
            return True

        await publish(home, event("a"))
        async with worker(home, app):
            [asked] = await see_questions(home, 1, QuestionKind.DOUBT)
            let_go.set()
            await asyncio.sleep(1.0)
            return asked.error, (await rows(home))["k:a"].state

    error, state = play_in_memory(play, 1, pool=POOL)
    assert error.endswith(
        "its checker failed: LeftBehind: did not end within 10 s after it was cancelled"
    )
    assert state is State.IN_DOUBT


def test_a_worker_ends_itself_when_too_many_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """It finishes what it has, says why, and takes nothing more."""
    monkeypatch.setattr("fencepost.pool.limits.LEFT_BEHIND_MAX", 3)

    async def play(home: House) -> BaseException | None:
        runs, hanging = Runs(), Hanging()

        async def behave(payload: bytes, ctx: Context) -> None:
            await hanging(ctx)

        await publish(home, *(event(str(number), str(number)) for number in range(20)))
        async with worker(home, app_with(runs, behave, effect="idempotent")) as running:
            await asyncio.wait([running], timeout=LONG_S)
            hanging.let_go.set()
            assert running.done()
        assert [] == await questions(home)
        assert len(runs.started) < 20
        return running.exception()

    error = play_in_memory(play, 1, pool=POOL)
    assert isinstance(error, NotFine)
    assert "3 attempts did not end though they were cancelled" in str(error)
    assert "charge at" in str(error)
