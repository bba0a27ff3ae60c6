"""Run handlers: each attempt under its limits and its lease, and its end said in four words."""

import asyncio
import contextlib
import contextvars
import hashlib
import logging
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec
from opentelemetry.trace import Span

from fencepost.foreign_text import error_text, fit, log_error, told_by
from fencepost.handler import Context, NotApplied, OpenGate, Reject, Retry
from fencepost.pool.barrier import Barrier, Side, Superseded
from fencepost.pool.clock import BrokerClock
from fencepost.pool.crash_points import Crash
from fencepost.pool.emit import Emissions
from fencepost.pool.leases import Leases, Running
from fencepost.pool.limits import Limit, Limits
from fencepost.pool.work import Work, shown
from fencepost.ports import World
from fencepost.settings import Pool
from fencepost.telemetry import PROCESS, remote_context, traced, tracer
from fencepost_policies.plan import Finished, Outcome, Terms
from fencepost_policies.retry import wait_bounds
from fencepost_schemas.row import Row

log = logging.getLogger("fencepost.pool")

S_TO_MS = 1000
TRACED_LOOK_MS = 1_000
HANDLER = "handler "
"""The beginning of the names of threads that handlers run in."""
_OPEN = OpenGate()
_NO_SPAN = contextlib.nullcontext()

Enter = Callable[[Work, Running], Coroutine[Any, Any, None]]
"""Lets an attempt through its barrier, or raises Superseded."""
Leave = Callable[[Row], None]
"""Goes on without an attempt that does not end; its row stands like this."""


class Attempts:
    """What runs a handler of this process."""

    def __init__(
        self,
        leases: Leases,
        emissions: Emissions,
        pool: Pool,
        clock: BrokerClock,
        world: World,
        enter: Enter,
    ) -> None:
        self._leases = leases
        self._emissions = emissions
        self._pool = pool
        self._clock = clock
        self._world = world
        self._enter = enter
        self.limits = Limits(pool)
        leases.blocked_by = self.limits.charge
        self._traced = False
        self._look_at_ms = 0
        self._timeout_ms = int(pool.handler_timeout_s * S_TO_MS)

    async def run(
        self,
        work: Work,
        row: Row,
        revision: int,
        over_ms: int,
        terms: Terms,
        leave: Leave,
    ) -> tuple[Finished, Row, int] | None:
        """Run the handler; return how it ended, and the row as it stands by then.

        Return None where it was left behind: `leave` was called then, and its end does not count.

        The handler does not begin once its lease is over, which is at `over_ms` by this machine's
        own clock: the broker may have said so late that the claim was taken. The quarantine, behind
        which an answer may have the handler run again, covers a start within the lease and no later
        one.

        Anything that the handler does not say is unknown: an exception, or the end of its time, may
        have come after the effect. Only a barrier knows better.
        """
        steady_ms = self._clock.steady_ms()
        if steady_ms >= over_ms:
            late = "claimed too late to begin"
            return Finished(row.claim, Outcome.NOT_APPLIED, error=late, terms=terms), row, revision
        running = Running(
            work.row_subject,
            row,
            revision,
            over_ms=over_ms,
            until_ms=None if work.handler.threaded else steady_ms + self._timeout_ms,
            reply=work.reply,
            shown=shown(work),
        )
        limit = Limit(
            partial(self._lease_left_s, running),
            shown=running.shown,
            moved=partial(_renew_for_longer, running),
            leave=partial(self._leave, running, leave),
        )
        barrier = None
        if work.handler.barrier:
            barrier = Barrier(partial(self._enter_in_time, work, running, limit))
        self._leases.watch(running)
        try:
            with _span(work, row, work.carrier.headers) if self._is_traced(steady_ms) else _NO_SPAN:
                finished = await self._finished(work, row, barrier, limit, terms)
        finally:
            if not limit.left_behind:
                self._leases.end(running)
        if limit.left_behind:
            said = f"{finished.outcome} {finished.error}".rstrip()
            log.warning("%s: left behind, ended now: %s; it does not count", running.shown, said)
            return None
        row, revision, _ = running.stands
        return finished, row, revision

    def _leave(self, running: Running, leave: Leave) -> None:
        self._leases.end(running)
        leave(running.stands[0])

    async def _enter_in_time(self, work: Work, running: Running, limit: Limit) -> None:
        """Let an attempt through its barrier, unless it was left behind."""
        if not limit.left_behind:
            await self._enter(work, running)
        if limit.left_behind:
            raise Superseded("it was left behind before its barrier")

    async def _finished(
        self, work: Work, row: Row, barrier: Barrier | None, limit: Limit, terms: Terms
    ) -> Finished:
        task = asyncio.current_task()
        try:
            result = await self._call(work, row, barrier, limit)
        except Superseded as over:
            return Finished(row.claim, Outcome.NOT_APPLIED, error=fit(over), terms=terms)
        except BaseException as error:  # whatever a handler may raise, an exit of Python's included
            if _ends_the_worker(error, task):
                raise
            bounds = wait_bounds(
                row.attempt,
                first_s=self._pool.retry_first_s,
                longest_s=self._pool.retry_longest_s,
            )
            retry_ms = int(self._world.draw_s(bounds) * S_TO_MS)
            ended = _ended(work.handler.name, row.claim, barrier, error, limit.text, retry_ms)
            return msgspec.structs.replace(ended, terms=terms)
        return Finished(row.claim, Outcome.APPLIED, _digest(result), terms=terms)

    def _call(
        self, work: Work, row: Row, barrier: Barrier | None, limit: Limit
    ) -> Coroutine[Any, Any, object]:
        """Return what to await for the handler's result."""
        handler = work.handler
        arguments = {}
        if handler.context_parameter:
            arguments[handler.context_parameter] = Context(
                event=work.event,
                handler=handler.name,
                idempotency_key=work.row_subject.rsplit(".", 1)[1],
                attempt=row.attempt,
                gate=barrier if barrier is not None else _OPEN,
                emitter=self._emissions.of(work),
            )
        if handler.threaded:
            call = _in_thread(lambda: handler.function(work.payload, **arguments), handler.name)
            return self.limits.wait_for_thread(call, handler.name)
        made = handler.function(work.payload, **arguments)
        assert asyncio.iscoroutine(made)
        return self.limits.hold(made, limit)

    def _is_traced(self, steady_ms: int) -> bool:
        """Look now and then whether somebody takes spans: to look costs more than to run."""
        if steady_ms >= self._look_at_ms:
            self._traced = traced()
            self._look_at_ms = steady_ms + TRACED_LOOK_MS
        return self._traced

    def _lease_left_s(self, running: Running) -> float:
        return (running.over_ms - self._clock.steady_ms()) / S_TO_MS


