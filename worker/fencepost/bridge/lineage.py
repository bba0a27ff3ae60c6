"""The lineage of one source as its bridge carries it: the cursor, and what is on its way to it.

A verdict turns the lineage, an event moves it on. Both become entries of the outbox; the verdict's
record goes with the first event behind it.
"""

import logging
from collections.abc import Callable, Sequence

import msgspec
from opentelemetry import trace

from fencepost.bridge.classify import classify, message_of
from fencepost.bridge.outbox import Entry, Outbox
from fencepost.bridge.shelf import Shelf
from fencepost.clock import iso_time
from fencepost.ports import Message, World
from fencepost.settings import Source
from fencepost_policies.cover import Covered, anchored, begun, join_gap, joined, owed_since
from fencepost_policies.early import early_record, grown, loss_proven
from fencepost_policies.lineage import place, turn
from fencepost_policies.overlap import data_digest, digest_of, remember
from fencepost_schemas.cursor import Cursor, Mark, Position, sendable
from fencepost_schemas.evidence import Evidence
from fencepost_schemas.limits import COVER_EVENTS_MAX
from fencepost_schemas.question import Ruling
from fencepost_schemas.sse import Frame
from fencepost_schemas.standing import Standing
from fencepost_schemas.verdict import EpochRecord, Gap, Verdict

log = logging.getLogger("fencepost.bridge")


