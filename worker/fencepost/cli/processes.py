"""Run something async until it ends or a signal says stop, and end within a bound in any case.

A main has its own order to end in. Behind it nothing is waited for that does not end: tasks that
are left are cancelled again and again for a while, and then left behind by name. From the signal on
`ending` counts down beside all of it.
"""

import asyncio
import contextlib
import logging
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from fencepost.cli.ending import END_S, ending
from fencepost.cli.signals import Signals
from fencepost.clock import monotonic_s
from fencepost.errors import Stopped
from fencepost.leftovers import names_of
from fencepost.pool.run import HANDLER

log = logging.getLogger("fencepost.cli")

T = TypeVar("T")

LEFT_S = 1.0
"""For tasks that main left, and for the threads that they wait for."""
CANCEL_AGAIN_S = 0.4
"""Before a task that swallowed its cancellation is cancelled again."""
WORK_AGAIN_S = 3.0
"""Before work that has its own order to end in is cancelled again."""
EXECUTOR = "asyncio"
"""The beginning of the names of the threads behind `asyncio.to_thread`."""


class Stop(asyncio.Event):
    """Set when main is to end; from then on its end is bounded, whoever set it.

    Where nobody waits for it main is at its start: it has nothing to drain, and may be cancelled.
    """

    def __init__(self, drain_s: float) -> None:
        super().__init__()
        self._drain_s = drain_s
        self._waiting = 0

    @property
    def heard(self) -> bool:
        """Whether main hears, or has heard, that it is to end."""
        return self._waiting > 0 or self.is_set()

    @property
    def limit_s(self) -> float:
        """From here to the end of the process."""
        return (self._drain_s if self.heard else 0.0) + END_S

    async def wait(self) -> Any:
        self._waiting += 1
        try:
            return await super().wait()
        finally:
            self._waiting -= 1

    def set(self) -> None:
        super().set()
        ending.begin(self.limit_s)


def run(main: Coroutine[Any, Any, T], drain_s: float = 0.0) -> T:
    """Run a short command to its end; raise Stopped where a signal cancelled it.

    It has `drain_s` for what it does about its cancellation.
    """
    held, numbers = _Held(), list[int]()
    task = held.loop.create_task(main)

    def told(number: int) -> None:
        numbers.append(number)
        ending.code = 128 + number
        ending.begin(drain_s + END_S)
        held.call(task.cancel)

    signals = Signals(told, lambda: drain_s + END_S)
    try:
        return held.loop.run_until_complete(task)
    except asyncio.CancelledError:
        if not numbers:
            raise
        raise Stopped(signal.Signals(numbers[0])) from None
    finally:
        held.close()
        signals.close()


def run_until_signal(
    main: Callable[[asyncio.Event], Awaitable[None]], drain_s: float = 0.0
) -> None:
    """Run `main` with an event that SIGINT, SIGTERM and SIGHUP set; it decides how to stop.

    It is cancelled where it does not wait for the event yet. It has `drain_s` to stop, and END_S
    later the process is at its end, whatever happens.
    """
    held, stop, told = _Held(), Stop(drain_s), threading.Event()

    async def wait_for_main() -> None:
        await main(stop)

    task = held.loop.create_task(wait_for_main())

    def stop_main() -> None:
        if not stop.heard:
            task.cancel()
        stop.set()

    def hear(_: int) -> None:
        told.set()
        ending.code = 0
        ending.begin(stop.limit_s)
        held.call(stop_main)

    # What ends before it is told to stop, and by force, did not end well.
    ending.code = 1
    Signals(hear, lambda: stop.limit_s)  # heard up to the end of the process
    try:
        held.loop.run_until_complete(task)
    except asyncio.CancelledError:
        if not told.is_set():
            raise
    finally:
        held.close()


class _Held:
    """A loop and its threads, which are left behind at the end where they do not end.

    asyncio's own runner cancels tasks once, and then waits for them and for threads for ever.
    """

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        # As many threads as the loop's own executor would have.
        self._executor = ThreadPoolExecutor(
            min(32, (os.cpu_count() or 1) + 4), thread_name_prefix=EXECUTOR
        )
        self.loop.set_default_executor(self._executor)
        asyncio.set_event_loop(self.loop)
        ending.loop = self.loop

    def call(self, do: Callable[[], Any]) -> None:
        """Call something on the loop, from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended before
            self.loop.call_soon_threadsafe(do)

    def close(self) -> None:
        """End what main left here, and say by name what does not end."""
        over_s = monotonic_s() + LEFT_S
        tasks: set[asyncio.Task[Any]] = set()
        # A task may raise what ends the whole loop; what is left then is left.
        with contextlib.suppress(SystemExit, KeyboardInterrupt):
            tasks = self.loop.run_until_complete(self._end_all(over_s))
        self._executor.shutdown(wait=False, cancel_futures=True)  # ends the threads that are idle
        threads = _still_at_work(over_s)
        if tasks or threads:
            log.warning("left behind: %s", names_of(tasks, threads))
            # It is not told of once more, in more words, when its loop is thrown away.
            self.loop.set_exception_handler(lambda *_: None)
            return
        asyncio.set_event_loop(None)
        ending.loop = None
        self.loop.close()

    async def _end_all(self, over_s: float) -> set[asyncio.Task[Any]]:
        """Cancel every task until it has ended or the time is over; return those that have not."""
        left = _others()
        while left and monotonic_s() < over_s:
            for task in left:
                task.cancel()
            done, _ = await asyncio.wait(left, timeout=CANCEL_AGAIN_S)
            for task in done:
                if not task.cancelled() and task.exception() is not None:
                    log.warning("%s: %r", names_of([task]), task.exception())
            left = _others()
        generators = self.loop.create_task(self.loop.shutdown_asyncgens(), name="generators")
        await asyncio.wait({generators}, timeout=max(over_s - monotonic_s(), CANCEL_AGAIN_S))
        return _others()


def _others() -> set[asyncio.Task[Any]]:
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}


def _still_at_work(over_s: float) -> list[threading.Thread]:
    """Wait for threads of handlers and those behind `asyncio.to_thread`; return who is left."""
    threads = [one for one in threading.enumerate() if one.name.startswith((EXECUTOR, HANDLER))]
    for thread in threads:
        thread.join(max(over_s - monotonic_s(), 0.0))
    return [thread for thread in threads if thread.is_alive()]


async def cancelled_by(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Run the work until it ends by itself, or cancel it when told to stop."""
    running = asyncio.create_task(work)
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
    finally:
        stop.set()  # whatever ended it: from here on the end of the process is bounded
        stopping.cancel()
        while not running.done():
            # Whoever swallows the first one is told again.
            running.cancel()
            await asyncio.wait({running}, timeout=WORK_AGAIN_S)
        if not running.cancelled():
            running.result()
