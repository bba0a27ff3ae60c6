"""Whether the ledger is the one that the sources' lineages were begun with."""

import asyncio
import contextlib
import logging

from fencepost.errors import Denied, LedgerDiffers, NotFine, Unreachable, Unreadable
from fencepost.ports import Broker, Ledger
from fencepost.records import read_record
from fencepost.soundness import check_payload
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.subject import EVENTS, Subjects

log = logging.getLogger("fencepost.pool")

WATCH_S = 60.0
LOOK_AGAIN_S = 2.0
"""Before the identity is looked at again, where the broker did not answer."""


async def keep_watch(connection: Broker, subjects: Subjects, ledger: Ledger) -> None:
    """Look at the ledger's identity now and then, and after each break.

    A broker that comes back may come back from a backup, or with nothing.
    """
    broke = asyncio.Event()
    connection.on_reconnect(broke.set)
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WATCH_S):
                await broke.wait()
        broke.clear()
        try:
            check_payload(connection.payload_bytes_max)
            await look_at_identity(connection, subjects, ledger)
        except Denied:
            raise
        except Unreachable as error:
            log.warning("%s; the ledger's identity is looked at again later", error)
            await asyncio.sleep(LOOK_AGAIN_S)
            broke.set()


async def look_at_identity(connection: Broker, subjects: Subjects, ledger: Ledger) -> None:
    """Refuse to work on a ledger that is not the one the lineages were begun with."""
    await check_identity(connection, subjects, await ledger.identity())


async def check_identity(connection: Broker, subjects: Subjects, identity: str | None) -> None:
    """Refuse to work on a ledger that is not the one the lineages were begun with."""
    if identity is None:
        raise NotFine("the ledger has no identity: run `fencepost init`")
    for subject in await connection.subjects(EVENTS, subjects.cursors()):
        stored = await connection.last(EVENTS, subject)
        if stored is None:
            continue
        try:
            cursor = read_record(stored, Cursor)
        except Unreadable as error:
            log.error("%s; its source is stopped, the others go on", error)
            continue
        if cursor.ledger != identity:
            raise LedgerDiffers(
                f"source {cursor.source} is pinned to ledger {cursor.ledger}, but this ledger is "
                f"{identity}: it was made again or restored, and does not know what was applied. "
                f"Bring back the broker's data that holds {cursor.ledger}, or a copy of it "
                "(`fencepost ledger import`), or go on in doubt (`fencepost ledger adopt`)"
            )
