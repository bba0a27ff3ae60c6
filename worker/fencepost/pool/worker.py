"""One worker process: fetches no more than its free slots, works on it, and drains when told to."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine

import msgspec

from fencepost.app import Fencepost
from fencepost.errors import Denied, LedgerDiffers, NotFine, Unreachable
from fencepost.pool.answers import Answers
from fencepost.pool.ask import Desk
from fencepost.pool.deliveries import Deliveries
from fencepost.pool.drive import BrokerClock, Driver
from fencepost.pool.rulings import Rulings
from fencepost.pool.seams import Seams
from fencepost.ports import Broker, ConsumerPlan, Delivery, Ledger, World
from fencepost.settings import Settings
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.subject import ANSWERS, EVENTS, LEDGER, Subjects

log = logging.getLogger("fencepost.pool")

PENDING_MAX = 20_000
"""Unacked messages of one app, over all its workers; each slot and each delayed retry takes one."""
WATCH_S = 60.0
ANSWER_SLOTS = 4
LOOK_S = 1.0
END_S = 1.0
"""For handlers to end once they are cancelled; one that does not is left behind."""


def nothing_reached(point: str) -> None:
    """The crash point of every day: nothing happens."""


class Intake:
    """Keeps a number of slots busy with the messages of one consumer."""

    def __init__(
        self,
        connection: Broker,
        stream: str,
        consumer: str,
        slots: int,
        work_on: Callable[[Delivery], Coroutine[None, None, None]],
    ) -> None:
        self.running: set[asyncio.Task[None]] = set()
        self.puller = connection.puller(stream, consumer, self._take)
        self._slots = slots
        self._work_on = work_on
        self._freed = asyncio.Event()
        self._failed: BaseException | None = None

    async def run(self) -> None:
        """Ask for as many messages as slots are free, for ever; raise what the work raises."""
        await self.puller.open()
        try:
            while True:
                if self._failed is not None:
                    raise self._failed
                if self.puller.gone.is_set():
                    raise NotFine("the consumer is gone: start the worker again")
                self._freed.clear()
                await self.puller.want(self._slots - len(self.running))
                # Look after the puller even when nothing comes.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await self._freed.wait()
        finally:
            await self.puller.close()

    def _take(self, message: Delivery) -> None:
        task = asyncio.create_task(self._work_on(message))
        self.running.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            passing = isinstance(error, Unreachable | NotFine) and not isinstance(error, Denied)
            if passing:
                # One event that cannot be dealt with must not stop all others.
                log.error("%s; the event comes again", error)
            else:
                self._failed = error
        self._freed.set()


async def run_worker(
    settings: Settings,
    app: Fencepost,
    connection: Broker,
    ledger: Ledger,
    world: World,
    stop: asyncio.Event,
    reached: Callable[[str], None] = nothing_reached,
) -> None:
    """Work on the app's events and answers until `stop` is set; then finish what was begun.

    Raises LedgerDiffers where the ledger is not the one that the sources' lineages are pinned to.
    """
    subjects = Subjects(settings.broker.prefix)
    await check_identity(connection, subjects, await ledger.identity())
    clock = BrokerClock(world)
    clock.set(await connection.clock_ms(LEDGER))
    owner = f"worker-{world.random_name(8)}"
    rulings = Rulings(connection, subjects, settings.sources)
    desk = Desk(connection, subjects, rulings, app.name)
    driver = Driver(ledger, desk, subjects, settings.pool, clock, world, owner, reached)
    seams = Seams(app, subjects, rulings, driver, desk)
    deliveries = Deliveries(app, connection, subjects, rulings, driver, seams)
    answers = Answers(connection, subjects, driver, seams)
    slots = settings.pool.slots
    intakes = [
        await _intake(settings, connection, f"fp-{app.name}", EVENTS, slots, deliveries.work_on),
        await _intake(
            settings, connection, f"fp-{app.name}-answers", ANSWERS, ANSWER_SLOTS, answers.work_on
        ),
    ]
    log.info("%s: %d handlers, %d slots, as %s", app.name, len(app.handlers), slots, owner)
    async with app.lifespan():
        background = [
            asyncio.create_task(ledger.run()),
            asyncio.create_task(_keep_watch(connection, subjects, ledger, clock)),
        ]
        try:
            pulling = [asyncio.create_task(intake.run()) for intake in intakes]
            await _until(stop, pulling, background)
            await _drain(intakes, settings.pool.drain_s)
        finally:
            await _end([*background, *(task for one in intakes for task in one.running)])


async def _intake(
    settings: Settings,
    connection: Broker,
    consumer: str,
    stream: str,
    slots: int,
    work_on: Callable[[Delivery], Coroutine[None, None, None]],
) -> Intake:
    """Return the intake of one consumer, which is made where it is missing."""
    subjects = Subjects(settings.broker.prefix)
    subject = subjects.events_of() if stream == EVENTS else subjects.answers()
    plan = ConsumerPlan(
        stream,
        consumer,
        (subject,),
        settings.pool.ack_wait_s,
        PENDING_MAX,
        settings.broker.replicas,
    )
    await connection.ensure_consumer(plan)
    return Intake(connection, stream, consumer, slots, work_on)


async def _until(
    stop: asyncio.Event, pulling: list[asyncio.Task[None]], background: list[asyncio.Task[None]]
) -> None:
    """Return when told to stop, no longer pulling; raise as soon as some task fails."""
    stopping = asyncio.create_task(stop.wait())
    tasks = [stopping, *pulling, *background]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for one in (stopping, *pulling):
            one.cancel()
        await asyncio.gather(stopping, *pulling, return_exceptions=True)


async def _drain(intakes: list[Intake], limit_s: float) -> None:
    """Let what runs come to its end; what does not in time is another worker's after its lease."""
    running = [task for intake in intakes for task in intake.running]
    if not running:
        return
    log.info("stopping: %d still running, up to %g s", len(running), limit_s)
    _, left = await asyncio.wait(running, timeout=limit_s)
    if left:
        log.warning("%d did not end in time; they will be in doubt or run again", len(left))


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel what is left, before what the app holds open is closed."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=END_S)


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
            clock.set(await connection.clock_ms(LEDGER))
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
                f"Bring back the broker's data that holds {cursor.ledger}"
            )
