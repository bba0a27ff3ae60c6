"""Carry out Plans: write, run, publish, settle, in this order, and nowhere else.

Whatever happened comes back as the next input of `step`, until a plan settles. Two pieces of work
on the same row follow one another in a process; between processes the ledger decides.

What only has to wait for the ledger has no task meanwhile: a thousand of them wait as a thousand
small objects, and are told together. A task is made for what may take its own time: a handler, a
checker, the desk. What is to be decided waits for the next turn of `run`, which does one thing for
all of them and then the next: that takes a quarter less of the processor than all of it for each.
"""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from fencepost.app import Fencepost
from fencepost.errors import Denied, LedgerDiffers, Unreachable
from fencepost.handler import Handler
from fencepost.pool.ask import Desk
from fencepost.pool.barrier import Superseded
from fencepost.pool.case import Awaited, Case, Done, Ending
from fencepost.pool.clock import BrokerClock
from fencepost.pool.emit import Emissions
from fencepost.pool.leases import Leases, Running
from fencepost.pool.readings import Readings
from fencepost.pool.run import Attempts
from fencepost.pool.verify import ask_checker
from fencepost.pool.work import Ruled, Work, arrival, row_subject, shown
from fencepost.ports import Found, Ledger, World, Written
from fencepost.settings import Pool
from fencepost_policies.ledger import step
from fencepost_policies.plan import (
    Answered,
    Arrived,
    AtBarrier,
    Notice,
    Plan,
    Settlement,
    Start,
    Terms,
    Verified,
)
from fencepost_policies.waits import CLOCK_AGAIN_MS
from fencepost_schemas.row import Row, State, UnknownRowVersion
from fencepost_schemas.subject import Subjects

log = logging.getLogger("fencepost.pool")

