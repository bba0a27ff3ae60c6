"""Copies of the ledger: taken as lines, and put back without touching a row that stands.

A copy is put back in an order that a crash cannot turn into a lie: the ledger is first marked as
being imported, so that no worker starts on half of it; then the rows are inserted; the identity
that the sources are pinned to comes last. Run again, it goes on.
"""

from collections.abc import AsyncIterator, Iterable, Iterator

import msgspec

from fencepost.clock import RealWorld
from fencepost.desk.adoption import IMPORTING, Pins
from fencepost.desk.audit import Audit, checked_actor
from fencepost.desk.rows import entry_of
from fencepost.desk.sweep import Keeper, Told, nobody, sweep
from fencepost.errors import NotFine, UsageError
from fencepost.ports import Message, NotStored, Stored, World
from fencepost.records import read_record
from fencepost_schemas.export import (
    EXPORT_VERSION,
    ExportedRow,
    ExportEnd,
    ExportHeader,
    ExportLine,
    Reached,
    decode_line,
    encode_line,
    exported_row,
)
from fencepost_schemas.identity import LedgerIdentity
from fencepost_schemas.row import ROW_VERSION, Row, UnknownRowVersion, decode_row
from fencepost_schemas.subject import LEDGER, BadSubject, Subjects, digest_token

CHUNK_ROWS = 256
DIFFERING_SHOWN = 20
_REAL = RealWorld()


class Checked(msgspec.Struct, frozen=True):
    """What a file that was read to its end holds.

    `lines` is the number of the line that counts for each row: one that was written while the copy
    was taken may be there twice, and the later one is the newer.
    """

    header: ExportHeader
    lines: dict[str, int]


class Imported(msgspec.Struct):
    """What an import did. `moved` names the sources that went on after the copy was taken."""

    identity: str
    rows: int
    inserted: int = 0
    stood: int = 0
    differing: int = 0
    differing_rows: list[str] = []
    moved: list[str] = []


