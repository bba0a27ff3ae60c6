"""Carry out Plans: write, run, publish, settle, in this order, and nowhere else.

Whatever happened comes back as the next input of `step`, until a plan settles. Two pieces of work
on the same row follow one another in a process; between processes the ledger decides.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable

import msgspec

from fencepost.app import Fencepost
from fencepost.handler import Handler
from fencepost.pool.ask import Desk
from fencepost.pool.barrier import Barrier, Superseded
from fencepost.pool.clock import BrokerClock
from fencepost.pool.emit import Emissions
from fencepost.pool.leases import Leases, Running
from fencepost.pool.limits import Limits
from fencepost.pool.run import Attempt, run_handler
from fencepost.pool.verify import ask_checker
from fencepost.pool.work import Ruled, Work, arrival, row_subject
from fencepost.ports import Found, Ledger, World
from fencepost.settings import Pool
from fencepost_policies.ledger import step
from fencepost_policies.plan import (
    Answered,
    Arrived,
    AtBarrier,
    Finished,
    Given,
    Notice,
    Outcome,
    Plan,
    Settlement,
    Start,
    Terms,
    Verified,
)
from fencepost_schemas.row import Row, State, UnknownRowVersion
from fencepost_schemas.subject import Subjects

log = logging.getLogger("fencepost.pool")

S_TO_MS = 1000
OTHER_RELEASE_MS = 30_000
"""Before what only another release knows is looked at again; its workers may be quicker."""


class Done(msgspec.Struct, frozen=True):
    """How one piece of work settles, and the row that says so (None where there is none).

    `held` says that its event was put under the question of its seam, `written` that the row was
    written on the way here.
    """

    settlement: Settlement
    delay_ms: int = 0
    row: Row | None = None
    held: bool = False
    written: bool = False


class _Queue(msgspec.Struct):
    """Who is at one row in this process, one after the other."""

    lock: asyncio.Lock
    length: int = 0


class Driver:
    def __init__(
        self,
        app: Fencepost,
        ledger: Ledger,
        leases: Leases,
        desk: Desk,
        emissions: Emissions,
        subjects: Subjects,
        pool: Pool,
        clock: BrokerClock,
        world: World,
        owner: str,
        reached: Callable[[str], None],
    ) -> None:
        self._app = app
        self._ledger = ledger
        self._leases = leases
        self._desk = desk
        self._emissions = emissions
        self._subjects = subjects
        self._pool = pool
        self._clock = clock
        self._world = world
        self._owner = owner
        self._session = world.random_name(16)
        self._attempts = itertools.count(1)
        self._reached = reached
        self._limits = Limits(pool)
        self._queues: dict[str, _Queue] = {}
        self._terms = {
            handler.name: Terms(
                attempts_max=handler.attempts_max,
                barrier=handler.barrier,
                verifiable=handler.name in app.checkers,
                sink_ms=int(handler.sink_retention_s * S_TO_MS),
                parked_over_ms=int(pool.ack_wait_s * S_TO_MS),
                asks_when_spent=handler.reconciles,
            )
            for handler in app.handlers.values()
        }

    def start(self, handler: Handler) -> Start:
        """Return a fresh offer to run this handler."""
        return Start(
            claim=f"{self._session}-{next(self._attempts)}",
            owner=self._owner,
            lease_ms=int(self._pool.lease_s * S_TO_MS),
            timeout_ms=int(self._pool.handler_timeout_s * S_TO_MS),
            terms=self._terms[handler.name],
        )

    async def arrived(self, work: Work, ruled: Ruled) -> Done:
        """Bring an event to its handler's ledger row and see it through."""
        return await self._drive(work, arrival(work, ruled, self.start(work.handler)))

    async def answered(self, work: Work, answered: Answered) -> Done:
        """Bring an answer to the row that waits for it."""
        return await self._drive(work, answered)

    async def stands(self, work: Work) -> bool:
        """Return True if there is a row for this work."""
        return (await self._ledger.read(work.row_subject)).row is not None

    async def _drive(self, work: Work, given: Given) -> Done:
        queue = self._queues.get(work.row_subject)
        if queue is None:
            queue = self._queues[work.row_subject] = _Queue(asyncio.Lock())
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
        trace = ""
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
                given, row, revision = await self._run(work, row, revision)
                trace = given.trace
                self._reached("ran")
                continue
            if plan.verify:
                assert row is not None
                given = await self._verify(work, row, given)
                self._reached("verified")
                continue
            row = plan.write if plan.write is not None else row
            return await self._settle(work, plan, row, trace)

    async def _run(self, work: Work, row: Row, revision: int) -> tuple[Finished, Row, int]:
        """Run the handler; return how it ended, and the row as it stands by then.

        Not where its lease was over before it could begin: the broker may have said so late that
        the claim was taken. The quarantine, behind which an answer may have the handler run again,
        covers a start within the lease and no later one.
        """
        terms = self._terms[work.handler.name]
        if self._clock.now_ms() >= row.lease_until_ms:
            late = Finished(row.claim, Outcome.NOT_APPLIED, error="claimed too late to begin")
            return msgspec.structs.replace(late, terms=terms), row, revision
        limit_ms = self._clock.now_ms() + int(self._pool.handler_timeout_s * S_TO_MS)
        running = Running(
            work.row_subject,
            row,
            revision,
            until_ms=None if work.handler.threaded else limit_ms,
            reply=work.reply,
            shown=f"{work.handler.name} at {work.event.position!r} of {work.event.source}",
        )

        async def enter() -> None:
            await self._enter(work, running)

        barrier = Barrier(enter) if work.handler.barrier else None
        attempt = Attempt(
            work,
            row,
            running,
            barrier,
            self._emissions.of(work),
            lambda: self._lease_left_s(running),
        )
        self._leases.watch(running)
        try:
            finished = await run_handler(attempt, self._pool, self._world, self._limits)
        finally:
            self._leases.end(running)
        return msgspec.structs.replace(finished, terms=terms), *running.stands

    def _lease_left_s(self, running: Running) -> float:
        return (running.lease_until_ms - self._clock.now_ms()) / S_TO_MS

    async def _enter(self, work: Work, running: Running) -> None:
        """Let an attempt through its barrier: durably started, and within its lease."""
        row, revision = running.stands
        self._reached("at_barrier")
        while True:
            now_ms = self._clock.now_ms()
            plan = step(row, AtBarrier(running.claim), now_ms)
            if plan.write is None:
                raise Superseded("another worker has taken it over")
            written = await self._ledger.write(work.row_subject, plan.write, revision)
            if isinstance(written, Found):
                if written.row is None:
                    raise Superseded("its row is gone")
                row, revision = written.row, written.revision
                continue
            running.stands = (plan.write, written.revision)
            break
        self._reached("entered")
        if self._lease_left_s(running) <= 0:
            raise Superseded("its lease was over at the barrier")

    async def _verify(self, work: Work, row: Row, given: Given) -> Verified:
        """Ask the handler's checker whether the attempt in question had its effect."""
        start = given.start if isinstance(given, Arrived | Answered) else self.start(work.handler)
        checker = self._app.checkers[work.handler.name]
        happened, error = await ask_checker(checker, work, row, self._pool.handler_timeout_s)
        return Verified(row.claim, happened, start, error)

    async def _write(self, work: Work, row: Row, revision: int) -> int | Found | None:
        """Return the new revision, what stands instead, or None for a record beside the row."""
        if row.state is State.CONFLICT:
            # A conflict is recorded beside the row it conflicts with; once is enough.
            subject = row_subject(self._subjects, row.handler, row.namespace, row.key)
            await self._ledger.write(subject, row, 0)
            return None
        result = await self._ledger.write(work.row_subject, row, revision)
        return result if isinstance(result, Found) else result.revision

    async def _settle(self, work: Work, plan: Plan, row: Row | None, trace: str) -> Done:
        now_ms = self._clock.now_ms()
        for notice in plan.publish:
            assert row is not None, "a notice is about a row"
            await self._desk.publish(notice, work, row, now_ms, trace)
        if plan.note:
            log.info("%s: %r: %s", work.handler.name, work.event.position, plan.note)
        self._reached("published")
        held, written = Notice.HOLD in plan.publish, plan.write is not None
        return Done(plan.settle, plan.delay_ms, row, held, written)
