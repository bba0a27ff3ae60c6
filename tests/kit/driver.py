"""A driver by itself: in memory, with a clock that goes where it is told to."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fencepost import Fencepost
from fencepost.pool.ask import Desk
from fencepost.pool.clock import BrokerClock
from fencepost.pool.crash_points import nothing_reached
from fencepost.pool.drive import Driver
from fencepost.pool.emit import Emissions
from fencepost.pool.leases import Leases
from fencepost.pool.rulings import Rulings
from fencepost.pool.work import Ruled, Work, make_work
from fencepost.ports import Ledger
from fencepost.settings import Pool
from fencepost.testing.memory import MemoryBroker, MemoryConnection
from fencepost_policies.retry import WaitBounds
from fencepost_schemas.event import ClassifiedEvent
from fencepost_schemas.question import Held
from fencepost_schemas.subject import LEDGER, Subjects
from kit.pool import FIRST

SUBJECTS = Subjects()
LEASE_MS = 30_000
RULED = Ruled(None, FIRST)


class ToldTime:
    """A clock that goes where it is told to."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def wall_ms(self) -> int:
        return self.ms

    def monotonic_s(self) -> float:
        return self.ms / 1000

    def random_name(self, chars: int) -> str:
        return "a" * chars

    def draw_s(self, bounds: WaitBounds) -> float:
        return bounds.most_s


class TimeServer:
    """As much of a broker as a clock asks of it; its time is the told one."""

    def __init__(self, time: ToldTime) -> None:
        self._time = time

    async def clock_ms(self, stream: str) -> int:
        return self._time.ms


@asynccontextmanager
async def driving(app: Fencepost, ledger: Ledger, time: ToldTime) -> AsyncIterator[Driver]:
    """Yield a driver of this app that decides on what happens."""
    connection = MemoryConnection(MemoryBroker())
    pool = Pool(lease_s=LEASE_MS / 1000)
    clock = BrokerClock(time, pool.reading_s)

    async def read_clock() -> None:
        # It is as much of a broker as a clock asks of one.
        await clock.read(TimeServer(time), LEDGER)  # type: ignore[arg-type]

    await read_clock()
    desk = Desk(connection, SUBJECTS, Rulings(connection, SUBJECTS, {}), app.name)
    emissions = Emissions(app.name, connection, SUBJECTS, {}, time, nothing_reached)
    leases = Leases(pool, clock)
    driver = Driver(
        app,
        ledger,
        leases,
        desk,
        emissions,
        SUBJECTS,
        pool,
        clock,
        time,
        "me",
        nothing_reached,
        read_clock,
    )
    deciding = asyncio.create_task(driver.run())
    try:
        yield driver
    finally:
        driver.close()
        for task in (deciding, *driver.tasks):
            task.cancel()
        await asyncio.wait([deciding, *driver.tasks])
        if not deciding.cancelled():
            deciding.result()


def work_for(app: Fencepost, handler: str, event: ClassifiedEvent) -> Work:
    """Return the work of an event for a handler of this app."""
    return make_work(
        app.handlers[handler], event, Held("", {}, event.payload, app.name, ""), RULED, SUBJECTS
    )