class Copies:
    def __init__(self, connection: Keeper, subjects: Subjects, world: World = _REAL) -> None:
        self._connection = connection
        self._subjects = subjects
        self._world = world
        self._pins = Pins(connection, subjects, world)

    async def lines(self, identity: str | None, told: Told = nobody) -> AsyncIterator[bytes]:
        """Yield a copy of the ledger, line by line."""
        if identity is None or identity.startswith(IMPORTING):
            raise NotFine("this ledger has no identity of its own yet, so a copy proves nothing")
        header = ExportHeader(
            version=EXPORT_VERSION,
            identity=identity,
            prefix=self._subjects.prefix,
            taken_ms=await self._connection.clock_ms(LEDGER),
            sources=await self._reached(),
        )
        yield encode_line(header)
        count = 0
        async for stored in sweep(self._connection, LEDGER, self._subjects.rows(), 0, told):
            count += 1
            yield encode_line(exported_row(stored.subject, stored.payload))
        yield encode_line(ExportEnd(count))

    async def put_back(
        self, checked: Checked, lines: Iterable[bytes], actor: str, told: Told = nobody
    ) -> Imported:
        """Insert the rows that are absent, and give the ledger its identity where it has none.

        Raises NotFine where the ledger is another one that is in use.
        """
        checked_actor(actor)
        header = checked.header
        before, revision = await self._identity()
        merging = before == header.identity
        marker = IMPORTING + header.identity
        if not merging:
            await self._check_unused(before, marker)
            if before != marker:
                revision = await self._name(marker, revision)
        done = Imported(header.identity, len(checked.lines))
        await self._insert_all(checked, lines, done, told)
        if not merging:
            done.moved = await self._moved(header)
            if done.moved:
                # It lacks what was done since, so it must not pass for the ledger that it was.
                done.identity = self._world.random_name(16)
            await self._name(done.identity, revision)
        audit = Audit(self._connection, self._subjects, self._world)
        detail = (
            f"a copy of {header.identity}: {done.inserted} of {done.rows} rows inserted, "
            f"{done.differing} differ"
        )
        await audit.record(actor, "imported into the ledger", done.identity, detail)
        return done

    async def _identity(self) -> tuple[str | None, int]:
        stored = await self._connection.last(LEDGER, self._subjects.ledger_identity())
        if stored is None:
            return None, 0
        return read_record(stored, LedgerIdentity).identity, stored.sequence

    async def _name(self, identity: str, revision: int) -> int:
        payload = msgspec.json.encode(LedgerIdentity(identity, self._world.wall_ms()))
        message = Message(self._subjects.ledger_identity(), payload, expect=revision)
        reply = await self._connection.store(message)
        if isinstance(reply, Stored):
            return reply.sequence
        if reply.conflict or reply.in_flight:
            raise NotFine("somebody else gave the ledger an identity just now: try again")
        raise NotFine(f"the ledger's identity is not taken: {reply.text} ({reply.error})")

    async def _check_unused(self, before: str | None, marker: str) -> None:
        """Refuse a ledger that somebody uses under another name."""
        if before in (None, marker):
            return
        if before is not None and before.startswith(IMPORTING):
            other = before.removeprefix(IMPORTING)
            raise NotFine(
                f"an import of another copy ({other}) into this ledger was broken off: finish that "
                "one first"
            )
        if await self._connection.last(LEDGER, self._subjects.rows()) is not None:
            raise NotFine(
                f"this ledger is {before} and has rows of its own: a copy goes into one that is "
                "empty, or into the one that it was taken from"
            )
        pinned = [one.source for one in await self._pins.all() if one.ledger == before]
        if pinned:
            raise NotFine(
                f"this ledger is {before}, and {', '.join(pinned)} began with it: a copy goes into "
                "one that nothing is pinned to, or into the one that it was taken from"
            )

    async def _insert_all(
        self, checked: Checked, lines: Iterable[bytes], done: Imported, told: Told
    ) -> None:
        chunk: list[ExportedRow] = []
        for row in _rows_that_count(checked, lines):
            chunk.append(row)
            if len(chunk) == CHUNK_ROWS:
                await self._insert(chunk, done)
                told(done.inserted + done.stood + done.differing, done.rows)
                chunk = []
        if chunk:
            await self._insert(chunk, done)
            told(done.rows, done.rows)

    async def _insert(self, rows: list[ExportedRow], done: Imported) -> None:
        """Insert together; where some of them stand, one by one."""
        messages = [Message(row.subject, row.payload, expect=0) for row in rows]
        if isinstance(await self._connection.store_batch(messages), Stored):
            done.inserted += len(rows)
            return
        for message, reply in zip(
            messages, await self._connection.store_burst(messages), strict=True
        ):
            if isinstance(reply, Stored):
                done.inserted += 1
            else:
                await self._look(message, reply, done)

    async def _look(self, message: Message, reply: NotStored | None, done: Imported) -> None:
        """See what stands where a row was not inserted."""
        stored = await self._connection.last(LEDGER, message.subject)
        if stored is None:
            why = f"{reply.text} ({reply.error})" if reply is not None else "it did not answer"
            raise NotFine(
                f"the broker does not take rows: {why}; {done.inserted} are in, run this again"
            )
        if _same(stored.payload, message.payload):
            done.stood += 1
            return
        done.differing += 1
        if len(done.differing_rows) < DIFFERING_SHOWN:
            here, there = entry_of(stored).state, _state_in(message)
            done.differing_rows.append(f"{message.subject}: {here} here, {there} in the copy")

    async def _reached(self) -> dict[str, Reached]:
        return {
            one.source: Reached(one.generation, one.published) for one in await self._pins.cursors()
        }

    async def _moved(self, header: ExportHeader) -> list[str]:
        """Return the sources that have brought something since the copy was taken."""
        now = await self._reached()
        cursors = await self._pins.cursors()
        fresh = {one.source for one in cursors if one.fresh and not one.rebaselined}
        return [
            name
            for name, reached in now.items()
            if name not in fresh and header.sources.get(name) != reached
        ]