def _ended(
    name: str,
    claim: str,
    barrier: Barrier | None,
    error: BaseException,
    limit: str,
    retry_ms: int,
) -> Finished:
    """Say what it means that a handler ended with this error."""
    told = told_by(error)
    text = limit or told.text
    if barrier is not None and barrier.side is Side.BEHIND:
        log_error(log, logging.ERROR, f"{name}: its effect happened, then: {text}", told)
        return Finished(claim, Outcome.APPLIED)
    outcome = Outcome.UNKNOWN
    if isinstance(error, Reject):
        outcome, text = Outcome.REJECTED, f"rejected: {fit(error)}"
    elif isinstance(error, Retry):
        outcome, text, retry_ms = Outcome.NOT_APPLIED, fit(error), int(error.after_s * S_TO_MS)
    elif isinstance(error, NotApplied):
        outcome, text = Outcome.NOT_APPLIED, f"not applied: {fit(error)}"
    elif not limit:
        log_error(log, logging.WARNING, f"{name}: {told.text}", told)
    return Finished(claim, outcome, error=text, retry_ms=retry_ms, trace=told.trace)


def _renew_for_longer(running: Running, by_s: float) -> None:
    """Keep the lease up for as long as its attempt may run."""
    if running.until_ms is not None:
        running.until_ms += int(by_s * S_TO_MS)


def _in_thread(call: Callable[[], object], name: str) -> asyncio.Future[object]:
    """Run a call on a thread of its own, which does not keep the process from ending."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[object] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: object, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)

    def run() -> None:
        result: object = None
        failed: BaseException | None = None
        try:
            result = context.run(call)
        except StopIteration as error:
            failed = RuntimeError(error_text(error))
        except BaseException as error:  # a thread has nobody above it to tell
            failed = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, failed)

    threading.Thread(target=run, name=f"{HANDLER}{name}", daemon=True).start()
    return future


@contextlib.contextmanager
def _span(work: Work, row: Row, headers: Mapping[str, str]) -> Iterator[Span]:
    with tracer().start_as_current_span(
        f"process {work.handler.name}",
        context=remote_context(headers),
        kind=PROCESS,
        attributes={
            "messaging.system": "nats",
            "fencepost.handler": work.handler.name,
            "fencepost.source": work.event.source,
            "fencepost.generation": work.event.generation,
            "fencepost.attempt": row.attempt,
        },
    ) as span:
        yield span


def _ends_the_worker(error: BaseException, task: asyncio.Task[Any] | None) -> bool:
    """Return True if this worker is being ended, and not just something the handler raised.

    `task` is the attempt's. A coroutine that nobody runs any more is closed by a GeneratorExit,
    which comes from outside of it.
    """
    if isinstance(error, asyncio.CancelledError):
        return task is not None and task.cancelling() > 0
    if isinstance(error, GeneratorExit):
        return _running_task() is not task
    return isinstance(error, Crash)


def _running_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _digest(result: object) -> str:
    """Return a digest of what the handler returned; "" for nothing, or what is no plain data."""
    if result is None:
        return ""
    try:
        encoded = msgspec.json.encode(result)
    except Exception:  # whatever a foreign object raises where it is looked into
        return ""
    return hashlib.sha256(encoded).hexdigest()
