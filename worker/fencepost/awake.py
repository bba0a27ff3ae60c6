"""Limits that count only the time in which the event loop was awake.

A loop stands still while a task blocks it, or while the whole process is stopped. In the pass in
which it comes back, every timer that came due meanwhile runs before anybody else: before what has
ended is told that it has ended, and before a reply that lies in the socket is read. A limit that
counted the standstill would call all of these late, though nobody could do anything.

So a standstill is taken off the time that has passed. A limit is moved on by standstills no more
than `MOVES_MAX` times, so that no limit is put off for ever.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

TICK_S = 0.1
"""How often the loop is looked at while somebody has a limit."""
LATE_S = 0.1
"""A look that comes later than this tells of a standstill; less is an ordinary busy loop."""
MOVES_MAX = 8
"""So often the end of one limit is moved on by standstills."""
LEFT_S_LEAST = 0.001
"""What is left of a limit below this is a matter of rounding, and no reason to look again."""


class Awake:
    """The time of the running loop without its standstills. Each owner of limits has one."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stood_s = 0.0
        self._seen_s = 0.0
        self._watchers = 0
        self._tick: asyncio.TimerHandle | None = None

    def time(self) -> float:
        """Return the seconds that this loop was awake; only differences mean something.

        They mean it between `watch` and `unwatch`.
        """
        now_s = self._loop.time()
        return now_s - self._stood_s - self._standing_s(now_s)

    def watch(self) -> None:
        """Look for standstills until `unwatch` was called as often."""
        self._watchers += 1
        if self._tick is None:
            self._seen_s = self._loop.time()
            self._tick = self._loop.call_at(self._seen_s + TICK_S, self._look)

    def unwatch(self) -> None:
        self._watchers -= 1

    def call_after(self, limit_s: float, call: Callable[[], object]) -> "Deadline":
        """Call once the loop was awake for so long; never where the deadline is cancelled."""
        return Deadline(self, limit_s, call)

    @asynccontextmanager
    async def timeout(self, limit_s: float) -> AsyncIterator[None]:
        """Raise TimeoutError in here once the loop was awake for so long."""
        async with asyncio.timeout(None) as timeout:
            deadline = self.call_after(limit_s, lambda: timeout.reschedule(self._loop.time()))
            try:
                yield
            finally:
                deadline.cancel()

    def _standing_s(self, now_s: float) -> float:
        """Return how long the loop has stood still since the last look, 0.0 if it has not."""
        if self._tick is None or now_s - self._seen_s <= TICK_S + LATE_S:
            return 0.0
        return now_s - self._seen_s

    def _look(self) -> None:
        now_s = self._loop.time()
        self._stood_s += self._standing_s(now_s)
        self._seen_s = now_s
        self._tick = self._loop.call_at(now_s + TICK_S, self._look) if self._watchers else None


class Deadline:
    """The end of one limit. Made by `Awake.call_after`."""

    __slots__ = ("_awake", "_call", "_limit_s", "_loop", "_moves", "_since_s", "_timer")

    def __init__(self, awake: Awake, limit_s: float, call: Callable[[], object]) -> None:
        awake.watch()
        self._awake = awake
        self._limit_s = limit_s
        self._call = call
        self._moves = 0
        self._since_s = awake.time()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = self._loop.call_later(limit_s, self._look)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._awake.unwatch()

    def _look(self) -> None:
        left_s = self._limit_s - (self._awake.time() - self._since_s)
        if left_s > LEFT_S_LEAST and self._moves < MOVES_MAX:
            self._moves += 1
            self._timer = self._loop.call_later(left_s, self._look)
            return
        self._timer = None
        self._awake.unwatch()
        self._call()
