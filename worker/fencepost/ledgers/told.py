"""For whoever waits for a write instead of being told of it."""

import asyncio

from fencepost.ports import Found, Ledger, Written
from fencepost_schemas.row import Row


async def write_and_wait(ledger: Ledger, subject: str, row: Row, expect: int) -> Written | Found:
    """Submit a row and return what is told, or raise it."""
    heard: asyncio.Future[Written | Found] = asyncio.get_running_loop().create_future()

    def told(result: Written | Found | Exception) -> None:
        if heard.done():  # whoever waited was cancelled
            return
        if isinstance(result, Exception):
            heard.set_exception(result)
        else:
            heard.set_result(result)

    ledger.submit(subject, row, expect, told)
    return await heard
