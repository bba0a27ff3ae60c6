"""One worker process: fetches no more than its free slots, works on it, and drains when told to."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import msgspec

from fencepost.app import Fencepost
from fencepost.awake import Awake
from fencepost.errors import Denied, LedgerDiffers, NotFine, Unreachable
from fencepost.patience import Patience, Stopped
from fencepost.pool.answers import Answers
from fencepost.pool.ask import Desk
from fencepost.pool.clock import BrokerClock
from fencepost.pool.crash_points import nothing_reached
from fencepost.pool.deliveries import Deliveries
from fencepost.pool.drive import Driver
from fencepost.pool.emit import Emissions
from fencepost.pool.gaps import Gaps, check_reconciled
from fencepost.pool.intake import Feed, Intake, consumer_name, in_a_task, open_intakes
from fencepost.pool.leases import Leases
from fencepost.pool.limits import Limits
from fencepost.pool.pauses import Pauses
from fencepost.pool.progress import Track, keep_track, look_once_more
from fencepost.pool.retries import Retries
from fencepost.pool.rulings import Rulings
from fencepost.pool.seams import Seams
from fencepost.ports import Broker, Ledger, World
from fencepost.settings import Settings
from fencepost.soundness import check_broker, check_payload
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.subject import ANSWERS, EVENTS, LEDGER, RETRIES, Subjects

log = logging.getLogger("fencepost.pool")

WATCH_S = 60.0
LOOK_AGAIN_S = 2.0
"""Before the identity is looked at again, where the broker did not answer."""
ANSWER_SLOTS = 4
RETRY_SLOTS = 16
GAP_SLOTS = 4
CANCEL_AGAIN_S = 1.0
"""Before somebody is told again to stop: the client library swallows it while it waits to flush."""
END_S = 1.0
"""For handlers to end once they are cancelled; one that does not is left behind."""


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
    with contextlib.suppress(Stopped):
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
    read_clock = partial(clock.read, connection, LEDGER)
    await patience.wait_out(read_clock)
    owner = f"worker-{world.random_name(8)}"
    leases = Leases(settings.pool, clock)
    rulings = Rulings(connection, subjects, settings.sources)
    desk = Desk(connection, subjects, rulings, app.name)
    emissions = Emissions(app.name, connection, subjects, settings.sources, world, reached)
    driver = Driver(
        app,
        ledger,
        leases,
        desk,
        emissions,
        subjects,
        settings.pool,
        clock,
        world,
        owner,
        reached,
        read_clock,
    )
    driver.limits.crowded = stop.set
    seams = Seams(app, subjects, rulings, driver, desk)
    pauses = Pauses(app.name, connection, subjects, rulings, driver, seams, desk)
    await patience.wait_out(pauses.look)
    deliveries = Deliveries(app, connection, subjects, rulings, driver, seams, pauses)
    answers = Answers(connection, subjects, driver, seams, pauses)
    retries = Retries(connection, clock, rulings, deliveries, seams)
    gaps = Gaps(app, connection, subjects, deliveries)
    slots, parked = settings.pool.slots, subjects.retries_of(app.name)
    taken = subjects.events_of()
    name = consumer_name(app.name, "")
    track = Track(app.name, "events", name, taken, connection, subjects)
    gap_feeds, gap_tracks = _gap_feeds(gaps, app, connection, subjects)
    tracks = [track, *gap_tracks]
    feeds = [
        Feed(EVENTS, "", (taken,), slots, deliveries.begin, partial(track.begin, from_now=False)),
        Feed(ANSWERS, "-answers", (subjects.answers(),), ANSWER_SLOTS, in_a_task(answers.work_on)),
        Feed(RETRIES, "-retries", (parked,), RETRY_SLOTS, in_a_task(retries.work_on)),
        *gap_feeds,
    ]
    intakes = await open_intakes(settings, connection, app.name, feeds, patience)
    log.info("%s: %d handlers, %d slots, as %s", app.name, len(app.handlers), slots, owner)
    renewing = renewal(leases) if renewal is not None else renew_here(leases, connection)
    async with app.lifespan(), renewing:
        watching = [
            _keep_watch(connection, subjects, ledger),
            clock.keep(connection, LEDGER),
            pauses.watch(),
            keep_track(tracks),
        ]
        await _work(driver, ledger, intakes, watching, settings.pool.drain_s, stop)
    await look_once_more(tracks)


async def _work(
    driver: Driver,
    ledger: Ledger,
    intakes: list[Intake],
    watching: Sequence[Coroutine[Any, Any, None]],
    drain_s: float,
    stop: asyncio.Event,
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
            if isinstance(error, LedgerDiffers):
                driver.halt()
            if not any(task.done() for task in deciding):
                log.error("%s; what was begun is finished first", error)
                left = [task for task in background if not task.done()]
                with contextlib.suppress(Exception):  # the first reason is the one that counts
                    await _drain(intakes, left, drain_s, driver.limits)
            raise
        await _drain(intakes, background, drain_s, driver.limits)
    finally:
        driver.close()
        await _end([*background, *_tasks_of(intakes), *driver.tasks])


def _gap_feeds(
    gaps: Gaps, app: Fencepost, connection: Broker, subjects: Subjects
) -> tuple[list[Feed], list[Track]]:
    """Return the feed of verdict records of each source that is reconciled, and its track.

    Gaps that were there before its reconciler are not called up: what they hid may be long settled.
    One consumer for all would pass over, or call up, the gaps of whoever is registered later.
    """
    feeds, tracks = [], []
    for source in app.reconcilers:
        suffix, records = f"-gaps-{source}", subjects.epochs_of(source)
        name = consumer_name(app.name, suffix)
        track = Track(app.name, f"gaps.{source}", name, records, connection, subjects)
        begin = partial(track.begin, from_now=True)
        see_to = in_a_task(gaps.work_on)
        feeds.append(Feed(EVENTS, suffix, (records,), GAP_SLOTS, see_to, begin))
        tracks.append(track)
    return feeds, tracks


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
    """Cancel tasks until they have ended."""
    left: Collection[asyncio.Task[Any]] = tasks
    while left:
        for task in left:
            task.cancel()
        done, left = await asyncio.wait(left, timeout=CANCEL_AGAIN_S)
        for task in done:
            # Looked at, or the loop would tell of it once more when the task is thrown away.
            task.cancelled() or task.exception()


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
    """Cancel what is left, before what the app holds open is closed."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=END_S)


async def _keep_watch(connection: Broker, subjects: Subjects, ledger: Ledger) -> None:
    """Look at the ledger's identity now and then, and after each break.

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
            check_payload(connection.payload_bytes_max)
            await look_at_identity(connection, subjects, ledger)
        except Denied:
            raise
        except Unreachable as error:
            log.warning("%s; the ledger's identity is looked at again later", error)
            await asyncio.sleep(LOOK_AGAIN_S)
            broke.set()


async def look_at_identity(connection: Broker, subjects: Subjects, ledger: Ledger) -> None:
    """Refuse to work on a ledger that is not the one the lineages were begun with."""
    await check_identity(connection, subjects, await ledger.identity())


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
