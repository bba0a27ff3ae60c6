"""Ask a handler's own checker whether an effect happened, before a person is asked."""

import asyncio
import logging

from fencepost.app import Checker
from fencepost.emitting import Forbidden
from fencepost.foreign_text import log_error, told_by
from fencepost.handler import Context
from fencepost.pool.limits import Limits
from fencepost.pool.work import Work
from fencepost_schemas.row import Row

log = logging.getLogger("fencepost.pool")


async def ask_checker(
    checker: Checker, work: Work, row: Row, limits: Limits
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
    shown = f"the checker of {work.handler.name}"
    try:
        made = checker.function(work.payload, **arguments)
        said = await limits.hold_apart(made, shown)
    except BaseException as error:  # whatever a checker may raise, an exit of Python's included
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        told = told_by(error)
        log_error(log, logging.WARNING, f"{shown} failed: {told.text}", told)
        return None, f"attempt {row.attempt}: its checker failed: {told.text}"
    if said is True or said is False:
        log.info("%s: %r: its checker says %s", work.handler.name, work.event.position, said)
        return said, ""
    return None, ""
