"""One worker process: fetches no more than its free slots, works on it, and drains when told to."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec

from fencepost.app import Fencepost
from fencepost.errors import Denied, LedgerDiffers, NotFine, Unreachable
from fencepost.leftovers import names_of
from fencepost.pool.answers import Answers
from fencepost.pool.ask import Desk
from fencepost.pool.clock import BrokerClock
from fencepost.pool.deliveries import Deliveries
from fencepost.pool.drive import Driver
from fencepost.pool.emit import Emissions
from fencepost.pool.gaps import Gaps, check_reconciled
from fencepost.pool.intake import Feed, Intake, in_a_task, open_intakes
from fencepost.pool.leases import Leases
from fencepost.pool.lifespan import Lifespan
from fencepost.pool.pauses import Pauses
from fencepost.pool.retries import Retries
from fencepost.pool.rulings import Rulings
from fencepost.pool.seams import Seams
from fencepost.ports import Broker, Ledger, World
from fencepost.settings import Settings
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.subject import ANSWERS, EVENTS, LEDGER, RETRIES, Subjects

log = logging.getLogger("fencepost.pool")

WATCH_S = 60.0
ANSWER_SLOTS = 4
RETRY_SLOTS = 16
GAP_SLOTS = 4
CANCEL_AGAIN_S = 0.5
"""Before somebody is told again to stop: the client library swallows it while it waits to flush."""
CANCELS_MAX = 3
END_S = 1.0
"""For handlers to end once they are cancelled; one that does not is left behind."""
END_AGAIN_S = 0.2


def nothing_reached(point: str) -> None:
    """The crash point of every day: nothing happens."""


Renewal = Callable[[Leases], AbstractAsyncContextManager[None]]
"""Keeps leases up for as long as it is entered."""


async def run_worker(
    settings: Settings,
    app: Fencepost,
    connection: Broker,
    ledger: Ledger,
    world: World,
    stop: asyncio.Event,
    reached: Callable[[str], None] = nothing_reached,
    renewal: Renewal | None = None,
) -> None:
    """Work on the app's events and answers until `stop` is set; then finish what was begun.

    Leases are renewed by `renewal`; without one, on this loop and this connection, where a handler
    that blocks them holds up everybody's. Raises LedgerDiffers where the ledger is not the one that
    the sources' lineages are pinned to.
    """
    check_reconciled(app, settings.sources)
    subjects = Subjects(settings.broker.prefix)
    await check_identity(connection, subjects, await ledger.identity())
    clock = BrokerClock(world)
    await clock.read(connection, LEDGER)
    owner = f"worker-{world.random_name(8)}"
    leases = Leases(settings.pool, clock)
    rulings = Rulings(connection, subjects, settings.sources)
    desk = Desk(connection, subjects, rulings, app.name)
    emissions = Emissions(app.name, connection, subjects, settings.sources, world, reached)
    driver = Driver(
        app, ledger, leases, desk, emissions, subjects, settings.pool, clock, world, owner, reached
    )
    seams = Seams(app, subjects, rulings, driver, desk)
    pauses = Pauses(app.name, connection, subjects, rulings, driver, seams, desk)
    await pauses.look()
    deliveries = Deliveries(app, connection, subjects, rulings, driver, seams, pauses)
    answers = Answers(connection, subjects, driver, seams, pauses)
    retries = Retries(connection, clock, rulings, deliveries, seams)
    slots, parked = settings.pool.slots, subjects.retries_of(app.name)
    feeds = [
        Feed(EVENTS, "", (subjects.events_of(),), slots, deliveries.begin),
        Feed(ANSWERS, "-answers", (subjects.answers(),), ANSWER_SLOTS, in_a_task(answers.work_on)),
        Feed(RETRIES, "-retries", (parked,), RETRY_SLOTS, in_a_task(retries.work_on)),
        *_gap_feeds(Gaps(app, connection, subjects, deliveries), app, subjects),
    ]
    intakes = await open_intakes(settings, connection, app.name, feeds)
    log.info("%s: %d handlers, %d slots, as %s", app.name, len(app.handlers), slots, owner)
    renewing = renewal(leases) if renewal is not None else renew_here(leases, connection)
    async with Lifespan(app.lifespan(), settings.pool.drain_s, stop) as lifespan, renewing:
        watching = _keep_watch(connection, subjects, ledger, clock)
        background = _begun(ledger.run(), driver.run(), watching, pauses.watch())
        try:
            pulling = _begun(*(intake.run() for intake in intakes))
            await _until(stop, pulling, background)
            lifespan.ends()
            await _drain(intakes, background, settings.pool.drain_s)
        finally:
            lifespan.ends()
            await _end(driver, intakes, background)


def _gap_feeds(gaps: Gaps, app: Fencepost, subjects: Subjects) -> list[Feed]:
    """Return the feed of verdict records of each source that is reconciled.

    Gaps that were there before its reconciler are not called up: what they hid may be long settled.
    One consumer for all would pass over, or call up, the gaps of whoever is registered later.
    """
    return [
        Feed(
            EVENTS,
            f"-gaps-{source}",
            (subjects.epochs_of(source),),
            GAP_SLOTS,
            in_a_task(gaps.work_on),
            from_now=True,
        )
        for source in app.reconcilers
    ]


@asynccontextmanager
async def renew_here(leases: Leases, connection: Broker) -> AsyncIterator[None]:
    """Renew leases as a task of this loop, over this connection."""
    renewing = asyncio.create_task(leases.renew_for_ever(connection))
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)


def _begun(*made: Coroutine[Any, Any, None]) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(one) for one in made]


async def _until(
    stop: asyncio.Event, pulling: list[asyncio.Task[None]], background: list[asyncio.Task[None]]
) -> None:
    """Return when told to stop, no longer pulling; raise as soon as some task fails."""
    stopping = asyncio.create_task(stop.wait())
    try:
        await _first_of(stopping, *pulling, *background)
    finally:
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
    intakes: list[Intake], background: list[asyncio.Task[None]], limit_s: float
) -> None:
    """Let what runs come to its end; what does not in time is another worker's after its lease.

    Raises what the work raises, or what it depends on.
    """
    taken = sum(intake.taken for intake in intakes)
    if taken:
        log.info("stopping: %d still running, up to %g s", taken, limit_s)
    emptied = asyncio.create_task(_emptied(intakes))
    try:
        async with asyncio.timeout(limit_s):
            await _first_of(emptied, *background)
    except TimeoutError:
        left = sum(intake.taken for intake in intakes)
        log.warning("%d did not end in time; they will be in doubt or run again", left)
    finally:
        await _stop(emptied)


async def _emptied(intakes: list[Intake]) -> None:
    for intake in intakes:
        await intake.emptied()


async def _end(driver: Driver, intakes: list[Intake], background: list[asyncio.Task[None]]) -> None:
    """Cancel what is left, before what the app holds open is closed.

    Who is at it still when the time is over has swallowed its cancellation, and is told once more.
    """
    driver.close()
    tasks = [task for one in intakes for task in one.tasks]
    left: Collection[asyncio.Task[None]] = [*background, *tasks, *driver.tasks]
    for limit_s in (END_S, END_AGAIN_S):
        for task in left:
            task.cancel()
        if left:
            _, left = await asyncio.wait(left, timeout=limit_s)
    if left:
        log.warning("left behind, as they do not end when cancelled: %s", names_of(left))


async def _keep_watch(
    connection: Broker, subjects: Subjects, ledger: Ledger, clock: BrokerClock
) -> None:
    """Look at the broker's clock and the ledger's identity now and then, and after each break.

    A broker that comes back may come back from a backup, or with nothing.
    """
    broke = asyncio.Event()
    connection.on_reconnect(broke.set)
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WATCH_S):
                await broke.wait()
        broke.clear()
        try:
            await check_identity(connection, subjects, await ledger.identity())
            await clock.read(connection, LEDGER)
        except Denied:
            raise
        except Unreachable as error:
            log.warning("%s; keeping the old offset to its clock", error)


async def check_identity(connection: Broker, subjects: Subjects, identity: str | None) -> None:
    """Refuse to work on a ledger that is not the one the lineages were begun with."""
    if identity is None:
        raise NotFine("the ledger has no identity: run `fencepost init`")
    for subject in await connection.subjects(EVENTS, subjects.cursors()):
        stored = await connection.last(EVENTS, subject)
        if stored is None:
            continue
        cursor = msgspec.json.decode(stored.payload, type=Cursor)
        if cursor.ledger != identity:
            raise LedgerDiffers(
                f"source {cursor.source} is pinned to ledger {cursor.ledger}, but this ledger is "
                f"{identity}: it was made again or restored, and does not know what was applied. "
                f"Bring back the broker's data that holds {cursor.ledger}, or a copy of it "
                "(`fencepost ledger import`), or go on in doubt (`fencepost ledger adopt`)"
            )
