"""Leases kept up from a thread of its own, which also sees when a handler blocks everybody else.

The thread has its own loop and its own connection. While the worker's loop stands still it goes on
renewing, and says which handler it stands in.
"""

import asyncio
import contextlib
import logging
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import FrameType
from typing import Any

from fencepost.errors import FencepostError
from fencepost.foreign_text import fit
from fencepost.pool.leases import Leases
from fencepost.ports import Broker

log = logging.getLogger("fencepost.pool")

LAG_S = 1.0
"""A loop that does not come round for so long is blocked, and somebody is told by whom."""
LOOK_S = 0.25
CONNECT_AGAIN_S = 2.0
END_S = 1.0
"""For the thread to say goodbye to the broker."""

Connect = Callable[[], AbstractAsyncContextManager[Broker]]


@asynccontextmanager
async def renew_in_thread(leases: Leases, connect: Connect) -> AsyncIterator[None]:
    """Renew leases from a thread until left; `connect` is entered on that thread."""
    watched = _Watched(asyncio.get_running_loop(), threading.get_ident(), leases.blocked_by)
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
    here, gone = asyncio.get_running_loop(), asyncio.Event()

    def run() -> None:
        try:
            asyncio.run(_renew(leases, connect, watched, started))
        finally:
            with contextlib.suppress(RuntimeError):  # the worker's loop has ended before
                here.call_soon_threadsafe(gone.set)

    threading.Thread(target=run, name="fencepost-renewal", daemon=True).start()
    loop, ended = await asyncio.wrap_future(started)
    try:
        yield
    finally:
        with contextlib.suppress(RuntimeError):  # the thread has ended before
            loop.call_soon_threadsafe(ended.set)
        # Bounded: the client library does not let go of a connection attempt that is cancelled, and
        # a thread that is left behind does not keep the process from ending. Waited for without a
        # thread of the loop's executor, as handlers may have taken all of them.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                await gone.wait()


async def _renew(
    leases: Leases,
    connect: Connect,
    watched: "_Watched",
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]],
) -> None:
    """Renew and watch until the event is set that `started` hands out."""
    ended = asyncio.Event()
    working = [
        asyncio.create_task(_keep_renewing(leases, connect)),
        asyncio.create_task(watched.watch_for_ever()),
    ]
    started.set_result((asyncio.get_running_loop(), ended))
    await ended.wait()
    for task in working:
        task.cancel()
    await asyncio.gather(*working, return_exceptions=True)


async def _keep_renewing(leases: Leases, connect: Connect) -> None:
    while True:
        try:
            async with connect() as connection:
                await leases.renew_for_ever(connection)
                await asyncio.Event().wait()  # renewal is switched off: nothing to do
        except FencepostError as error:
            log.warning("leases: %s; trying again", error)
            await asyncio.sleep(CONNECT_AGAIN_S)


class _Watched:
    """Another thread's loop: whether it comes round, and what it stands in while it does not."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        thread: int,
        blocked_by: Callable[[asyncio.Task[Any]], None],
    ) -> None:
        self._loop = loop
        self._thread = thread
        self._blocked_by = blocked_by
        self._seen_s = time.monotonic()
        self._told = False

    async def watch_for_ever(self) -> None:
        while True:
            with contextlib.suppress(RuntimeError):  # the loop has ended before us
                self._loop.call_soon_threadsafe(self._mark)
            slept_from_s = time.monotonic()
            await asyncio.sleep(LOOK_S)
            now_s = time.monotonic()
            if now_s - slept_from_s > 2 * LOOK_S:
                # This thread stood still as well, so it is the whole process that was stopped.
                continue
            lag_s = now_s - self._seen_s
            if lag_s < LAG_S:
                self._told = False
            elif not self._told:
                self._told = True
                self._tell(lag_s)

    def _mark(self) -> None:
        self._seen_s = time.monotonic()

    def _tell(self, lag_s: float) -> None:
        task = asyncio.current_task(self._loop)
        if task is not None:
            self._blocked_by(task)
        name = task.get_name() if task is not None else "something outside every task"
        log.error(
            "the event loop has stood still for %.1f s in %s (%s): nothing else goes on there "
            "meanwhile; await what takes long, or make the handler a plain `def`",
            lag_s,
            name,
            _place(sys._current_frames().get(self._thread)),
        )


def _place(frame: FrameType | None) -> str:
    """Return where a thread stands: file, line and function."""
    if frame is None:
        return "nowhere"
    innermost = traceback.extract_stack(frame)[-1]
    return f"{fit(innermost.filename)}:{innermost.lineno} in {fit(innermost.name)}"
