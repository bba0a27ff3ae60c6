"""Where effects land, and who may still bring one about."""

import asyncio
import contextlib
from collections.abc import Iterator
from random import Random

from fencepost.testing.simulator.history import Effect, History
from fencepost.testing.simulator.loop import PROCESS, Process, outside


class Sink:
    """Where effects land. A call that was sent lands whatever becomes of its sender."""

    def __init__(self, chance: Random, history: History, flight_s: float) -> None:
        self._flight_s = flight_s
        self._chance = chance
        self._history = history
        self._running: list[tuple[Process, str, str]] = []
        self._under_way: list[tuple[str, str]] = []

    def landed(self, handler: str, task: str) -> bool:
        return any((one.handler, one.task) == (handler, task) for one in self._history.effects)

    def may_land(self, handler: str, task: str) -> bool:
        """Return True while some attempt is alive, be it paused, or its call is on its way."""
        running = any(
            (name, its) == (handler, task) and not process.dead
            for process, name, its in self._running
        )
        return running or (handler, task) in self._under_way

    @property
    def still(self) -> bool:
        """True where nothing is on its way and no living process runs a handler."""
        return not self._under_way and all(process.dead for process, _, _ in self._running)

    @contextlib.contextmanager
    def attempt(self, handler: str, task: str) -> Iterator[None]:
        """Note that a handler runs, for as long as it does."""
        process = PROCESS.get()
        assert process is not None
        entry = (process, handler, task)
        self._running.append(entry)
        try:
            yield
        finally:
            self._running.remove(entry)

    async def call(self, handler: str, task: str, attempt: int) -> None:
        process = PROCESS.get()
        assert process is not None
        worker = process.name

        async def land() -> None:
            loop = asyncio.get_running_loop()
            await asyncio.sleep(self._chance.uniform(0.0, self._flight_s))
            self._under_way.remove((handler, task))
            self._history.effects.append(Effect(handler, task, worker, attempt, loop.time()))

        self._under_way.append((handler, task))
        await asyncio.shield(outside(land()))
