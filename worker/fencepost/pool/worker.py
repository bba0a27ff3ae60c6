"""One worker process: fetches no more than its free slots, works on it, and drains when told to."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from fencepost.app import Fencepost
from fencepost.patience import Patience, StoppedWaiting
from fencepost.pool.answers import Answers
from fencepost.pool.ask import Desk
from fencepost.pool.clock import BrokerClock
from fencepost.pool.crash_points import nothing_reached
from fencepost.pool.deliveries import Deliveries
from fencepost.pool.drive import Driver
from fencepost.pool.emit import Emissions
from fencepost.pool.feeds import Rooms, feeds_of, tracks_of
from fencepost.pool.gaps import Gaps, check_reconciled
from fencepost.pool.identity import keep_watch, look_at_identity
from fencepost.pool.intake import open_intakes
from fencepost.pool.leases import Leases
from fencepost.pool.lifespan import Lifespan
from fencepost.pool.pauses import Pauses
from fencepost.pool.progress import keep_track, look_once_more
from fencepost.pool.retries import Retries
from fencepost.pool.rulings import Rulings
from fencepost.pool.seams import Seams
from fencepost.pool.stopping import work
from fencepost.ports import Broker, Ledger, World
from fencepost.settings import Settings
from fencepost.soundness import check_broker
from fencepost_schemas.subject import LEDGER, Subjects

log = logging.getLogger("fencepost.pool")

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
    with contextlib.suppress(StoppedWaiting):
        await _run(settings, app, connection, ledger, world, stop, reached, renewal)


async def _run(
    settings: Settings,
    app: Fencepost,
    connection: Broker,
    ledger: Ledger,
    world: World,
    stop: asyncio.Event,
    reached: Callable[[str], None],
    renewal: Renewal | None,
) -> None:
    patience = Patience(world, settings.broker.start_wait_s, stop)
    subjects = Subjects(settings.broker.prefix)
    await patience.wait_out(partial(check_broker, connection))
    await patience.wait_out(partial(look_at_identity, connection, subjects, ledger))
    clock = BrokerClock(world, settings.pool.reading_s)
    await patience.wait_out(partial(clock.read, connection, LEDGER))
    leases = Leases(settings.pool, clock)
    rooms = _rooms(settings, app, connection, ledger, world, clock, leases, reached)
    rooms.driver.limits.crowded = stop.set
    await patience.wait_out(rooms.pauses.look)
    tracks = tracks_of(app, connection, subjects)
    feeds = feeds_of(settings, app, subjects, rooms, tracks)
    intakes = await open_intakes(settings, connection, app.name, feeds, patience)
    owner, slots = rooms.driver.owner, settings.pool.slots
    log.info("%s: %d handlers, %d slots, as %s", app.name, len(app.handlers), slots, owner)
    renewing = renewal(leases) if renewal is not None else renew_here(leases, connection)
    async with Lifespan(app.lifespan(), settings.pool.drain_s) as lifespan, renewing:
        watching = [
            keep_watch(connection, subjects, ledger),
            clock.keep(connection, LEDGER),
            rooms.pauses.watch(),
            keep_track(tracks),
        ]
        drain_s = settings.pool.drain_s
        await work(rooms.driver, ledger, intakes, watching, drain_s, stop, lifespan)
    await look_once_more(tracks)


def _rooms(
    settings: Settings,
    app: Fencepost,
    connection: Broker,
    ledger: Ledger,
    world: World,
    clock: BrokerClock,
    leases: Leases,
    reached: Callable[[str], None],
) -> Rooms:
    """Return what sees to events, answers, retries and gaps, put together."""
    subjects = Subjects(settings.broker.prefix)
    rulings = Rulings(connection, subjects, settings.sources)
    desk = Desk(connection, subjects, rulings, app.name)
    driver = Driver(
        app,
        ledger,
        leases,
        desk,
        Emissions(app.name, connection, subjects, settings.sources, world, reached),
        subjects,
        settings.pool,
        clock,
        world,
        f"worker-{world.random_name(8)}",
        reached,
        partial(clock.read, connection, LEDGER),
    )
    seams = Seams(app, subjects, rulings, driver, desk)
    pauses = Pauses(app.name, connection, subjects, rulings, driver, seams, desk)
    deliveries = Deliveries(app, connection, subjects, rulings, driver, seams, pauses)
    return Rooms(
        driver=driver,
        pauses=pauses,
        deliveries=deliveries,
        answers=Answers(connection, subjects, driver, seams, pauses),
        retries=Retries(connection, clock, rulings, deliveries, seams),
        gaps=Gaps(app, connection, subjects, deliveries),
    )


@asynccontextmanager
async def renew_here(leases: Leases, connection: Broker) -> AsyncIterator[None]:
    """Renew leases as a task of this loop, over this connection."""
    renewing = asyncio.create_task(leases.renew_for_ever(connection))
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
