"""The lineage of one source as its bridge carries it: the cursor, and what is on its way to it.

A verdict turns the lineage, an event moves it on. Both become entries of the outbox; the verdict's
record goes with the first event behind it.
"""

import logging
from collections.abc import Callable

import msgspec
from opentelemetry import trace

from fencepost.bridge.classify import classify, message_of
from fencepost.bridge.outbox import Entry, Outbox
from fencepost.bridge.shelf import Shelf
from fencepost.clock import iso_time
from fencepost.ports import Message, World
from fencepost.settings import Source
from fencepost_policies.lineage import place, turn
from fencepost_policies.overlap import digest_of, remember
from fencepost_schemas.cursor import Cursor, Mark
from fencepost_schemas.question import Ruling
from fencepost_schemas.sse import Frame
from fencepost_schemas.standing import Standing
from fencepost_schemas.verdict import EpochRecord, Verdict

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
    def progress(self) -> tuple[str, int]:
        """What differs once an event was taken: counts begin anew in each generation."""
        return self.cursor.generation, self.cursor.published

    def keep_session(self, session: str) -> None:
        """Keep the session that the source gave us; it is stored with what comes next."""
        if session != self.cursor.session:
            self.cursor = msgspec.structs.replace(self.cursor, session=session)

    def turn(self, verdict: Verdict, first: Frame | None, *, token: str, asked: str) -> None:
        """Carry out a verdict: turn the lineage, and have its record go before its first event.

        `first` is the event that the verdict was given on, `token` the source's own word for its
        generation, `asked` the id that was sent.
        """
        turned = turn(self.cursor, verdict, first, self._world.random_name(8), self._ruling)
        if turned.cursor.generation != self.cursor.generation:
            # It was said of the generation that ends here, and counts once for the next one.
            self._ruling = None
        self.cursor = msgspec.structs.replace(turned.cursor, token=token or turned.cursor.token)
        self._verdict = verdict.kind
        record = EpochRecord(
            source=self.name,
            generation=self.cursor.generation,
            parent=turned.parent,
            verdict=verdict,
            standing=self.cursor.standing,
            gap=turned.gap,
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

    def pass_on(self, frame: Frame) -> None:
        """Move the lineage on by one event, which will be stored with it."""
        if frame.data is None:
            return
        position = place(self.cursor.position, frame)
        mark = Mark(position, digest_of(frame, self._source.speech.volatile))
        self.cursor = msgspec.structs.replace(
            self.cursor,
            position=position,
            published=self.cursor.published + 1,
            ring=remember(self.cursor.ring, mark),
        )
        time = iso_time(self._world.wall_ms())
        event = classify(self._source, self.cursor, self._verdict, frame, time)
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
