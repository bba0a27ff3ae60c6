"""Begin sources: the record and the cursor from which everything later is judged. Once a name."""

import asyncio

from fencepost.bridge.shelf import Shelf
from fencepost.clock import RealWorld
from fencepost.errors import NotFine, UsageError
from fencepost.ports import NotStored, Stored, World
from fencepost.records import read_record
from fencepost.storing import AGAIN_S
from fencepost_policies.lineage import generation_name
from fencepost_schemas.cursor import Cursor, sendable
from fencepost_schemas.reason import Reason
from fencepost_schemas.standing import Standing
from fencepost_schemas.subject import EVENTS
from fencepost_schemas.verdict import EpochRecord, Verdict

_REAL = RealWorld()


def checked_start(start: str) -> str:
    """Return where to begin: "now", "earliest" or an id; raise UsageError for an unsendable id."""
    # What a terminal sends need not be text; such bytes come as surrogates, which no id holds.
    text = not any("\ud800" <= char <= "\udfff" for char in start)
    if not text or not sendable(start):
        raise UsageError(f"--from {start!r}: this id cannot be sent in a request header")
    return start


async def begin(shelf: Shelf, source: str, start: str, ledger: str, world: World = _REAL) -> bool:
    """Begin a source; return False where it was begun before, which changes nothing.

    Raises NotFine where it was begun and its cursor is gone.
    """
    connection, subjects = shelf.connection, shelf.subjects
    if await connection.last(EVENTS, subjects.cursor(source)) is not None:
        return False
    if await connection.last(EVENTS, subjects.epochs_of(source)) is not None:
        await shelf.load(source)  # raises, and says why
    generation = generation_name(1, world.random_name(8))
    cursor = Cursor(
        source=source,
        generation=generation,
        standing=Standing.GENESIS,
        ledger=ledger,
        owner="init",
        fresh=True,
        start=start,
    )
    record = EpochRecord(
        source=source,
        generation=generation,
        parent="",
        verdict=Verdict(Standing.GENESIS, (Reason.FIRST_CONNECTION,)),
        standing=Standing.GENESIS,
        gap=None,
        ledger=ledger,
        bridge="init",
        at_ms=world.wall_ms(),
        asked=start,
    )
    batch = [shelf.record_message(record), shelf.cursor_message(cursor, 0)]
    reply = await connection.store_batch(batch)
    while isinstance(reply, NotStored) and reply.in_flight:
        # Another init is at it, and the broker has not decided yet.
        await asyncio.sleep(AGAIN_S)
        reply = await connection.store_batch(batch)
    if isinstance(reply, Stored):
        return True
    if reply.conflict:
        return False  # another init was faster
    raise NotFine(f"{source}: the broker refused to begin it: {reply.text} ({reply.error})")


async def read_cursor(shelf: Shelf, source: str) -> Cursor | None:
    """Return a source's cursor, or None; never takes it over."""
    stored = await shelf.connection.last(EVENTS, shelf.subjects.cursor(source))
    return read_record(stored, Cursor) if stored is not None else None
