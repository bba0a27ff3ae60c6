"""A loop that stands still puts nobody in doubt who could not do anything meanwhile."""

import asyncio
from collections.abc import Coroutine
from math import inf
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.awake import MOVES_MAX
from fencepost.pool.limits import Limit, Limits
from fencepost.settings import Pool
from fencepost.testing.simulator.loop import VirtualLoop, run_virtual

TIMEOUT_S, LEASE_S = 5.0, 30.0
POOL = Pool(handler_timeout_s=TIMEOUT_S, lease_s=LEASE_S, ack_wait_s=40.0)


def stand_still(for_s: float) -> None:
    """Do what a task does that blocks its loop, or a signal that stops the process."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.now_s += for_s


def play(main: Coroutine[Any, Any, None], seed: int = 1) -> None:
    run_virtual(main, Random(seed))


class Lease:
    """A lease that is renewed `renewed_s` long, as a thread would do it that goes on meanwhile."""

    def __init__(self, renewed_s: float = TIMEOUT_S) -> None:
        self._loop = asyncio.get_running_loop()
        self.renewed_until_s = self._loop.time() + renewed_s

    def left_s(self) -> float:
        return min(self._loop.time(), self.renewed_until_s) + LEASE_S - self._loop.time()

    def renew_for_longer(self, by_s: float) -> None:
        self.renewed_until_s += by_s


async def attempt(limits: Limits, made: Coroutine[Any, Any, object]) -> str:
    """Return what ended an attempt, "" where nothing but its own end did."""
    lease = Lease()
    limit = Limit(lease.left_s, moved=lease.renew_for_longer)
    try:
        await limits.hold(made, limit)
    except TimeoutError:
        assert limit.text
    return limit.text


async def works(*steps_s: float) -> None:
    for step_s in steps_s:
        await asyncio.sleep(step_s)


async def blocks(before_s: float, for_s: float) -> None:
    await asyncio.sleep(before_s)
    stand_still(for_s)


@given(
    seed=st.integers(0, 2**32),
    before_s=st.floats(0.0, 0.9),
    stands_s=st.floats(0.0, 20.0),
    steps_s=st.lists(st.floats(0.0, 0.3), min_size=1, max_size=10),
)
def test_neighbours_of_what_blocks_have_the_time_that_they_lost(
    seed: int, before_s: float, stands_s: float, steps_s: list[float]
) -> None:
    async def main() -> None:
        limits = Limits(POOL)
        ended = await asyncio.gather(
            attempt(limits, blocks(before_s, stands_s)),
            *(attempt(limits, works(1.0, *steps_s)) for _ in range(6)),
        )
        assert set(ended) == {""}

    play(main(), seed)


@given(seed=st.integers(0, 2**32), stands_s=st.floats(0.3, 10.0))
def test_who_does_not_end_is_stopped_when_its_time_awake_is_over(
    seed: int, stands_s: float
) -> None:
    async def main() -> None:
        loop, limits = asyncio.get_running_loop(), Limits(POOL)
        began_s = loop.time()
        ended = await asyncio.gather(
            attempt(limits, blocks(1.0, stands_s)), attempt(limits, works(inf))
        )
        assert list(ended) == ["", "ran into its limit of 5 s"]
        assert TIMEOUT_S + stands_s <= loop.time() - began_s + 0.01 <= TIMEOUT_S + stands_s + 0.5

    play(main(), seed)


def test_the_one_who_is_known_to_have_blocked_keeps_its_own_limit() -> None:
    """A thread that watches says who it is; it is stopped in the pass in which the loop is back."""

    async def main() -> None:
        loop, limits = asyncio.get_running_loop(), Limits(POOL)

        async def culprit() -> None:
            task = asyncio.current_task()
            assert task is not None
            await asyncio.sleep(1.0)
            limits.charge(task)
            stand_still(2 * TIMEOUT_S)
            await asyncio.sleep(1.0)

        neighbour = asyncio.create_task(attempt(limits, works(3.0)))
        assert await attempt(limits, culprit()) == "ran into its limit of 5 s"
        assert loop.time() == pytest.approx(1.0 + 2 * TIMEOUT_S, abs=0.01)
        assert await neighbour == ""

    play(main())


def test_who_blocks_again_and_again_is_stopped_though_nobody_says_who_it_is() -> None:
    """However its lease is renewed: no limit is moved on for ever."""

    async def main() -> None:
        limits, blocked = Limits(POOL), 0

        async def culprit() -> None:
            nonlocal blocked
            while True:
                await asyncio.sleep(0.001)
                stand_still(0.9 * TIMEOUT_S)
                blocked += 1
                assert blocked <= 2 * (MOVES_MAX + 1)

        limit = Limit(lambda: inf)
        with pytest.raises(TimeoutError):
            await limits.hold(culprit(), limit)

    play(main())


@pytest.mark.parametrize("stands_s", [LEASE_S - 2.0, 2 * LEASE_S])
def test_a_lease_that_could_not_be_renewed_ends_its_attempt_at_once(stands_s: float) -> None:
    """The whole process stood still, and the thread that renews with it."""

    async def main() -> None:
        loop, limits = asyncio.get_running_loop(), Limits(POOL)
        limit = Limit(Lease(renewed_s=0.0).left_s)
        back_s = 1.0 + stands_s
        loop.call_later(1.0, stand_still, stands_s)
        with pytest.raises(TimeoutError):
            await limits.hold(works(1.5, 1.0), limit)
        assert limit.text == "its lease could not be renewed, so it was stopped"
        assert loop.time() == pytest.approx(back_s, abs=0.01)

    play(main())


@given(
    seed=st.integers(0, 2**32),
    lease_s=st.floats(6.0, 60.0),
    stands_s=st.lists(st.tuples(st.floats(0.0, 3.0), st.floats(0.0, 20.0)), max_size=10),
)
def test_no_attempt_is_let_go_on_past_its_lease(
    seed: int, lease_s: float, stands_s: list[tuple[float, float]]
) -> None:
    """Whatever its limit is moved on by: it is told to end in the first pass behind its lease."""

    async def main() -> None:
        loop, limits = asyncio.get_running_loop(), Limits(POOL)
        until_s = loop.time() + lease_s
        back_s = 0.0

        async def disturb() -> None:
            nonlocal back_s
            for before_s, for_s in stands_s:
                await asyncio.sleep(before_s)
                stand_still(for_s)
                back_s = loop.time()

        disturbing = asyncio.create_task(disturb())
        with pytest.raises(TimeoutError):
            await limits.hold(works(inf), Limit(lambda: until_s - loop.time()))
        assert loop.time() <= max(until_s, back_s)
        disturbing.cancel()

    play(main(), seed)


def test_a_checker_has_the_time_that_it_lost() -> None:
    async def main() -> None:
        limits = Limits(POOL)

        async def says() -> bool:
            await works(1.0, 0.1)
            return True

        asking = asyncio.create_task(limits.hold_apart(says(), "the checker of charge"))
        await blocks(0.5, 9.0)
        assert await asking is True

    play(main())


def test_what_cleans_up_has_the_time_that_it_lost() -> None:
    """Cancelled, and about to end when the loop stands still: it is not left behind for that."""

    async def main() -> None:
        limits = Limits(POOL)
        limit = Limit(lambda: inf)
        loop = asyncio.get_running_loop()

        async def cleans_up() -> str:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await works(0.1, 0.1)
            return "clean"

        loop.call_later(TIMEOUT_S + 0.05, stand_still, 60.0)
        assert await limits.hold(cleans_up(), limit) == "clean"
        assert not limit.left_behind

    play(main())
