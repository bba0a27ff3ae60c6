"""How long an attempt may take: its handler's time, and never past its lease.

One timer serves all attempts of a process: it is set for whoever is over first, and set anew when
it has come. A timer for each would cost more than a short handler does.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from math import inf
from typing import Any

from fencepost.settings import Pool

log = logging.getLogger("fencepost.pool")

LOOKS_APART_S = 0.01
"""A thousand attempts that are over one after the other are not a thousand looks at all of them."""


class Limit:
    """The limit of one attempt. `text` says what it ran into, "" while nothing."""

    def __init__(self, lease_left_s: Callable[[], float]) -> None:
        self.text = ""
        self.lease_left_s = lease_left_s
        self.over_s = 0.0
        self.task: asyncio.Task[Any] | None = None


class Limits:
    """Holds what runs in this process to its limits. Times are the loop's."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        # Asked for each time, the loop of this thread costs two calls to the system.
        self._loop = asyncio.get_running_loop()
        self._held: dict[Limit, None] = {}
        """As they began: a set would have them stopped in another order each time."""
        self._timer: asyncio.TimerHandle | None = None

    async def hold(self, made: Coroutine[Any, Any, object], limit: Limit) -> object:
        """Await what a handler made; cancel it at the end of its time, or before its lease ends.

        Raises TimeoutError where that ended it, and lets any other cancellation through.
        """
        task = asyncio.current_task(self._loop)
        assert task is not None, "a handler runs in a task"
        before = task.cancelling()
        now_s = self._loop.time()
        limit.over_s, limit.task = now_s + self._pool.handler_timeout_s, task
        self._held[limit] = None
        self._look_by(now_s + self._left_s(limit, now_s))
        try:
            return await made
        except asyncio.CancelledError:
            if limit.text and task.cancelling() - 1 <= before:
                raise TimeoutError(limit.text) from None
            raise
        finally:
            self._held.pop(limit, None)
            if limit.text:
                task.uncancel()

    async def wait_for_thread(self, call: asyncio.Future[object], name: str) -> object:
        """Wait for a thread to its end: it cannot be stopped, and nobody else may run meanwhile."""
        done, _ = await asyncio.wait({call}, timeout=self._pool.handler_timeout_s)
        if not done:
            log.error(
                "%s: over its limit of %g s in a thread, which cannot be stopped; waiting for it",
                name,
                self._pool.handler_timeout_s,
            )
        return await call

    def _left_s(self, limit: Limit, now_s: float) -> float:
        return min(limit.over_s - now_s, limit.lease_left_s() - self._pool.cancel_before_s)

    def _look_by(self, at_s: float) -> None:
        if self._timer is not None:
            if self._timer.when() <= at_s:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(at_s, self._look)

    def _look(self) -> None:
        """Stop what is over, and look again when the next one may be."""
        self._timer = None
        now_s = self._loop.time()
        next_s = inf
        for limit in self._held:
            if limit.text:
                continue
            left_s = self._left_s(limit, now_s)
            if left_s > 0:
                next_s = min(next_s, left_s)
                continue
            limit.text = "its lease could not be renewed, so it was stopped"
            if limit.over_s <= now_s:
                limit.text = f"ran into its limit of {self._pool.handler_timeout_s:g} s"
            assert limit.task is not None
            limit.task.cancel()
        if next_s < inf:
            self._look_by(now_s + max(next_s, LOOKS_APART_S))
