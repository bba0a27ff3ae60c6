"""An event loop whose clock jumps to the next thing that happens, and which can freeze a process.

Everything that is ready at one moment runs in an order drawn from the seed, so a run explores an
interleaving and can be played again exactly. What a task of a process leaves to the loop belongs
to the process: while that is paused nothing of it runs, as under SIGSTOP, and after its death
nothing of it ever runs again, not even its `finally`.
"""

import asyncio
import contextvars
import gc
import heapq
from collections.abc import Coroutine
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")


class Deadlock(RuntimeError):
    """Everybody waits and nothing will ever happen: in a simulation that is a finding."""


class Process:
    """What can be paused and killed as a whole."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.paused = False
        self.dead = False

    @property
    def stopped(self) -> bool:
        return self.paused or self.dead

    def wake(self) -> None:
        """End the pause: all that came due meanwhile is ready at once."""
        self.paused = False
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.thaw(self)

    def start(self, main: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Run a coroutine as this process's."""
        context = contextvars.Context()
        context.run(PROCESS.set, self)
        return asyncio.get_running_loop().create_task(main, context=context)


PROCESS: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


def outside(main: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
    """Run a coroutine that belongs to no process: what is on its way goes on after a death."""
    return asyncio.get_running_loop().create_task(main, context=contextvars.Context())


class _Task(asyncio.Task[Any]):
    """Sets of tasks are walked in the order of hashes, which by default are addresses."""

    def __init__(self, main: Any, *, number: int, **options: Any) -> None:
        self._number = number
        super().__init__(main, **options)

    def __hash__(self) -> int:
        return self._number


class VirtualLoop(asyncio.BaseEventLoop):
    def __init__(self, chance: Random) -> None:
        super().__init__()
        self.now_s = 0.0
        self._chance = chance
        self._count = 0
        self._kept: list[asyncio.Task[Any]] = []
        self._frozen: dict[Process, list[asyncio.Handle]] = {}
        self._ending = False
        self.set_task_factory(self._make_task)

    def time(self) -> float:
        return self.now_s

    def thaw(self, process: Process) -> None:
        """Make ready what came due while this process was stopped."""
        self._queue.extend(self._frozen.pop(process, []))

    def end_all(self) -> None:
        """Cancel every task, those of the dead included, and let them end."""
        self._ending = True
        for process in list(self._frozen):
            self.thaw(process)
        tasks = [task for task in self._kept if not task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            self.run_until_complete(asyncio.wait(tasks, timeout=600.0))
        self._kept.clear()

    @property
    def _queue(self) -> Any:
        return self._ready  # type: ignore[attr-defined]

    def _make_task(self, loop: Any, main: Any, context: Any = None, **options: Any) -> Any:
        self._count += 1
        task = _Task(main, number=self._count, loop=loop, context=context, **options)
        # The tasks of a dead process must not fall to the garbage collector in the middle.
        self._kept.append(task)
        if len(self._kept) > 20_000:
            self._kept = [one for one in self._kept if not one.done()]
        return task

    def _write_to_self(self) -> None:
        pass

    def _run_once(self) -> None:
        """Run all that is ready; where nothing is, move the clock to the next timer."""
        timers: Any = self._scheduled  # type: ignore[attr-defined]
        ready = self._queue
        while timers and timers[0].cancelled():
            heapq.heappop(timers)._scheduled = False
            self._timer_cancelled_count -= 1  # type: ignore[attr-defined]
        if not ready and not self._stopping:  # type: ignore[attr-defined]
            if not timers:
                raise Deadlock("everybody waits, and no timer is set")
            self.now_s = max(self.now_s, timers[0].when())
        while timers and timers[0].when() <= self.now_s:
            handle = heapq.heappop(timers)
            handle._scheduled = False
            ready.append(handle)
        if len(ready) > 1 and self._chance.random() < 0.5:
            # The loop promises no order between tasks; nothing may depend on one.
            ready.rotate(self._chance.randrange(len(ready)))
        for _ in range(len(ready)):
            self._run_handle(ready.popleft())

    def _run_handle(self, handle: Any) -> None:
        if handle.cancelled():
            return
        process = handle._context.get(PROCESS)
        if process is not None and process.stopped and not self._ending:
            self._frozen.setdefault(process, []).append(handle)
        else:
            handle._run()


def run_virtual(main: Coroutine[Any, Any, T], chance: Random) -> T:
    """Run a coroutine to its end in virtual time, and return what it returns."""
    loop = VirtualLoop(chance)
    loop.set_exception_handler(lambda _, context: None)
    # When the collector runs depends on more than the seed, and it ends coroutines.
    collecting = gc.isenabled()
    gc.disable()
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(main)
    finally:
        loop.end_all()
        loop.run_until_complete(loop.shutdown_asyncgens())
        asyncio.set_event_loop(None)
        loop.close()
        if collecting:
            gc.enable()
