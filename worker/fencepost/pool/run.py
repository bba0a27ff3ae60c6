"""Run one handler once, and say how it ended in one of four words."""

import asyncio
import hashlib
import logging
from collections.abc import Mapping

import msgspec

from fencepost.app import Context, NotApplied, Reject
from fencepost.pool.work import Work
from fencepost.ports import World
from fencepost.settings import Pool
from fencepost.telemetry import PROCESS, remote_context, tracer
from fencepost_policies.plan import Finished, Outcome
from fencepost_policies.retry import wait_bounds
from fencepost_schemas.row import Row

log = logging.getLogger("fencepost.pool")


async def run_handler(
    work: Work, row: Row, pool: Pool, world: World, headers: Mapping[str, str]
) -> Finished:
    """Call the handler under its time limit and return what became of it.

    Anything that the handler does not say is unknown: an exception, or the end of its time, may
    have come after the effect.
    """
    event, handler = work.event, work.handler
    ctx = Context(
        event=event,
        handler=handler.name,
        idempotency_key=work.row_subject.rsplit(".", 1)[1],
        attempt=row.attempt,
    )
    bounds = wait_bounds(row.attempt, first_s=pool.retry_first_s, longest_s=pool.retry_longest_s)
    retry_ms = int(world.draw_s(bounds) * 1000)
    arguments = {handler.context_parameter: ctx} if handler.context_parameter else {}
    with tracer().start_as_current_span(
        f"process {handler.name}",
        context=remote_context(headers),
        kind=PROCESS,
        attributes={
            "messaging.system": "nats",
            "fencepost.handler": handler.name,
            "fencepost.source": event.source,
            "fencepost.generation": event.generation,
            "fencepost.attempt": row.attempt,
        },
    ):
        limit = asyncio.timeout(pool.handler_timeout_s)
        try:
            async with limit:
                result = await handler.function(work.payload, **arguments)
        except Reject as rejected:
            return _finished(row, retry_ms, Outcome.REJECTED, f"rejected: {rejected}")
        except NotApplied as proven:
            return _finished(row, retry_ms, Outcome.NOT_APPLIED, f"not applied: {proven}")
        except (Exception, asyncio.CancelledError) as error:  # whatever a handler may raise
            if _stopped(error):
                raise
            if limit.expired():
                text = f"ran into its limit of {pool.handler_timeout_s:g} s"
            else:
                text = f"{type(error).__name__}: {error}"
                log.warning("%s: %s", handler.name, type(error).__name__, exc_info=error)
            return _finished(row, retry_ms, Outcome.UNKNOWN, text)
    return Finished(row.claim, Outcome.APPLIED, result_digest=_digest(result))


def _stopped(error: BaseException) -> bool:
    """Return True if this worker is being ended, and not just something the handler waited for."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


def _finished(row: Row, retry_ms: int, outcome: Outcome, error: str) -> Finished:
    return Finished(row.claim, outcome, error=error, retry_ms=retry_ms)


def _digest(result: object) -> str:
    """Return a digest of what the handler returned; "" for nothing, or what is no plain data."""
    if result is None:
        return ""
    try:
        encoded = msgspec.json.encode(result)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return ""
    return hashlib.sha256(encoded).hexdigest()
