"""A limit does not count the time in which the loop stood still, and is not put off for ever."""

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.awake import MOVES_MAX, Awake
from fencepost.testing.simulator.loop import VirtualLoop, run_virtual

LIMIT_S = 2.0


def stand_still(for_s: float) -> None:
    """Do what a task does that blocks its loop, or a signal that stops the process."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.now_s += for_s


def play(main: Coroutine[Any, Any, None], seed: int = 1) -> None:
    run_virtual(main, Random(seed))


async def some_passes(count: int) -> None:
    """Return what takes so many passes of the loop, as reading from a socket does."""
    for _ in range(count):
        await asyncio.sleep(0)


@given(
    seed=st.integers(0, 2**32),
    before_s=st.floats(0.0, 1.9),
    stands_s=st.floats(0.3, 100.0),
    passes=st.integers(1, 20),
)
def test_what_ended_in_a_standstill_is_not_late(
    seed: int, before_s: float, stands_s: float, passes: int
) -> None:
    """Whenever it began, however long it was, and however many passes it takes to hear of it."""

    async def main() -> None:
        ready = asyncio.Event()

        async def waits() -> None:
            async with Awake().timeout(LIMIT_S):
                await ready.wait()
                await some_passes(passes)

        waiting = asyncio.create_task(waits())
        await asyncio.sleep(before_s)
        ready.set()
        stand_still(stands_s)
        await waiting

    play(main(), seed)


def test_the_time_awake_is_what_counts() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        ended = loop.create_future()
        began_s = loop.time()
        Awake().call_after(LIMIT_S, lambda: ended.set_result(loop.time()))
        await asyncio.sleep(0.5)
        stand_still(9.0)
        at_s = await ended
        assert LIMIT_S + 9.0 <= at_s - began_s <= LIMIT_S + 9.3

    play(main())


def test_a_limit_without_a_standstill_ends_on_time() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        with pytest.raises(TimeoutError):
            async with Awake().timeout(LIMIT_S):
                await asyncio.Event().wait()
        assert loop.time() - began_s == pytest.approx(LIMIT_S)

    play(main())


def test_a_loop_that_stands_still_again_and_again_does_not_put_a_limit_off_for_ever() -> None:
    async def main() -> None:
        over = asyncio.Event()
        Awake().call_after(LIMIT_S, over.set)
        stood = 0
        while not over.is_set():
            await asyncio.sleep(0.001)
            stand_still(1.5 * LIMIT_S)
            stood += 1
            assert stood <= 2 * (MOVES_MAX + 1)

    play(main())


def test_one_standstill_counts_for_every_limit_and_only_once() -> None:
    """A limit that began behind it knows nothing of it."""

    async def main() -> None:
        loop, awake = asyncio.get_running_loop(), Awake()
        early, late = loop.create_future(), loop.create_future()
        awake.call_after(LIMIT_S, lambda: early.set_result(loop.time()))
        await asyncio.sleep(1.0)
        stand_still(50.0)
        await asyncio.sleep(0)
        began_s = loop.time()
        awake.call_after(LIMIT_S, lambda: late.set_result(loop.time()))
        assert await early - began_s == pytest.approx(LIMIT_S - 1.0, abs=0.3)
        assert await late - began_s == pytest.approx(LIMIT_S, abs=0.001)

    play(main())


def test_a_limit_that_is_taken_back_is_never_heard_of() -> None:
    async def main() -> None:
        called: list[bool] = []
        deadline = Awake().call_after(LIMIT_S, lambda: called.append(True))
        deadline.cancel()
        deadline.cancel()
        await asyncio.sleep(10 * LIMIT_S)
        assert not called

    play(main())


def test_nobody_looks_where_nobody_has_a_limit() -> None:
    """Or an idle process would wake up ten times a second."""

    async def main() -> None:
        Awake().call_after(LIMIT_S, lambda: None)
        await asyncio.sleep(LIMIT_S + 1.0)
        loop: Any = asyncio.get_running_loop()
        assert not [timer for timer in loop._scheduled if not timer.cancelled()]

    play(main())
