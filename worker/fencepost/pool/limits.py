"""How long an attempt may take: its handler's time, and never past its lease.

One timer serves all attempts of a process: it is set for whoever is over first, and set anew when
it has come. A timer for each would cost more than a short handler does.

Time in which the loop stood still does not count: nobody could end then. Two things bound this: a
lease, which no attempt outlives, and the task that is known to have blocked the loop, whose own
time goes on.

What is cancelled and does not end is left behind: its slot is free again, and its row is dealt with
as if its worker had not come back.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from math import inf
from typing import Any

from fencepost.awake import LEFT_S_LEAST, MOVES_MAX, Awake
from fencepost.errors import NotFine
from fencepost.settings import Pool

log = logging.getLogger("fencepost.pool")

LOOKS_APART_S = 0.01
"""A thousand attempts that are over one after the other are not a thousand looks at all of them."""
LOOK_S = 1.0
"""Between two looks, whoever is over next: the loop's time stands still while the machine is
suspended, and leases go on."""
END_WITHIN_S = 10.0
"""For a handler or a checker to end once it was cancelled."""
LEFT_BEHIND_MAX = 32
"""So many that do not end, and the worker ends: each holds what it holds until the process does."""


class LeftBehind(Exception):
    """A checker was cancelled and did not end."""


class Limit:
    """The limit of one attempt.

    `text` says what it ran into, "" while nothing. `moved` is told how many seconds its end was
    moved on, `leave` that it did not end after it was cancelled; nobody waits for it from then on.
    """

    def __init__(
        self,
        lease_left_s: Callable[[], float],
        *,
        shown: str = "",
        moved: Callable[[float], None] = lambda by_s: None,
        leave: Callable[[], None] = lambda: None,
    ) -> None:
        self.text = ""
        self.shown = shown
        self.lease_left_s = lease_left_s
        self.moved = moved
        self.leave = leave
        self.left_behind = False
        self.told = 0
        """How often it was cancelled."""
        self.over_s = 0.0
        self.awake_over_s = 0.0
        """When it is cancelled, and after that: when it is left behind."""
        self.moves_left = MOVES_MAX
        self.task: asyncio.Task[Any] | None = None


class Limits:
    """Holds what runs in this process to its limits. Times are the loop's.

    `crowded` is called when too many have been left behind that still run.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        # Asked for each time, the loop of this thread costs two calls to the system.
        self._loop = asyncio.get_running_loop()
        self._awake = Awake()
        self.crowded: Callable[[], None] = lambda: None
        self._held: dict[Limit, None] = {}
        """As they began: a set would have them stopped in another order each time."""
        self._timer: asyncio.TimerHandle | None = None
        self.left_behind: dict[Limit, None] = {}
        """What was left behind and still runs."""
        self._one_too_many = ""
        """The one with which there were too many of them."""

    async def hold(self, made: Awaitable[object], limit: Limit) -> object:
        """Await what a handler made; cancel it at the end of its time, or before its lease ends.

        Raises TimeoutError where that ended it, and lets any other cancellation through.
        """
        task = asyncio.current_task(self._loop)
        assert task is not None, "a handler runs in a task"
        before = task.cancelling()
        limit.task = task
        self._watch(limit)
        try:
            return await made
        except asyncio.CancelledError:
            if limit.text and task.cancelling() - limit.told <= before:
                raise TimeoutError(limit.text) from None
            raise
        finally:
            self._forget(limit)
            self.left_behind.pop(limit, None)
            for _ in range(limit.told):
                task.uncancel()

    async def hold_apart(self, made: Awaitable[object], shown: str) -> object:
        """Await what a checker made, in a task of its own, for as long as a handler may take.

        Raises what it raised, TimeoutError at the end of its time, and LeftBehind where it does not
        end then.
        """
        left = asyncio.Event()
        limit = Limit(lambda: inf, shown=shown, leave=left.set)
        apart = self._loop.create_task(_outcome(self.hold(made, limit)), name=shown)
        leaving = self._loop.create_task(left.wait())
        try:
            await asyncio.wait({apart, leaving}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            apart.cancel()
            await asyncio.wait({apart})
            raise
        finally:
            leaving.cancel()
        if not apart.done():
            raise LeftBehind(f"did not end within {END_WITHIN_S:g} s after it was cancelled")
        result, error = apart.result()
        if error is not None:
            raise error
        return result

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

    def charge(self, task: asyncio.Task[Any]) -> None:
        """Let the time of the task that blocks the loop go on: any thread may say which it is."""
        for limit in list(self._held):
            if limit.task is task:
                limit.moves_left = 0

    def check_left_behind(self) -> None:
        """Raise NotFine where so many were left behind that their process has to end."""
        if self._one_too_many:
            raise NotFine(
                f"{LEFT_BEHIND_MAX} attempts did not end though they were cancelled, the last of "
                f"them {self._one_too_many}: this worker ends, so that they do; let CancelledError "
                "through there"
            )

    # --- inside
    def _watch(self, limit: Limit) -> None:
        self._awake.watch()
        now_s, timeout_s = self._loop.time(), self._pool.handler_timeout_s
        limit.over_s, limit.awake_over_s = now_s + timeout_s, self._awake.time() + timeout_s
        self._held[limit] = None
        self._look_by(now_s + min(self._left_s(limit, now_s), LOOK_S))

    def _forget(self, limit: Limit) -> None:
        if limit in self._held:
            del self._held[limit]
            self._awake.unwatch()

    def _left_s(self, limit: Limit, now_s: float) -> float:
        if limit.text:
            return limit.over_s - now_s
        return min(limit.over_s - now_s, limit.lease_left_s() - self._pool.cancel_before_s)

    def _look_by(self, at_s: float) -> None:
        if self._timer is not None:
            if self._timer.when() <= at_s:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(at_s, self._look)

    def _look(self) -> None:
        """Stop what is over, leave what was stopped and did not end, and look again later."""
        self._timer = None
        now_s = self._loop.time()
        next_s = inf
        for limit in list(self._held):
            if limit.over_s <= now_s:
                self._move(limit, now_s)
            left_s = self._left_s(limit, now_s)
            if left_s <= 0 and not limit.text:
                self._stop(limit, now_s)
                left_s = self._left_s(limit, now_s)
            elif left_s <= 0:
                self._leave_behind(limit)
            if limit in self._held:
                next_s = min(next_s, left_s)
        if next_s < inf:
            self._look_by(now_s + max(min(next_s, LOOK_S), LOOKS_APART_S))

    def _move(self, limit: Limit, now_s: float) -> None:
        """Give back to an attempt the time in which the loop stood still."""
        left_s = limit.awake_over_s - self._awake.time()
        if left_s > LEFT_S_LEAST and limit.moves_left:
            limit.moves_left -= 1
            if not limit.text:
                limit.moved(now_s + left_s - limit.over_s)
            limit.over_s = now_s + left_s

    def _stop(self, limit: Limit, now_s: float) -> None:
        limit.text = "its lease could not be renewed, so it was stopped"
        if limit.over_s <= now_s:
            limit.text = f"ran into its limit of {self._pool.handler_timeout_s:g} s"
        limit.over_s, limit.awake_over_s = now_s + END_WITHIN_S, self._awake.time() + END_WITHIN_S
        _cancel(limit)

    def _leave_behind(self, limit: Limit) -> None:
        """Wait no longer for what was cancelled, and tell it once more to end."""
        self._forget(limit)
        limit.left_behind = True
        self.left_behind[limit] = None
        log.error(
            "%s: %s; it was cancelled and did not end within %g s, so it is left behind and what "
            "it still says does not count: let CancelledError through",
            limit.shown,
            limit.text,
            END_WITHIN_S,
        )
        _cancel(limit)
        limit.leave()
        if len(self.left_behind) >= LEFT_BEHIND_MAX and not self._one_too_many:
            self._one_too_many = limit.shown
            self.crowded()


def _cancel(limit: Limit) -> None:
    assert limit.task is not None
    limit.told += 1
    limit.task.cancel()


async def _outcome(
    made: Awaitable[object],
) -> tuple[object, BaseException | None]:
    """Return what was made of it, or raised: some exceptions would end the loop with the task."""
    try:
        return await made, None
    except BaseException as error:  # whoever asked raises it again
        return None, error
