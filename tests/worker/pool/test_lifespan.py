"""What an app holds open is closed within a bound, and what ended the worker is still told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from fencepost.errors import NotFine
from fencepost.pool.lifespan import LIFESPAN_S, Lifespan
from fencepost.testing.simulator.loop import run_virtual

DRAIN_S = 7.0


@pytest.mark.parametrize(
    ("close_s", "drained_s", "closed"),
    [
        (LIFESPAN_S - 0.5, DRAIN_S, True),
        (LIFESPAN_S + 0.5, DRAIN_S, False),
        (LIFESPAN_S + 0.5, DRAIN_S + 9.0, False),
        (LIFESPAN_S + DRAIN_S - 0.5, 0.0, True),
        (LIFESPAN_S + DRAIN_S + 0.5, 0.0, False),
    ],
)
def test_it_has_its_own_time_and_what_the_drain_left(
    close_s: float, drained_s: float, closed: bool
) -> None:
    """And what ended the worker goes on its way in any case."""

    async def play() -> bool:
        done = asyncio.Event()

        @asynccontextmanager
        async def inner() -> AsyncIterator[None]:
            try:
                yield
            finally:
                await asyncio.sleep(close_s)
                done.set()

        with pytest.raises(NotFine, match="another ledger"):
            async with Lifespan(inner(), DRAIN_S) as lifespan:
                lifespan.ends()
                await asyncio.sleep(drained_s)
                lifespan.ends()
                raise NotFine("another ledger")
        return done.is_set()

    assert closed == run_virtual(play(), Random(1))


def test_its_own_timeout_is_an_error_as_any_other() -> None:
    async def play() -> None:
        @asynccontextmanager
        async def inner() -> AsyncIterator[None]:
            yield
            raise TimeoutError("the pool of connections")

        async with Lifespan(inner(), DRAIN_S):
            pass

    with pytest.raises(TimeoutError, match="the pool of connections"):
        run_virtual(play(), Random(1))
