"""Wait for a broker that is away, or that elects, for as long as a process may take to start."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from fencepost.errors import Denied, Unreachable
from fencepost.ports import World
from fencepost_policies.retry import wait_bounds

log = logging.getLogger("fencepost.broker")

T = TypeVar("T")

FIRST_S = 0.2
LONGEST_S = 2.0


class StoppedWaiting(Exception):
    """The process was told to stop before the broker was there. It has nothing to finish."""


class Patience:
    """How long one process waits at its start, all its questions taken together.

    A process that runs waits for ever, and in the rooms themselves.
    """

    def __init__(self, world: World, limit_s: float, stop: asyncio.Event) -> None:
        self._world = world
        self._limit_s = limit_s
        self._until_s = world.monotonic_s() + limit_s
        self._stop = stop
        self._told = False

    async def wait_out(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until there is an answer, and return it.

        Raises Denied at once, Unreachable at the end of the time, and StoppedWaiting where the
        process was told to stop meanwhile.
        """
        tries = 0
        while True:
            try:
                return await ask()
            except Denied:
                raise
            except Unreachable as error:
                if self._world.monotonic_s() >= self._until_s:
                    raise
                self._tell(error)
            tries += 1
            bounds = wait_bounds(tries, first_s=FIRST_S, longest_s=LONGEST_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._world.draw_s(bounds)):
                    await self._stop.wait()
            if self._stop.is_set():
                raise StoppedWaiting

    def _tell(self, error: Unreachable) -> None:
        if not self._told:
            self._told = True
            log.warning("%s; waiting for the broker, up to %g s", error, self._limit_s)
