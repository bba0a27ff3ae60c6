"""Carry out Plans: write, run, publish, settle, in this order, and nowhere else.

Whatever happened comes back as the next input of `step`, until a plan settles. Two pieces of work
on the same row follow one another in a process; between processes the ledger decides.
"""

import asyncio
import logging
from collections.abc import Callable

import msgspec

from fencepost.pool.ask import Desk
from fencepost.pool.run import run_handler
from fencepost.pool.work import Ruled, Work, arrival, row_subject
from fencepost.ports import Found, Ledger, World
from fencepost.settings import Pool
from fencepost_policies.ledger import step
from fencepost_policies.plan import (
    Answered,
    Finished,
    Given,
    Notice,
    Outcome,
    Plan,
    Settlement,
    Start,
)
from fencepost_schemas.row import Row, UnknownRowVersion
from fencepost_schemas.subject import Subjects

log = logging.getLogger("fencepost.pool")

S_TO_MS = 1000
OTHER_RELEASE_MS = 30_000
"""Before what only another release knows is looked at again; its workers may be quicker."""


class BrokerClock:
    """The broker's clock, kept as an offset to this machine's: leases must not depend on ours."""

    def __init__(self, world: World) -> None:
        self.offset_ms = 0
        self._world = world

    def set(self, broker_ms: int) -> None:
        self.offset_ms = broker_ms - self._world.wall_ms()

    def now_ms(self) -> int:
        return self._world.wall_ms() + self.offset_ms


class Done(msgspec.Struct, frozen=True):
    """How one piece of work settles, and the row that says so (None where there is none).

    `held` says that its event was put under the question of its seam.
    """

    settlement: Settlement
    delay_ms: int = 0
    row: Row | None = None
    held: bool = False


class _Queue(msgspec.Struct):
    """Who is at one row in this process, one after the other."""

    lock: asyncio.Lock
    length: int = 0


class Driver:
    def __init__(
        self,
        ledger: Ledger,
        desk: Desk,
        subjects: Subjects,
        pool: Pool,
        clock: BrokerClock,
        world: World,
        owner: str,
        reached: Callable[[str], None],
    ) -> None:
        self._ledger = ledger
        self._desk = desk
        self._subjects = subjects
        self._pool = pool
        self._clock = clock
        self._world = world
        self._owner = owner
        self._reached = reached
        self._queues: dict[str, _Queue] = {}

    def start(self) -> Start:
        """Return a fresh offer to run."""
        return Start(
            claim=self._world.random_name(16),
            owner=self._owner,
            lease_ms=int(self._pool.lease_s * S_TO_MS),
            timeout_ms=int(self._pool.handler_timeout_s * S_TO_MS),
        )

    async def arrived(self, work: Work, ruled: Ruled) -> Done:
        """Bring an event to its handler's ledger row and see it through."""
        return await self._drive(work, arrival(work, ruled, self.start()))

    async def answered(self, work: Work, answered: Answered) -> Done:
        """Bring an answer to the row that waits for it."""
        return await self._drive(work, answered)

    async def stands(self, work: Work) -> bool:
        """Return True if there is a row for this work."""
        return (await self._ledger.read(work.row_subject)).row is not None

    async def _drive(self, work: Work, given: Given) -> Done:
        queue = self._queues.setdefault(work.row_subject, _Queue(asyncio.Lock()))
        queue.length += 1
        try:
            async with queue.lock:
                return await self._see_through(work, given)
        except UnknownRowVersion as error:
            log.warning("%s: %s", work.handler.name, error)
            return Done(Settlement.LATER, OTHER_RELEASE_MS)
        finally:
            queue.length -= 1
            if not queue.length:
                del self._queues[work.row_subject]

    async def _see_through(self, work: Work, given: Given) -> Done:
        """Step, carry out the plan, and step again with what came of it, until it settles."""
        # An event's row is taken for absent, and found by the insert that fails. An answer is
        # about a row that stands.
        found = Found(None, 0)
        if isinstance(given, Answered):
            found = await self._ledger.read(work.row_subject)
        row, revision = found.row, found.revision
        while True:
            plan = step(row, given, self._clock.now_ms())
            if plan.write is not None:
                written = await self._write(work, plan.write, revision)
                if isinstance(written, Found):
                    row, revision = written.row, written.revision
                    continue
                if written is not None:
                    row, revision = plan.write, written
                self._reached("written")
            if plan.run:
                assert row is not None
                given = await self._run(work, row)
                self._reached("ran")
                continue
            return await self._settle(work, plan, plan.write if plan.write is not None else row)

    async def _run(self, work: Work, row: Row) -> Finished:
        """Run the handler, unless its lease was over before it could begin.

        The broker may have said so late that the claim was taken. The quarantine, behind which an
        answer may have the handler run again, covers a start within the lease and no later one.
        """
        if self._clock.now_ms() >= row.lease_until_ms:
            return Finished(row.claim, Outcome.NOT_APPLIED, error="claimed too late to begin")
        return await run_handler(work, row, self._pool, self._world, work.carrier.headers)

    async def _write(self, work: Work, row: Row, revision: int) -> int | Found | None:
        """Return the new revision, what stands instead, or None for a record beside the row."""
        subject = row_subject(self._subjects, row.handler, row.namespace, row.key)
        if subject != work.row_subject:
            # A conflict is recorded beside the row it conflicts with; once is enough.
            await self._ledger.write(subject, row, 0)
            return None
        result = await self._ledger.write(subject, row, revision)
        return result if isinstance(result, Found) else result.revision

    async def _settle(self, work: Work, plan: Plan, row: Row | None) -> Done:
        now_ms = self._clock.now_ms()
        for notice in plan.publish:
            assert row is not None, "a notice is about a row"
            await self._desk.publish(notice, work, row, now_ms)
        if plan.note:
            log.info("%s: %r: %s", work.handler.name, work.event.position, plan.note)
        self._reached("published")
        return Done(plan.settle, plan.delay_ms, row, Notice.HOLD in plan.publish)
