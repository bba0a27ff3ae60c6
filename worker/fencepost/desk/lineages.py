"""The sources as a person looks at them: who follows each, and what became of its lineage."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

import msgspec

from fencepost.desk.sweep import Keeper
from fencepost.errors import NotFine, Unreadable
from fencepost.records import read_record
from fencepost_policies.ownership import owner_of
from fencepost_schemas.cursor import Cursor, KnownLoss
from fencepost_schemas.event import event_of
from fencepost_schemas.evidence import Fact
from fencepost_schemas.question import Answer, Ruling, seam_question_id
from fencepost_schemas.reason import Reason
from fencepost_schemas.roster import Intention, Roster, Stop
from fencepost_schemas.standing import Standing
from fencepost_schemas.subject import ANSWERS, EVENTS, SOURCES, Subjects
from fencepost_schemas.verdict import EpochRecord, Gap

N = TypeVar("N")

log = logging.getLogger("fencepost.desk")

SOURCES_AT_ONCE = 16


class Following(StrEnum):
    """Whether a source is followed, and why not."""

    FOLLOWED = "followed"
    PAUSED = "paused"
    STOPPED = "stopped"
    WAITING = "waiting"
    """No living bridge has it: none runs, or none that runs knows it."""
    NOT_BEGUN = "not begun"


class Generation(msgspec.Struct, frozen=True):
    """One generation of a lineage: the seam at which it began, and what came of it.

    `connections` counts those that went on in it, the first one included. `gap` is what may be
    missing at the seam, `join_gaps` what may be where a connection stepped from replay to live.
    """

    generation: str
    parent: str
    opened_ms: int
    bridge: str
    verdict: Standing
    reasons: tuple[Reason, ...]
    facts: tuple[Fact, ...]
    standing: Standing
    asked: str
    first: str
    gap: Gap | None
    join_gaps: tuple[Gap, ...]
    connections: int
    ruling: Ruling | None = None

    @property
    def gaps(self) -> int:
        """How many gaps may hold something."""
        return len(self.join_gaps) + (self.gap is not None and not self.gap.empty)

    @property
    def open_gaps(self) -> int:
        """How many of them nobody has looked at: a join's that was read again is known to the last
        event, and what a person ruled on is decided.
        """
        joins = sum(not gap.exact for gap in self.join_gaps)
        seam = self.gap is not None and not self.gap.empty and self.ruling is None
        return joins + seam


class SourceEntry(msgspec.Struct, frozen=True):
    """One source in short. `why` says more of the state, `verdict` is the last connection's.

    `last_event_ms` is when its last event was published, None where the broker holds none.
    """

    source: str
    state: Following
    why: str
    generation: str
    standing: Standing | None
    position: str
    verdict: Standing | None
    reasons: tuple[Reason, ...]
    last_event_ms: int | None
    loss: KnownLoss | None
    """What the source has proven to be gone, and no event has come since."""
    gaps: int
    open_gaps: int
    fine: bool
    """It is followed, no doubt about its generation waits for a person, and nothing is known to be
    gone since the last event."""


class SourceReport(msgspec.Struct, frozen=True):
    """One source with its generations, oldest first."""

    entry: SourceEntry
    note: str
    rebaseline: str
    """Where the next connection is to begin, "" unless somebody wishes that."""
    generations: list[Generation]
    loss_facts: tuple[Fact, ...] = ()
    """What was said when a loss was proven that no verdict has said yet."""


class Lineages:
    """`configured` are the sources of this command's own file."""

    def __init__(
        self,
        connection: Keeper,
        subjects: Subjects,
        configured: Iterable[str] = (),
    ) -> None:
        self._connection = connection
        self._subjects = subjects
        self._configured = frozenset(configured)

    async def names(self) -> list[str]:
        """Return every source that is configured here, was begun, or has anything wished of it."""
        begun = await self._connection.subjects(EVENTS, self._subjects.cursors())
        wished = await self._connection.subjects(SOURCES, self._subjects.intentions())
        told = {subject.rsplit(".", 1)[1] for subject in (*begun, *wished)}
        return sorted(told | self._configured)

    async def entries(self, names: Iterable[str] = ()) -> list[SourceEntry]:
        """Return the sources of these names, all where none is named."""
        return [report.entry for report in await self.reports(names)]

    async def reports(self, names: Iterable[str] = ()) -> list[SourceReport]:
        known = await self.names()
        wanted = list(dict.fromkeys(names)) or known
        for name in wanted:
            if name not in known:
                raise NotFine(f"there is no source {name!r}: see `fencepost sources ls`")
        roster = await self._roster()
        now_ms = await self._connection.clock_ms(SOURCES)
        at_once = asyncio.Semaphore(SOURCES_AT_ONCE)

        async def look(name: str) -> SourceReport:
            async with at_once:
                try:
                    return await self._report(name, roster, now_ms)
                except Unreadable as error:
                    return _unreadable(name, error)

        return list(await asyncio.gather(*(look(name) for name in wanted)))

    async def _report(self, name: str, roster: Roster, now_ms: int) -> SourceReport:
        cursor, _ = await self._read(EVENTS, self._subjects.cursor(name), Cursor)
        intention, revision = await self._read(SOURCES, self._subjects.intention(name), Intention)
        told = await self._records(name)
        records = [record for record in told if not record.early]
        generations = await self._with_rulings(name, generations_of(records))
        owner, stop = owner_of(roster, name, now_ms), roster.stops.get(name)
        state, why = state_of(cursor, intention, stop, owner, revision)
        standing = cursor.standing if cursor is not None else None
        ruled = bool(generations) and generations[-1].ruling is not None
        entry = SourceEntry(
            source=name,
            state=state,
            why=why,
            generation=cursor.generation if cursor is not None else "",
            standing=standing,
            position=str(cursor.position) if cursor is not None and cursor.position else "",
            verdict=records[-1].verdict.kind if records else None,
            reasons=records[-1].verdict.reasons if records else (),
            last_event_ms=await self._last_event_ms(name),
            loss=cursor.loss if cursor is not None else None,
            gaps=sum(one.gaps for one in generations),
            open_gaps=sum(one.open_gaps for one in generations),
            fine=state is Following.FOLLOWED
            and (ruled or standing is not Standing.UNVERIFIABLE)
            and (cursor is None or cursor.loss is None),
        )
        note = intention.note if intention is not None else ""
        wished = cursor is not None and cursor.rebaselined
        start = cursor.start if cursor is not None and wished else ""
        # A loss that is known now was told of by the newest early record.
        early = [record for record in told if record.early] if entry.loss is not None else []
        facts = early[-1].verdict.facts if early else ()
        return SourceReport(entry, note, start, generations, facts)

    async def _records(self, source: str) -> list[EpochRecord]:
        scan = self._connection.scan(EVENTS, self._subjects.epochs_of(source))
        return [read_record(stored, EpochRecord) async for stored in scan]

    async def _with_rulings(self, source: str, found: list[Generation]) -> list[Generation]:
        async def ruled(one: Generation) -> Generation:
            subject = self._subjects.answer(seam_question_id(source, one.generation))
            answer, _ = await self._read(ANSWERS, subject, Answer)
            ruling = answer.ruling if answer is not None else None
            return msgspec.structs.replace(one, ruling=ruling)

        return list(await asyncio.gather(*(ruled(one) for one in found)))

    async def _last_event_ms(self, source: str) -> int | None:
        stored = await self._connection.last(EVENTS, self._subjects.events_of(source))
        if stored is None:
            return None
        time = msgspec.convert(event_of(stored.headers, stored.payload).time, datetime)
        return int(time.timestamp() * 1000)

    async def _roster(self) -> Roster:
        try:
            return (await self._read(SOURCES, self._subjects.roster(), Roster))[0] or Roster()
        except Unreadable as error:
            log.error("%s; who follows which source is not known", error)
            return Roster()

    async def _read(self, stream: str, subject: str, noun: type[N]) -> tuple[N | None, int]:
        """Return what stands on a subject, and its revision."""
        stored = await self._connection.last(stream, subject)
        return (read_record(stored, noun), stored.sequence) if stored is not None else (None, 0)


