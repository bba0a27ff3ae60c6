"""The ledger as a person looks at it: its rows, page by page, one by one, and counted.

One thing can be changed here: the lease of a worker that is known to be dead. The row's state is
left alone; what its end leads to is the pool's to decide.
"""

from collections import Counter
from collections.abc import Container

import msgspec

from fencepost.clock import RealWorld, iso_time
from fencepost.desk.audit import Audit, checked_actor
from fencepost.desk.pauses import WORKED_ON, Pauses, open_pauses
from fencepost.desk.sweep import Keeper, Told, nobody, sweep
from fencepost.errors import NotFine, UsageError
from fencepost.ports import Message, NotStored, StoredMessage, World
from fencepost_policies.moves import release
from fencepost_schemas.row import Row, State, UnknownRowVersion, decode_row, encode_row
from fencepost_schemas.subject import LEDGER, BadSubject, Subjects, digest_token

OLDEST_SHOWN = 5
UNREADABLE = "unreadable"
PAUSED = "paused"
"""What is shown in place of a state where the row waits for the answer to a pause."""
RUNNING = (State.CLAIMED, State.STARTED)
_REAL = RealWorld()


class RowEntry(msgspec.Struct, frozen=True):
    """What stands on a row's subject: the row, or why this release cannot read it.

    `pause` is the question that it waits for because its handler is paused, "" where it does not.
    """

    subject: str
    revision: int
    row: Row | None
    problem: str = ""
    pause: str = ""

    @property
    def digest(self) -> str:
        return self.subject.rsplit(".", 1)[1]

    @property
    def handler(self) -> str:
        return self.subject.split(".")[2]

    @property
    def state(self) -> str:
        if self.row is None:
            return UNREADABLE
        return PAUSED if self.pause else self.row.state.value


class RowPage(msgspec.Struct, frozen=True):
    """Some rows, oldest change first; `next` is what the next page comes after, None at the end."""

    rows: list[RowEntry]
    next: int | None


class RowReport(msgspec.Struct, frozen=True):
    """A row, and the rows that record that its key came again with another payload."""

    entry: RowEntry
    conflicts: list[RowEntry]


class PausedCount(msgspec.Struct, frozen=True):
    """How many rows of a paused handler wait for the answer to its question."""

    question: str
    handler: str
    rows: int


class LedgerCount(msgspec.Struct, frozen=True):
    """How many rows of each handler are in each state, and which have been open for longest.

    What waits under a pause is counted by itself, as no worker has it.
    """

    rows: int
    counts: dict[str, dict[str, int]]
    oldest_open: list[RowEntry]
    paused: list[PausedCount]


def entry_of(stored: StoredMessage) -> RowEntry:
    try:
        return RowEntry(stored.subject, stored.sequence, decode_row(stored.payload))
    except (UnknownRowVersion, msgspec.DecodeError) as error:
        return RowEntry(stored.subject, stored.sequence, None, str(error))


