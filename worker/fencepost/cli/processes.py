"""Run something async until it ends or a signal says stop."""

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a short command to its end."""
    return asyncio.run(main)


def run_until_signal(main: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run `main` with an event that SIGINT, SIGTERM and SIGHUP set; it decides how to stop."""

    async def with_signals() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, stop.set)
        await main(stop)

    asyncio.run(with_signals())


async def cancelled_by(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Run the work until it ends by itself, or cancel it when told to stop."""
    running = asyncio.create_task(work)
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
    finally:
        for task in (running, stopping):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
