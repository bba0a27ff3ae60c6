"""Readings of the broker's clock, one for all that wait for it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger("fencepost.pool")

Timed = Callable[[Exception | None], None]
"""Hears, once, that the clock was read since it asked, or why it could not be."""


class Readings:
    """`tasks` is where the task that reads is kept, for whoever ends them all."""

    def __init__(
        self, read: Callable[[], Awaitable[None]], tasks: "set[asyncio.Task[None]]"
    ) -> None:
        self.read = read
        self._tasks = tasks
        self._waiting: list[Timed] = []
        self._reading = False

    def ask(self, timed: Timed) -> None:
        """Have the clock read, and tell `timed` once it was. Who asks meanwhile has the next."""
        self._waiting.append(timed)
        if not self._reading:
            self._reading = True
            task = asyncio.get_running_loop().create_task(self._run(), name="the broker's clock")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run(self) -> None:
        try:
            while self._waiting:
                waiting, self._waiting = self._waiting, []
                problem: Exception | None = None
                try:
                    await self.read()
                except Exception as error:  # whatever it is, somebody waits to hear of it
                    log.warning("%s; %d events come again", error, len(waiting))
                    problem = error
                for timed in waiting:
                    timed(problem)
        finally:
            self._reading = False
