"""An event loop whose clock jumps to the next thing that happens.

Everything that is ready at one moment runs in an order drawn from the seed, so a run explores an
interleaving and can be played again exactly.
"""

import asyncio
from random import Random
from typing import Any


class Deadlock(RuntimeError):
    """Everybody waits and nothing will ever happen: in a simulation that is a finding."""


class _Jump:
    """Stands where the selector would: instead of waiting, it moves the clock."""

    def __init__(self, loop: "VirtualLoop") -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Deadlock("everybody waits, and no timer is set")
        self._loop.now_s += max(timeout, 0.0)
        return []

    def close(self) -> None:
        pass


class VirtualLoop(asyncio.BaseEventLoop):
    def __init__(self, chance: Random) -> None:
        super().__init__()
        self.now_s = 0.0
        self._chance = chance
        self._selector = _Jump(self)

    def time(self) -> float:
        return self.now_s

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def _run_once(self) -> None:
        ready: Any = self._ready  # type: ignore[attr-defined]
        if len(ready) > 1 and self._chance.random() < 0.5:
            # The loop promises no order between tasks; nothing may depend on one.
            ready.rotate(self._chance.randrange(len(ready)))
        super()._run_once()  # type: ignore[misc]


def run_virtual(main: Any, chance: Random) -> Any:
    """Run a coroutine to its end in virtual time, and return what it returns."""
    loop = VirtualLoop(chance)
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(main)
    finally:
        _cancel_all(loop)
        loop.run_until_complete(loop.shutdown_asyncgens())
        asyncio.set_event_loop(None)
        loop.close()


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
