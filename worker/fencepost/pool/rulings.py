"""What people ruled on seams, read through the leader and remembered once it is there."""

import logging

from fencepost.errors import Unreadable
from fencepost.pool.work import Ruled
from fencepost.ports import Broker
from fencepost.records import read_record
from fencepost.settings import Source
from fencepost_policies.keys import names_a_place
from fencepost_schemas.event import ClassifiedEvent
from fencepost_schemas.question import Answer, Ruling, seam_question_id
from fencepost_schemas.standing import Standing
from fencepost_schemas.subject import ANSWERS, EVENTS, Subjects
from fencepost_schemas.verdict import EpochRecord

CONFIGURED = "configuration"

log = logging.getLogger("fencepost.pool")


class Rulings:
    """A ruling is final, so a positive answer is kept; "none yet" is asked again each time."""

    def __init__(self, connection: Broker, subjects: Subjects, sources: dict[str, Source]) -> None:
        self._connection = connection
        self._subjects = subjects
        self._sources = sources
        self._answers: dict[tuple[str, str], Answer] = {}
        self._records: dict[tuple[str, str], EpochRecord] = {}

    def without_asking(self, event: ClassifiedEvent) -> Ruled | None:
        """Return what holds for the generation of this event where nobody can have ruled on it."""
        return None if event.standing.tainted else Ruled(None, event.generation)

    async def of(self, event: ClassifiedEvent) -> Ruled:
        """Return what holds for the generation of this event."""
        unasked = self.without_asking(event)
        if unasked is not None:
            return unasked
        answer = await self._answer(event.source, event.generation)
        if answer is None:
            return Ruled(
                self._standing_ruling(event), event.generation, self._standing_actor(event)
            )
        generation = event.generation
        if answer.ruling is Ruling.SAME and names_a_place(event.position):
            generation = await self._root(event.source, event.generation)
        return Ruled(answer.ruling, generation, answer.actor)

    async def record(self, source: str, generation: str) -> EpochRecord | None:
        """Return the verdict record that opened a generation."""
        known = self._records.get((source, generation))
        if known is not None:
            return known
        subject = self._subjects.epoch(source, generation)
        async for stored in self._connection.scan(EVENTS, subject):
            try:
                record = read_record(stored, EpochRecord)
            except Unreadable as error:
                log.error("%s; what it said of its generation is not known", error)
                return None
            self._records[source, generation] = record
            return record
        return None

    async def _answer(self, source: str, generation: str) -> Answer | None:
        known = self._answers.get((source, generation))
        if known is not None:
            return known
        subject = self._subjects.answer(seam_question_id(source, generation))
        stored = await self._connection.last(ANSWERS, subject)
        if stored is None:
            return None
        try:
            answer = read_record(stored, Answer)
        except Unreadable as error:
            log.error("%s; it counts as no answer", error)
            return None
        self._answers[source, generation] = answer
        return answer

    async def _root(self, source: str, generation: str) -> str:
        """Return the oldest generation that this one continues, by the rulings between them."""
        while True:
            answer = await self._answer(source, generation)
            record = await self.record(source, generation)
            same = answer is not None and answer.ruling is Ruling.SAME
            if not same or record is None or not record.parent:
                return generation
            generation = record.parent

    def _standing_ruling(self, event: ClassifiedEvent) -> Ruling | None:
        source = self._sources.get(event.source)
        reconcile = source is not None and source.unverifiable == "reconcile"
        doubtful = event.standing is Standing.UNVERIFIABLE
        return Ruling.RECONCILE if reconcile and doubtful else None

    def _standing_actor(self, event: ClassifiedEvent) -> str:
        return CONFIGURED if self._standing_ruling(event) is not None else ""
