"""Work until told to stop or until something fails, and come to an end in order."""

import asyncio
import contextlib
import logging
from collections.abc import Collection, Coroutine, Sequence
from typing import Any

from fencepost.awake import Awake
from fencepost.errors import LedgerDiffers
from fencepost.leftovers import names_of
from fencepost.pool.drive import Driver
from fencepost.pool.intake import Intake
from fencepost.pool.lifespan import Lifespan
from fencepost.pool.limits import Limits
from fencepost.ports import Ledger

log = logging.getLogger("fencepost.pool")

CANCEL_AGAIN_S = 0.5
"""Before somebody is told again to stop: the client library swallows it while it waits to flush."""
CANCELS_MAX = 3
END_S = 1.0
"""For handlers to end once they are cancelled; one that does not is left behind."""
END_AGAIN_S = 0.2


async def work(
    driver: Driver,
    ledger: Ledger,
    intakes: list[Intake],
    watching: Sequence[Coroutine[Any, Any, None]],
    drain_s: float,
    stop: asyncio.Event,
    lifespan: Lifespan,
) -> None:
    """Take in and work until told to stop, or until something fails; either way drain.

    What fails is seldom what runs just now: that ends as it does where the worker is told to stop.
    """
    deciding = _begun(ledger.run(), driver.run())
    watchers = _begun(*watching)
    background = [*deciding, *watchers]
    try:
        pulling = _begun(*(intake.run() for intake in intakes))
        try:
            await _until(stop, pulling, background)
        except Exception as error:  # whatever it is, what runs is no part of it
            lifespan.ends()
            if isinstance(error, LedgerDiffers):
                driver.halt()
            if not any(task.done() for task in deciding):
                log.error("%s; what was begun is finished first", error)
                left = [task for task in background if not task.done()]
                with contextlib.suppress(Exception):  # the first reason is the one that counts
                    await _drain(intakes, left, drain_s, driver.limits)
            raise
        lifespan.ends()
        await _drain(intakes, background, drain_s, driver.limits)
    finally:
        lifespan.ends()
        driver.close()
        await _end([*background, *_tasks_of(intakes), *driver.tasks])


def _begun(*made: Coroutine[Any, Any, None]) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(one) for one in made]


async def _until(
    stop: asyncio.Event, pulling: list[asyncio.Task[None]], background: list[asyncio.Task[None]]
) -> None:
    """Return when told to stop, no longer pulling; raise as soon as some task fails.

    Either way the process is to end, and counts the time from here on.
    """
    stopping = asyncio.create_task(stop.wait())
    try:
        await _first_of(stopping, *pulling, *background)
    finally:
        stop.set()
        await _stop(stopping, *pulling)
    for task in pulling:
        if not task.cancelled():
            task.result()


async def _first_of(*tasks: asyncio.Task[Any]) -> None:
    """Return when one of the tasks has ended; raise what it raised."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


async def _stop(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks until they have ended, or have been told so CANCELS_MAX times."""
    left: Collection[asyncio.Task[Any]] = tasks
    for _ in range(CANCELS_MAX):
        for task in left:
            task.cancel()
        if left:
            done, left = await asyncio.wait(left, timeout=CANCEL_AGAIN_S)
            for task in done:
                # Looked at, or the loop would tell of it once more when the task is thrown away.
                task.cancelled() or task.exception()
    if left:
        log.warning("left behind: %s", names_of(left))


async def _drain(
    intakes: list[Intake], background: list[asyncio.Task[None]], limit_s: float, limits: Limits
) -> None:
    """Let what runs come to its end; what does not in time is another worker's after its lease.

    Raises what the work raises, or what it depends on, and NotFine where this worker stopped by
    itself because too many were left behind.
    """
    taken = sum(intake.taken for intake in intakes)
    if taken:
        log.info("stopping: %d still running, up to %g s", taken, limit_s)
    emptied = asyncio.create_task(_emptied(intakes))
    try:
        async with Awake().timeout(limit_s):
            await _first_of(emptied, *background)
    except TimeoutError:
        left = sum(intake.taken for intake in intakes)
        log.warning("%d did not end in time; they will be in doubt or run again", left)
    finally:
        await _stop(emptied)
    limits.check_left_behind()


def _tasks_of(intakes: list[Intake]) -> list[asyncio.Task[None]]:
    return [task for one in intakes for task in one.tasks]


async def _emptied(intakes: list[Intake]) -> None:
    for intake in intakes:
        await intake.emptied()


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel what is left, before what the app holds open is closed.

    Who is at it still when the time is over has swallowed its cancellation, and is told once more.
    """
    left: Collection[asyncio.Task[None]] = tasks
    for limit_s in (END_S, END_AGAIN_S):
        for task in left:
            task.cancel()
        if left:
            _, left = await asyncio.wait(left, timeout=limit_s)
    if left:
        log.warning("left behind, as they do not end when cancelled: %s", names_of(left))