S_TO_MS = 1000
TURN_CASES_MAX = 500
"""Heard, and as many decided on, before anything else of this loop has its turn; milliseconds."""
OTHER_RELEASE_MS = 30_000
"""Before what only another release knows is looked at again; its workers may be quicker."""


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
        read_clock: Callable[[], Awaitable[None]],
    ) -> None:
        self._app = app
        self._ledger = ledger
        self._desk = desk
        self._subjects = subjects
        self._clock = clock
        self.owner = owner
        self._loop = asyncio.get_running_loop()
        self._session = world.random_name(16)
        self._claims = itertools.count(1)
        self._reached = reached
        self._attempts = Attempts(leases, emissions, pool, clock, world, self._enter)
        self.limits = self._attempts.limits
        self._lease_ms = int(pool.lease_s * S_TO_MS)
        self._timeout_ms = int(pool.handler_timeout_s * S_TO_MS)
        self._reading_ms = int(pool.reading_s * S_TO_MS)
        self._lines: dict[str, list[Case]] = {}
        """Who waits here behind the one that is at a row now."""
        self._told: list[tuple[Case, Written | Found | Exception]] = []
        """What the ledger said since the last turn."""
        self._due: list[Case] = []
        """Where something has happened that is to be decided on in the next turn."""
        self._stirred = asyncio.Event()
        self.tasks: set[asyncio.Task[None]] = set()
        self._readings = Readings(read_clock, self.tasks)
        self._closed = False
        self._halted = False
        self._terms = _terms_of(app, pool)

    def start(self, handler: Handler) -> Start:
        """Return a fresh offer to run this handler."""
        return Start(
            claim=f"{self._session}-{next(self._claims)}",
            owner=self.owner,
            lease_ms=self._lease_ms,
            timeout_ms=self._timeout_ms,
            terms=self._terms[handler.name],
            reading_ms=self._reading_ms,
        )

    async def arrived(self, work: Work, ruled: Ruled) -> Done:
        """Bring an event to its handler's ledger row and see it through."""
        awaited = Awaited()
        self.begin(work, ruled, awaited)
        return await awaited.out()

    async def answered(self, work: Work, answered: Answered) -> Done:
        """Bring an answer to the row that waits for it."""
        awaited = Awaited()
        self._line_up(Case(work, answered, awaited))
        return await awaited.out()

    async def stands(self, work: Work) -> bool:
        """Return True if there is a row for this work."""
        return (await self._ledger.read(work.row_subject)).row is not None

    def begin(self, work: Work, ruled: Ruled, ending: Ending) -> None:
        """Bring an event to its row, and tell `ending` how it came out; never before it returns."""
        self._line_up(Case(work, arrival(work, ruled, self.start(work.handler)), ending))

    def halt(self) -> None:
        """Start nothing more, while what runs comes to its end: its ledger may be another one."""
        self._halted = True

    def close(self) -> None:
        """Begin nothing more: what runs is about to be cancelled."""
        self._closed = True

    async def run(self) -> None:
        """Decide on what happens, turn after turn, for ever. What is begun waits for this."""
        while True:
            await self._stirred.wait()
            self._stirred.clear()
            if self._clock.stale:
                # Leases that are written now would be judged by a clock that we may not know.
                with contextlib.suppress(Unreachable):
                    await self._readings.read()
            self._hear_all()
            self._advance_all()
            if self._told or self._due:
                self._stirred.set()
            # Whatever else is ready in this loop comes before the next turn.
            await asyncio.sleep(0)

    # --- one after the other at a row
    def _line_up(self, case: Case) -> None:
        line = self._lines.get(case.work.row_subject)
        if line is not None:
            line.append(case)
            return
        self._lines[case.work.row_subject] = []
        self._go(case)

    def _go(self, case: Case) -> None:
        if isinstance(case.given, Answered):
            self._spawn(case, self._look)  # an answer is about a row that stands
        else:
            self._decide(case)

    def _leave(self, case: Case) -> None:
        line = self._lines.pop(case.work.row_subject)
        if line and not self._closed:
            follower = line.pop(0)
            self._lines[case.work.row_subject] = line
            self._go(follower)

    # --- a turn: what the ledger said, then a step for each, then what these ask for
    def _decide(self, case: Case) -> None:
        """Have the next turn decide on what has happened."""
        self._due.append(case)
        self._stirred.set()

    def _hear(self, case: Case, result: Written | Found | Exception) -> None:
        """Keep what the ledger said for the next turn."""
        self._told.append((case, result))
        self._stirred.set()

    def _hear_all(self) -> None:
        told, self._told = self._told[:TURN_CASES_MAX], self._told[TURN_CASES_MAX:]
        for case, result in told:
            try:
                self._take_in(case, result)
            except Exception as error:  # the others are told all the same
                self._fail(case, error)

    def _advance_all(self) -> None:
        due, self._due = self._due[:TURN_CASES_MAX], self._due[TURN_CASES_MAX:]
        now_ms, steady_ms = self._clock.now_ms(), self._clock.steady_ms()
        readings = {fresh: self._clock.reading(fresh=fresh) for fresh in (True, False)}
        planned = []
        for case in due:
            case.decided_ms, fresh, case.fresh = steady_ms, case.fresh, False
            try:
                case.plan = step(case.row, case.given, now_ms, readings[fresh])
            except Exception as error:  # a fault of this program, which its worker has to hear of
                self._fail(case, error)
            else:
                planned.append(case)
        for case in planned:
            try:
                self._write(case)
            except Exception as error:  # as above
                self._fail(case, error)

    def _take_in(self, case: Case, result: Written | Found | Exception) -> None:
        """Go on with the row that was written, or step again with the one that stands there."""
        if isinstance(result, Exception):
            raise result
        beside = case.plan.write is not None and case.plan.write.state is State.CONFLICT
        if not beside:
            if isinstance(result, Found):
                case.row, case.revision = result.row, result.revision
                self._decide(case)
                return
            case.row, case.revision = case.plan.write, result.revision
        self._reached("written")
        self._carry_on(case)

    def _write(self, case: Case) -> None:
        """Begin a plan with its row."""
        row = case.plan.write
        if self._halted and case.plan.run:
            case.plan = Plan()  # silent: it comes again, to a worker that may start it
            self._end(case)
        elif case.plan.read_clock:
            self._readings.ask(partial(self._timed, case))
        elif row is None:
            self._carry_on(case)
        elif row.state is State.CONFLICT:
            # A conflict is recorded beside the row it conflicts with; once is enough.
            subject = row_subject(self._subjects, row.handler, row.namespace, row.key)
            self._ledger.submit(subject, row, 0, partial(self._hear, case))
        else:
            subject = case.work.row_subject
            self._ledger.submit(subject, row, case.revision, partial(self._hear, case))

    def _timed(self, case: Case, error: Exception | None) -> None:
        """Decide again by a clock that was just read; put off what waits for a broker away."""
        if error is None:
            case.fresh = True
            self._decide(case)
        elif isinstance(error, Unreachable) and not isinstance(error, Denied):
            case.plan = Plan(settle=Settlement.LATER, delay_ms=CLOCK_AGAIN_MS)
            self._end(case)
        else:
            self._fail(case, error)

    def _carry_on(self, case: Case) -> None:
        """Do what the plan asks for behind its write."""
        plan = case.plan
        if plan.run:
            self._spawn(case, self._run)
        elif plan.verify:
            self._spawn(case, self._verify)
        elif plan.publish:
            self._spawn(case, self._publish)
        else:
            self._end(case)

    def _end(self, case: Case) -> None:
        plan = case.plan
        if plan.note:
            log.info("%s: %r: %s", case.work.handler.name, case.work.event.position, plan.note)
        self._reached("published")
        row, written = case.row, False
        if plan.write is not None:
            row, written = plan.write, True
        case.ending.ended(
            Done(plan.settle, plan.delay_ms, row, Notice.HOLD in plan.publish, written)
        )
        self._leave(case)

    def _fail(self, case: Case, error: BaseException) -> None:
        self._leave(case)
        if isinstance(error, UnknownRowVersion):
            log.warning("%s: %s", case.work.handler.name, error)
            case.ending.ended(Done(Settlement.LATER, OTHER_RELEASE_MS))
        else:
            case.ending.failed(error)

    # --- what takes its own time
    def _spawn(self, case: Case, doing: Callable[[Case], Coroutine[Any, Any, None]]) -> None:
        case.task = self._loop.create_task(self._see_to(case, doing), name=shown(case.work))
        self.tasks.add(case.task)

    async def _see_to(self, case: Case, doing: Callable[[Case], Coroutine[Any, Any, None]]) -> None:
        task = case.task
        try:
            await doing(case)
        except BaseException as error:  # whatever it is, somebody waits to hear of it
            if case.task is task:
                self._fail(case, error)
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            assert task is not None
            self.tasks.discard(task)

    async def _look(self, case: Case) -> None:
        found = await self._ledger.read(case.work.row_subject)
        case.row, case.revision = found.row, found.revision
        self._decide(case)

    async def _run(self, case: Case) -> None:
        assert case.row is not None
        await self._ledger.confirm()
        terms = self._terms[case.work.handler.name]
        leave = partial(self._leave_behind, case)
        over_ms = case.decided_ms + self._lease_ms
        ended = await self._attempts.run(case.work, case.row, case.revision, over_ms, terms, leave)
        if ended is None:
            return  # left behind: the case went on without it
        finished, case.row, case.revision = ended
        case.given, case.trace = finished, finished.trace
        self._reached("ran")
        self._decide(case)

    def _leave_behind(self, case: Case, row: Row) -> None:
        """Go on without an attempt that does not end: its event comes again behind its lease."""
        case.task = None
        delay_ms = max(1, row.lease_until_ms - self._clock.now_ms())
        case.ending.ended(Done(Settlement.LATER, delay_ms, row))
        self._leave(case)

    async def _enter(self, work: Work, running: Running) -> None:
        """Let an attempt through its barrier: durably started, and within its lease."""
        row, revision, _ = running.stands
        self._reached("at_barrier")
        while True:
            time_ms = running.time_ms(self._clock.steady_ms())
            plan = step(row, AtBarrier(running.claim), time_ms)
            if plan.write is None:
                raise Superseded("another worker has taken it over")
            written = await self._ledger.write(work.row_subject, plan.write, revision)
            if isinstance(written, Found):
                if written.row is None:
                    raise Superseded("its row is gone")
                row, revision = written.row, written.revision
                continue
            running.written(plan.write, written.revision)
            break
        try:
            await self._ledger.confirm()
        except LedgerDiffers as error:
            raise Superseded(str(error)) from None
        self._reached("entered")
        if self._clock.steady_ms() >= running.over_ms:
            raise Superseded("its lease was over at the barrier")

    async def _verify(self, case: Case) -> None:
        """Ask the handler's checker whether the attempt in question had its effect."""
        assert case.row is not None
        work, given = case.work, case.given
        start = given.start if isinstance(given, Arrived | Answered) else self.start(work.handler)
        checker = self._app.checkers[work.handler.name]
        happened, error = await ask_checker(checker, work, case.row, self.limits)
        case.given = Verified(case.row.claim, happened, start, error)
        self._reached("verified")
        self._decide(case)

    async def _publish(self, case: Case) -> None:
        now_ms = self._clock.now_ms()
        row = case.plan.write if case.plan.write is not None else case.row
        assert row is not None, "a notice is about a row"
        for notice in case.plan.publish:
            await self._desk.publish(notice, case.work, row, now_ms, case.trace)
        self._end(case)


def _terms_of(app: Fencepost, pool: Pool) -> dict[str, Terms]:
    """Return what each handler declares, by its name."""
    return {
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