class Lineage:
    """Call `take_over` first. `outbox.run` must be running for anything to be stored."""

    def __init__(
        self,
        name: str,
        source: Source,
        shelf: Shelf,
        world: World,
        owner: str,
        reached: Callable[[str], None],
    ) -> None:
        self.name = name
        self.owner = owner
        self.cursor: Cursor
        self.outbox: Outbox
        self._source = source
        self._shelf = shelf
        self._world = world
        self._reached = reached
        self._ruling: Ruling | None = None
        self._verdict = Standing.GENESIS
        self._record: tuple[Message, ...] = ()
        self._behind_late: Cursor | None = None
        """The cursor to go on with once everything is stored that an earlier join lost."""

    async def take_over(self) -> None:
        """Write our name into the cursor: from here on any older bridge is refused."""
        loaded = await self._shelf.load(self.name)
        self.cursor = msgspec.structs.replace(loaded.cursor, owner=self.owner)
        revision = await self._shelf.write((), self.cursor, loaded.revision)
        self.outbox = Outbox(self._shelf, revision)

    async def look_for_ruling(self) -> None:
        """See whether somebody has ruled on the generation that would be left at a verdict."""
        tainted = self.cursor.standing.tainted
        self._ruling = (
            await self._shelf.ruling(self.name, self.cursor.generation) if tainted else None
        )

    @property
    def join_owes(self) -> int:
        """How many events were published behind a join that is still to be looked at again."""
        return owed_since(self.cursor) if self._source.speech.covers else 0

    async def published_since_join(self) -> dict[str, str] | None:
        """Return what was published behind the join that is to be covered, by position.

        None where there is none, or the stream of events no longer holds it all.
        """
        owed = owed_since(self.cursor)
        if not self._source.speech.covers or not 0 < owed <= COVER_EVENTS_MAX:
            return None
        assert self.cursor.seam is not None
        skip = self.cursor.seam.skip
        found: dict[str, str] = {}
        behind = self.cursor.seam.sequence
        async for event in self._shelf.published(self.name, self.cursor.generation, behind):
            if skip:
                skip -= 1
                continue
            data = event.payload.decode("utf-8", "surrogatepass")
            digest = "" if event.withheld else data_digest(data, self._source.speech.volatile)
            found[event.position] = digest
        return found if len(found) == owed else None

    @property
    def progress(self) -> tuple[str, int]:
        """What differs once an event was taken: counts begin anew in each generation."""
        return self.cursor.generation, self.cursor.published

    def keep_session(self, session: str) -> None:
        """Keep the session that the source gave us; it is stored with what comes next."""
        if session != self.cursor.session:
            self.cursor = msgspec.structs.replace(self.cursor, session=session)

    def turn(
        self,
        verdict: Verdict,
        first: Frame | None,
        *,
        token: str,
        asked: str,
        covered: Covered | None = None,
    ) -> None:
        """Carry out a verdict: turn the lineage, and have its record go before its first event.

        `first` is the event that the verdict was given on, `token` the source's own word for its
        generation, `asked` the id that was sent, `covered` what was found at the last join.
        """
        join_gap = self._look_at_join(covered)
        turned = turn(self.cursor, verdict, first, self._world.random_name(8), self._ruling)
        if turned.cursor.generation != self.cursor.generation:
            # It was said of the generation that ends here, and counts once for the next one.
            self._ruling = None
        self.cursor = msgspec.structs.replace(
            turned.cursor, token=token or turned.cursor.token, loss=None
        )
        self._verdict = verdict.kind
        self._keep_join(verdict, covered, asked)
        record = EpochRecord(
            source=self.name,
            generation=self.cursor.generation,
            parent=turned.parent,
            verdict=verdict,
            standing=self.cursor.standing,
            gap=turned.gap,
            join_gap=join_gap,
            ledger=self.cursor.ledger,
            bridge=self.owner,
            at_ms=self._world.wall_ms(),
            token=self.cursor.token,
            asked=asked,
            first=str(place(None, first)) if first is not None else "",
        )
        self._record = (self._shelf.record_message(record),)
        if first is None:
            self.outbox.add(Entry(self._record, self.cursor))
            self._record = ()
        self._tell(record)
        self._reached("judged")

    def tell_early(self, evidence: Evidence, *, last_chance: bool = True) -> None:
        """Have it stored that events are gone, where that is proven before the next one comes.

        The record goes with the first word of it only: one loss is one piece of work.
        """
        now_ms = self._world.wall_ms()
        loss = loss_proven(evidence, now_ms, last_chance=last_chance)
        told = grown(self.cursor.loss, loss) if loss is not None else None
        if told is None:
            return
        records: tuple[Message, ...] = ()
        if self.cursor.loss is None:
            record = early_record(self.cursor, evidence, self.owner, now_ms)
            records = (self._shelf.record_message(record),)
        self.cursor = msgspec.structs.replace(self.cursor, loss=told)
        self.outbox.add(Entry(records, self.cursor))
        log.warning(
            "%s: the source does not have what follows %s any more (%s)%s; the next generation "
            "begins with its next event, until then see `fencepost sources show %s`",
            self.name,
            self.cursor.position,
            ", ".join(told.reasons),
            f", at least {told.missing} events are gone" if told.missing else "",
            self.name,
        )

    def take_back(self) -> None:
        """Have it stored that nothing is known to be gone, where a connection goes on after all."""
        if self.cursor.loss is not None:
            self.cursor = msgspec.structs.replace(self.cursor, loss=None)
            self.outbox.add(Entry((), self.cursor))

    def _look_at_join(self, covered: Covered | None) -> Gap | None:
        """Return what the join before this connection's may have lost, if anything."""
        if not self._source.speech.covers:
            return None
        gap = join_gap(self.cursor, covered)
        if gap is not None and covered is None:
            log.info(
                "%s: what came since the last connection began could not be read again, so nobody "
                "can say whether its step from replayed to live events lost any between %s and %s: "
                "have the source keep more, or declare its join",
                self.name,
                gap.after_position,
                gap.before_position,
            )
        elif gap is not None and covered is not None and not covered.late:
            log.info(
                "%s: whether the last connection lost any between %s and %s nobody can tell: "
                "it is the first one of its generation",
                self.name,
                gap.after_position,
                gap.before_position,
            )
        elif gap is not None and covered is not None:
            log.warning(
                "%s: the last reconnection lost %d events between %s and %s; they come now, late",
                self.name,
                covered.late,
                gap.after_position,
                gap.before_position,
            )
        return gap

    def _keep_join(self, verdict: Verdict, covered: Covered | None, asked: str) -> None:
        """Keep what the next resume needs to look at this connection's join."""
        before, sequence, speech = self.cursor, self.outbox.revision, self._source.speech
        self._behind_late = None
        if verdict.kind is not Standing.RESUMED:
            has_join = speech.covers and (bool(asked) or speech.replays_unasked)
            self.cursor = (
                begun(before, sequence) if has_join else msgspec.structs.replace(before, seam=None)
            )
            return
        behind = joined(before, covered, sequence)
        if not speech.covers:
            behind = msgspec.structs.replace(behind, seam=None)
        if covered is not None and covered.late:
            # The old seam is kept until all that came late is stored: a crash on the way there
            # leaves a cursor that looks for the rest of it.
            self._behind_late = behind
        else:
            self.cursor = behind

    def pass_late(self, frames: Sequence[Frame]) -> None:
        """Have events stored that an earlier join lost: they do not move the position."""
        for number, frame in enumerate(frames, 1):
            published = self.cursor.published + 1
            self.cursor = msgspec.structs.replace(self.cursor, published=published)
            if number == len(frames) and self._behind_late is not None:
                self.cursor = self._behind_late
            position = Position(frame.last_event_id)
            self._store(frame, msgspec.structs.replace(self.cursor, position=position))

    def pass_on(self, frame: Frame) -> None:
        """Move the lineage on by one event, which will be stored with it."""
        if frame.data is None:
            return
        self._look_at_id(frame)
        position = place(self.cursor.position, frame)
        mark = Mark(position, digest_of(frame, self._source.speech.volatile))
        moved = msgspec.structs.replace(
            self.cursor,
            position=position,
            published=self.cursor.published + 1,
            ring=remember(self.cursor.ring, mark),
            # A connection that was judged brings it, so what another one said is not so.
            loss=None,
        )
        self.cursor = anchored(moved, mark)
        self._store(frame, self.cursor)

    def _look_at_id(self, frame: Frame) -> None:
        if frame.id_seen and frame.last_event_id and not sendable(frame.last_event_id):
            log.error(
                "%s: the source sent an id of %d characters that no request can send back; "
                "a break right behind it will be unverifiable: mend the source's ids",
                self.name,
                len(frame.last_event_id),
            )

    def pass_over(self, frame: Frame) -> None:
        """Take note of what is no event; a move of the position is stored with what comes next."""
        if self._source.speech.advances(frame):
            position = place(self.cursor.position, frame)
            if not position.ordinal:
                self.cursor = msgspec.structs.replace(self.cursor, position=position)

    def _store(self, frame: Frame, place_of: Cursor) -> None:
        """Have a frame stored as the event where `place_of` stands, and our cursor with it."""
        time = iso_time(self._world.wall_ms())
        event = classify(self._source, place_of, self._verdict, frame, time)
        message = message_of(event, self._shelf.subjects, self._shelf.payload_bytes_max)
        if not message.payload and event.payload:
            log.error(
                "%s: an event of %d bytes is larger than the broker takes; it is refused by its "
                "position, see `fencepost questions ls`: raise max_payload on the broker",
                self.name,
                event.size,
            )
        self.outbox.add(Entry((*self._record, message), self.cursor))
        self._record = ()
        self._reached("passed_on")

    async def touch(self) -> None:
        """Write the cursor once more, so that it does not grow too old for its stream."""
        self.outbox.add(Entry((), self.cursor))
        await self.outbox.room()

    def _tell(self, record: EpochRecord) -> None:
        verdict = record.verdict
        reasons = [reason.value for reason in verdict.reasons]
        log.info(
            "%s: %s (%s), generation %s",
            self.name,
            verdict.kind,
            ", ".join(reasons),
            record.generation,
        )
        trace.get_current_span().set_attributes(
            {
                "fencepost.verdict": verdict.kind.value,
                "fencepost.reasons": reasons,
                "fencepost.generation": record.generation,
            }
        )
