"""People at the desk. They may choose any answer that is not a lie.

A careful person says of a doubt what the sink says, once nobody is left who could still change it.
A punctual one does not know who is left: it looks as soon as the attempt's quarantine is over and
its last call has come in, and trusts that nothing of it acts any more. No quarantine can see to
that where a worker is paused beyond it, so nobody is punctual where workers are paused. A hasty one
looks at once and says what is there now: that it is not believed too soon is the desk's to see to.

Of a seam, people say what does no harm whatever is true, as long as events have keys. A knowing
person has looked at the source's own logs, and says of events without keys, too, that they are the
same stream, or a new one, where they are.
"""

import asyncio
import contextlib

from fencepost.desk.book import Book
from fencepost.errors import NotFine, Unreachable
from fencepost.testing.memory import MemoryConnection
from fencepost.testing.simulator.history import task_of
from fencepost.testing.simulator.house import House
from fencepost.testing.simulator.truth import Log, logs_by_generation
from fencepost.testing.simulator.world import SimulatedWorld
from fencepost_schemas.question import Question, QuestionKind, Ruling

NAMES = ("ada", "grace", "hedy")


class Person:
    def __init__(self, house: House, name: str) -> None:
        self._house = house
        self._name = name
        self._chance = house.chance
        connection = MemoryConnection(house.broker)
        self.book = Book(connection, house.subjects, SimulatedWorld(house.chance, 0))

    async def answer_for_ever(self) -> None:
        patient = self._house.plan.manner in ("careful", "knowing")
        least_s, most_s = (1.0, 8.0) if patient else (0.1, 1.0)
        while True:
            await asyncio.sleep(self._chance.uniform(least_s, most_s))
            await self.answer_some(0.5)

    async def answer_some(self, part: float) -> None:
        with contextlib.suppress(Unreachable):
            for entry in await self.book.entries():
                if self._chance.random() < part:
                    await self._answer(entry.question)

    async def _answer(self, question: Question) -> None:
        ruling = self._ruling(question)
        if ruling is None:
            return
        # Where somebody was first, or this cannot be said (yet), the question stands as it is.
        with contextlib.suppress(NotFine):
            await self.book.answer(question.id, ruling, self._name)

    def _ruling(self, question: Question) -> Ruling | None:
        if question.kind is QuestionKind.SEAM:
            return self._chance.choice(self._say_of_seam(question))
        if question.kind is QuestionKind.PAUSE:
            return Ruling.RESUME
        if question.kind is QuestionKind.REFUSAL:
            return Ruling.DISCARD
        return self._look_at_sink(question)

    # --- seams
    def _say_of_seam(self, question: Question) -> list[Ruling]:
        """Return all that may be said of a seam without a lie."""
        source = self._house.plan.source
        harmless = [Ruling.RECONCILE, Ruling.DISCARD]
        if source.keys == "durable" and not source.keys_missing:
            return [*harmless, Ruling.ACCEPT, Ruling.SAME]
        # Without keys, to accept what was announced again would be to apply it again.
        if self._house.plan.manner == "knowing":
            return [*harmless, *self._know_of_seam(question)]
        return harmless

    def _know_of_seam(self, question: Question) -> list[Ruling]:
        """Return what a look at the source's logs allows to say beyond what is harmless.

        A log that announces again what an older one announced is never taken as it is.
        """
        logs = logs_by_generation(self._house.history.sendings, self._house.published())
        its = logs.pop(question.generation, set())
        log = next(iter(its), None)
        if log is None or len(its) != 1 or question.gap is None:
            return []
        if log.epoch > 1 and self._house.plan.source.reannounces_max:
            return []
        if logs.get(question.gap.after_generation) == its:
            return [Ruling.SAME]
        elsewhere: set[Log | None] = set().union(*logs.values())
        return [] if its & elsewhere or None in elsewhere else [Ruling.ACCEPT]

    # --- doubts
    def _look_at_sink(self, question: Question) -> Ruling | None:
        """Say what the sink says, once it is time to look."""
        assert question.event is not None
        handler, task = question.event.handler, task_of(question.event.payload)
        if not self._may_look(question, handler, task):
            return None
        if self._house.sink.landed(handler, task):
            return Ruling.APPLIED
        return Ruling.DISCARD if self._chance.random() < 0.5 else Ruling.RETRY

    def _may_look(self, question: Question, handler: str, task: str) -> bool:
        house = self._house
        if house.plan.manner == "hasty":
            return True
        if house.plan.manner == "punctual":
            over_s = house.row(question.row).quarantine_until_ms / 1000 + house.plan.flight_s
            return over_s <= asyncio.get_running_loop().time()
        paused = any(process.paused for process in house.workers)
        return not paused and not house.sink.may_land(handler, task)


def people_of(house: House) -> list[Person]:
    """Return those who sit at the desk in this plan."""
    count = house.plan.heads if house.plan.people else 0
    return [Person(house, name) for name in NAMES[:count]]