def check(lines: Iterable[bytes], subjects: Subjects) -> Checked:
    """Read a copy to its end; raise UsageError with the number of the first line that is wrong."""
    header: ExportHeader | None = None
    end: ExportEnd | None = None
    found: dict[str, int] = {}
    number = count = 0
    for number, text in enumerate(lines, 1):
        try:
            line = decode_line(text)
            if end is not None:
                raise ValueError("something comes behind the end")
            if header is None:
                header = _checked_header(line, subjects)
            elif isinstance(line, ExportedRow):
                found[_checked_row(line, subjects)] = number
                count += 1
            elif isinstance(line, ExportEnd):
                end = line
            else:
                raise ValueError("a second beginning")
        except (msgspec.DecodeError, ValueError) as error:
            raise UsageError(f"line {number}: {error}; nothing was imported") from None
    if header is None:
        raise UsageError("the file is empty: it is no copy of a ledger")
    if end is None or end.rows != count:
        raise UsageError(
            f"the file is cut off behind line {number}: rows that it lacks would read as work that "
            "was never done; nothing was imported"
        )
    return Checked(header, found)


def _checked_header(line: ExportLine, subjects: Subjects) -> ExportHeader:
    if not isinstance(line, ExportHeader):
        raise ValueError("this is no copy of a ledger: its first line has to say so")
    if line.version != EXPORT_VERSION:
        raise ValueError(
            f"a copy of version {line.version}; this release knows {EXPORT_VERSION}: use the "
            "release that took it"
        )
    if line.prefix != subjects.prefix:
        raise ValueError(
            f"a copy of the prefix {line.prefix!r}, and this house has {subjects.prefix!r}: set "
            "broker.prefix"
        )
    if not line.identity or line.identity.startswith(IMPORTING):
        raise ValueError("a copy of a ledger without an identity")
    return line


def _checked_row(line: ExportedRow, subjects: Subjects) -> str:
    """Return the row's subject; raise ValueError where it is not the row that its subject names.

    What this release cannot read is carried as it is, as workers leave it alone.
    """
    try:
        subject = subjects.checked_row(line.subject)
    except BadSubject as error:
        raise ValueError(str(error)) from None
    if line.raw is not None:
        return subject
    try:
        row = decode_row(line.payload)
    except UnknownRowVersion as error:
        if _version_in(line.payload) > ROW_VERSION:
            return subject
        raise ValueError(f"not a ledger row: {error}") from None
    if subject != _place_of(row, subjects):
        raise ValueError(f"the row is not the one that {subject} names")
    return subject


def _place_of(row: Row, subjects: Subjects) -> str:
    digest = digest_token(row.handler, row.namespace, row.key)
    return subjects.row(row.handler, row.namespace, digest)


class _Version(msgspec.Struct):
    version: int = 0


def _version_in(payload: bytes) -> int:
    return msgspec.json.decode(payload, type=_Version).version


def _rows_that_count(checked: Checked, lines: Iterable[bytes]) -> Iterator[ExportedRow]:
    for number, text in enumerate(lines, 1):
        line = decode_line(text)
        if isinstance(line, ExportedRow) and checked.lines.get(line.subject) == number:
            yield line


def _same(stands: bytes, copied: bytes) -> bool:
    """Return True for the same row, whichever release wrote it."""
    if stands == copied:
        return True
    try:
        return decode_row(stands) == decode_row(copied)
    except (UnknownRowVersion, msgspec.DecodeError):
        return False


def _state_in(message: Message) -> str:
    try:
        return decode_row(message.payload).state.value
    except (UnknownRowVersion, msgspec.DecodeError):
        return "unreadable"