def _unreadable(name: str, error: Unreadable) -> SourceReport:
    """Return what there is to say of a source whose records cannot be read."""
    entry = SourceEntry(
        source=name,
        state=Following.STOPPED,
        why=str(error),
        generation="",
        standing=None,
        position="",
        verdict=None,
        reasons=(),
        last_event_ms=None,
        loss=None,
        gaps=0,
        open_gaps=0,
        fine=False,
    )
    return SourceReport(entry, "", "", [])


def generations_of(records: Sequence[EpochRecord]) -> list[Generation]:
    """Return the generations that these records tell of, in their order."""
    found: dict[str, Generation] = {}
    for record in records:
        before = found.get(record.generation)
        join_gaps = (record.join_gap,) if record.join_gap is not None else ()
        if before is not None:
            found[record.generation] = msgspec.structs.replace(
                before,
                connections=before.connections + 1,
                standing=record.standing,
                join_gaps=before.join_gaps + join_gaps,
                first=before.first or record.first,
            )
            continue
        found[record.generation] = Generation(
            generation=record.generation,
            parent=record.parent,
            opened_ms=record.at_ms,
            bridge=record.bridge,
            verdict=record.verdict.kind,
            reasons=record.verdict.reasons,
            facts=record.verdict.facts,
            standing=record.standing,
            asked=record.asked,
            first=record.first,
            gap=record.gap,
            join_gaps=join_gaps,
            # What opens a generation is a connection, unless a person or init did.
            connections=int(record.bridge.startswith("bridge-")),
        )
    return list(found.values())


def state_of(
    cursor: Cursor | None,
    intention: Intention | None,
    stop: Stop | None,
    owner: str,
    revision: int,
) -> tuple[Following, str]:
    """Return whether a source is followed, and what there is to say about it."""
    if intention is not None and intention.paused:
        return Following.PAUSED, f"by {intention.actor}"
    if cursor is None:
        return Following.NOT_BEGUN, "run `fencepost init` once"
    if owner:
        return Following.FOLLOWED, f"by {owner}"
    if stop is not None and stop.revision >= revision:
        return Following.STOPPED, stop.reason
    return Following.WAITING, "for a bridge that can follow it"
