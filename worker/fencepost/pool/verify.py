"""Ask a handler's own checker whether an effect happened, before a person is asked."""

import asyncio
import logging

from fencepost.app import Checker
from fencepost.emitting import Forbidden
from fencepost.handler import Context
from fencepost.pool.work import Work
from fencepost_schemas.row import Row

log = logging.getLogger("fencepost.pool")


async def ask_checker(
    checker: Checker, work: Work, row: Row, limit_s: float
) -> tuple[bool | None, str]:
    """Return what the checker says (None: it cannot), and why it could not.

    Whatever is not True or False is no answer: the checker may fail, hang or return nonsense, and
    then a person is asked as if there were none.
    """
    ctx = Context(
        event=work.event,
        handler=work.handler.name,
        idempotency_key=work.row_subject.rsplit(".", 1)[1],
        attempt=row.attempt,
        emitter=Forbidden(),
    )
    arguments = {checker.context_parameter: ctx} if checker.context_parameter else {}
    try:
        async with asyncio.timeout(limit_s):
            said = await checker.function(work.payload, **arguments)
    except Exception as error:  # whatever a checker may raise
        log.warning("%s: its checker failed", work.handler.name, exc_info=error)
        return None, f"attempt {row.attempt}: its checker failed: {type(error).__name__}: {error}"
    if said is True or said is False:
        log.info("%s: %r: its checker says %s", work.handler.name, work.event.position, said)
        return said, ""
    return None, ""