class Rows:
    def __init__(self, connection: Keeper, subjects: Subjects, world: World = _REAL) -> None:
        self._connection = connection
        self._subjects = subjects
        self._world = world
        self._pauses: Pauses | None = None

    async def page(
        self,
        *,
        handler: str | None = None,
        namespace: str | None = None,
        states: Container[str] = (),
        limit: int = 50,
        after: int = 0,
        told: Told = nobody,
    ) -> RowPage:
        """Return rows of a handler, a namespace, and some states (all where none is named)."""
        rows: list[RowEntry] = []
        filtered = self._filter(handler, namespace)
        async for stored in sweep(self._connection, LEDGER, filtered, after, told):
            if len(rows) == limit:
                return RowPage(rows, rows[-1].revision)
            entry = await self._entry(stored)
            if not states or entry.state in states:
                rows.append(entry)
        return RowPage(rows, None)

    async def find(self, *named: str) -> RowEntry:
        """Return the row of (handler, namespace, key), or of a row's subject or digest alone.

        The key may be the ledger's or the source's own. Raises NotFine where there is none.
        """
        for subject in self._subjects_of(named):
            stored = await self._connection.last(LEDGER, subject)
            if stored is not None:
                return await self._entry(stored)
        raise NotFine(f"there is no row {' '.join(named)!r}: see `fencepost ledger ls`")

    async def report(self, *named: str, told: Told = nobody) -> RowReport:
        """Return a row with the conflicts that are recorded beside it."""
        entry = await self.find(*named)
        conflicts: list[RowEntry] = []
        if entry.row is not None:
            beside = f"c:{entry.row.key}:"
            filtered = self._filter(entry.row.handler, entry.row.namespace)
            async for stored in sweep(self._connection, LEDGER, filtered, 0, told):
                other = entry_of(stored)
                if other.row is not None and other.row.state is State.CONFLICT:
                    conflicts += [other] if other.row.key.startswith(beside) else []
        return RowReport(entry, conflicts)

    async def count(self, told: Told = nobody) -> LedgerCount:
        """Read the whole ledger and count it."""
        counts: dict[str, Counter[str]] = {}
        latest: dict[str, str] = {}
        open_rows: dict[str, RowEntry] = {}
        async for stored in sweep(self._connection, LEDGER, self._subjects.rows(), 0, told):
            entry = entry_of(stored)
            if stored.subject in latest:
                # It was rewritten while we read.
                counts[entry.handler][latest[stored.subject]] -= 1
                open_rows.pop(stored.subject, None)
            latest[stored.subject] = entry.state
            counts.setdefault(entry.handler, Counter())[entry.state] += 1
            if entry.row is not None and not entry.row.state.terminal:
                open_rows[stored.subject] = entry
        paused: Counter[tuple[str, str]] = Counter()
        for subject, entry in list(open_rows.items()):
            pause = (await self._with_pause(entry)).pause
            if pause:
                del open_rows[subject]
                counts[entry.handler][entry.state] -= 1
                counts[entry.handler][PAUSED] += 1
                paused[pause, entry.handler] += 1
        oldest = sorted(open_rows.values(), key=_first_seen)[:OLDEST_SHOWN]
        tidy = {name: dict(sorted((+count).items())) for name, count in sorted(counts.items())}
        waiting = [PausedCount(*named, rows) for named, rows in sorted(paused.items())]
        return LedgerCount(len(latest), tidy, oldest, waiting)

    async def releasable(self, *named: str) -> RowEntry:
        """Return the row, if its lease runs; raise NotFine with what to do instead."""
        entry = await self.find(*named)
        if entry.row is None:
            raise NotFine(f"{entry.digest}: {entry.problem}; it is left alone")
        self._check_releasable(entry, entry.row, await self._connection.clock_ms(LEDGER))
        return entry

    async def release(self, entry: RowEntry, actor: str) -> Row:
        """End the lease of a row as it was read, now; its quarantine stays.

        Raises NotFine where the row has moved on since it was read.
        """
        checked_actor(actor)
        assert entry.row is not None
        now_ms = await self._connection.clock_ms(LEDGER)
        self._check_releasable(entry, entry.row, now_ms)
        released = release(entry.row, now_ms).write
        assert released is not None
        message = Message(entry.subject, encode_row(released), expect=entry.revision)
        reply = await self._connection.store(message)
        if isinstance(reply, NotStored):
            if reply.conflict or reply.in_flight:
                raise NotFine(
                    f"{entry.digest} was written by somebody else just now, so its worker may "
                    "live: nothing is changed; look at it again"
                )
            raise NotFine(f"the row is not taken: {reply.text} ({reply.error})")
        audit = Audit(self._connection, self._subjects, self._world)
        detail = f"{entry.row.owner}, attempt {entry.row.attempt}, was {entry.row.state}"
        await audit.record(actor, "released the lease", entry.subject, detail)
        return released

    def _check_releasable(self, entry: RowEntry, row: Row, now_ms: int) -> None:
        if row.state.terminal:
            raise NotFine(f"{entry.digest} is {row.state}, which is final: it has no lease")
        if row.state not in RUNNING:
            raise NotFine(
                f"{entry.digest} is {row.state}: no worker has it, so there is no lease to end"
            )
        if entry.pause:
            raise NotFine(
                f"{entry.digest}: its handler is paused, so no worker has it: answer "
                f"{entry.pause} (`fencepost questions show {entry.pause}`)"
            )
        if row.lease_until_ms <= now_ms:
            raise NotFine(
                f"{entry.digest}: its lease is over since {iso_time(row.lease_until_ms)}; a worker "
                "takes it up when its event comes again"
            )

    async def _entry(self, stored: StoredMessage) -> RowEntry:
        return await self._with_pause(entry_of(stored))

    async def _with_pause(self, entry: RowEntry) -> RowEntry:
        """Return the entry with the pause that it waits under; pauses are read once, if at all."""
        if entry.row is None or entry.row.state not in WORKED_ON:
            return entry
        if self._pauses is None:
            self._pauses = await open_pauses(self._connection, self._subjects)
        pause = self._pauses.question_of(entry.subject, entry.row)
        return msgspec.structs.replace(entry, pause=pause) if pause else entry

    def _filter(self, handler: str | None, namespace: str | None) -> str:
        try:
            return self._subjects.rows_of(handler, namespace)
        except BadSubject as error:
            raise UsageError(str(error)) from None

    def _subjects_of(self, named: tuple[str, ...]) -> list[str]:
        """Return where the row that is named like this may stand."""
        try:
            if len(named) == 3:
                handler, namespace, key = named
                # What a person knows is the source's key; the ledger's says where it is from.
                return [
                    self._subjects.row(handler, namespace, digest_token(handler, namespace, text))
                    for text in (key, f"k:{key}")
                ]
            if len(named) == 1 and "." in named[0]:
                return [self._subjects.checked_row(named[0])]
            if len(named) == 1:
                return [self._subjects.row_anywhere(named[0])]
        except BadSubject as error:
            raise UsageError(str(error)) from None
        raise UsageError("name a row by HANDLER NAMESPACE KEY, or by its digest or subject alone")


def _first_seen(entry: RowEntry) -> tuple[int, str]:
    return (entry.row.first_seen_ms if entry.row is not None else 0, entry.subject)
