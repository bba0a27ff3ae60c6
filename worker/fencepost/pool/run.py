"""Run one handler once, and say how it ended in one of four words."""

import asyncio
import contextlib
import contextvars
import hashlib
import logging
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping

import msgspec
from opentelemetry.trace import Span

from fencepost.emitting import Emitter
from fencepost.handler import Context, NotApplied, OpenGate, Reject, Retry
from fencepost.pool.barrier import Barrier, Side, Superseded
from fencepost.pool.leases import Running
from fencepost.pool.limits import Limit, Limits
from fencepost.pool.work import Work
from fencepost.ports import World
from fencepost.settings import Pool
from fencepost.telemetry import PROCESS, remote_context, traced, tracer
from fencepost_policies.plan import Finished, Outcome
from fencepost_policies.retry import wait_bounds
from fencepost_schemas.row import Row

log = logging.getLogger("fencepost.pool")

TRACE_CHARS_MAX = 2_000
"""The end of a traceback, which is where it tells most."""


class Attempt(msgspec.Struct, frozen=True):
    """What a handler is run with. `lease_left_s` tells how long its lease still holds."""

    work: Work
    row: Row
    running: Running
    barrier: Barrier | None
    emitter: Emitter
    lease_left_s: Callable[[], float]


async def run_handler(attempt: Attempt, pool: Pool, world: World, limits: Limits) -> Finished:
    """Call the handler under its limits and return what became of it.

    Anything that the handler does not say is unknown: an exception, or the end of its time, may
    have come after the effect. Only a barrier knows better.
    """
    work, row = attempt.work, attempt.row
    _name_task(attempt.running.shown)
    limit = Limit(attempt.lease_left_s)
    with _span(work, row, work.carrier.headers) if traced() else contextlib.nullcontext():
        try:
            result = await _call(attempt, limits, limit)
        except Superseded as over:
            return Finished(row.claim, Outcome.NOT_APPLIED, error=str(over))
        except (Exception, asyncio.CancelledError) as error:  # whatever a handler may raise
            if _stopped(error):
                raise
            bounds = wait_bounds(
                row.attempt, first_s=pool.retry_first_s, longest_s=pool.retry_longest_s
            )
            return _ended(attempt, error, limit.text, int(world.draw_s(bounds) * 1000))
    return Finished(row.claim, Outcome.APPLIED, result_digest=_digest(result))


async def _call(attempt: Attempt, limits: Limits, limit: Limit) -> object:
    work, row = attempt.work, attempt.row
    handler = work.handler
    ctx = Context(
        event=work.event,
        handler=handler.name,
        idempotency_key=work.row_subject.rsplit(".", 1)[1],
        attempt=row.attempt,
        gate=attempt.barrier if attempt.barrier is not None else OpenGate(),
        emitter=attempt.emitter,
    )
    arguments = {handler.context_parameter: ctx} if handler.context_parameter else {}
    if handler.threaded:
        call = _in_thread(lambda: handler.function(work.payload, **arguments), handler.name)
        return await limits.wait_for_thread(call, handler.name)
    made = handler.function(work.payload, **arguments)
    assert asyncio.iscoroutine(made)
    return await limits.hold(made, limit)


def _ended(attempt: Attempt, error: BaseException, limit: str, retry_ms: int) -> Finished:
    """Say what it means that a handler ended with this error."""
    claim, name = attempt.row.claim, attempt.work.handler.name
    barrier = attempt.barrier
    text = limit or f"{type(error).__name__}: {error}"
    if barrier is not None and barrier.side is Side.BEHIND:
        log.error("%s: its effect happened, then: %s", name, text, exc_info=error)
        return Finished(claim, Outcome.APPLIED)
    outcome = Outcome.UNKNOWN
    if isinstance(error, Reject):
        outcome, text = Outcome.REJECTED, f"rejected: {error}"
    elif isinstance(error, Retry):
        outcome, text, retry_ms = Outcome.NOT_APPLIED, str(error), int(error.after_s * 1000)
    elif isinstance(error, NotApplied):
        outcome, text = Outcome.NOT_APPLIED, f"not applied: {error}"
    elif not limit:
        log.warning("%s: %s", name, type(error).__name__, exc_info=error)
    trace = "".join(traceback.format_exception(error))[-TRACE_CHARS_MAX:]
    return Finished(claim, outcome, error=text, retry_ms=retry_ms, trace=trace)


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
            failed = RuntimeError(f"StopIteration: {error}")
        except BaseException as error:  # a thread has nobody above it to tell
            failed = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, failed)

    threading.Thread(target=run, name=name, daemon=True).start()
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


def _name_task(shown: str) -> None:
    """Have the task that runs the handler bear its name, for whoever looks what blocks the loop."""
    task = asyncio.current_task()
    if task is not None:
        task.set_name(shown)


def _stopped(error: BaseException) -> bool:
    """Return True if this worker is being ended, and not just something the handler waited for."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


def _digest(result: object) -> str:
    """Return a digest of what the handler returned; "" for nothing, or what is no plain data."""
    if result is None:
        return ""
    try:
        encoded = msgspec.json.encode(result)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return ""
    return hashlib.sha256(encoded).hexdigest()
