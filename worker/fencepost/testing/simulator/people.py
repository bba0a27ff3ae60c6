"""People at the desk. They may choose any answer that is not a lie."""

import asyncio
import contextlib

from fencepost.desk.book import Book
from fencepost.errors import NotFine, Unreachable
from fencepost.testing.memory import MemoryConnection
from fencepost.testing.simulator.house import House, task_of
from fencepost.testing.simulator.world import SimulatedWorld
from fencepost_schemas.question import Question, QuestionKind, Ruling


class People:
    def __init__(self, house: House) -> None:
        self._house = house
        self._chance = house.chance
        connection = MemoryConnection(house.broker)
        self.book = Book(connection, house.subjects, SimulatedWorld(house.chance, 0))

    async def answer_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._chance.uniform(1.0, 8.0))
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
        # Where somebody was first, or another question has to be answered first, it stands.
        with contextlib.suppress(NotFine):
            await self.book.answer(question.id, ruling, "ada")

    def _ruling(self, question: Question) -> Ruling | None:
        if question.kind is QuestionKind.SEAM:
            durable = self._house.plan.source.keys == "durable"
            whole = durable and not self._house.plan.source.keys_missing
            # Without keys, to accept what was announced again would be to apply it again.
            choices = [Ruling.RECONCILE, Ruling.DISCARD]
            return self._chance.choice([*choices, Ruling.ACCEPT, Ruling.SAME] if whole else choices)
        if question.kind is QuestionKind.REFUSAL:
            return Ruling.DISCARD
        return self._look_at_sink(question)

    def _look_at_sink(self, question: Question) -> Ruling | None:
        """Say what the sink says, once nobody is left who could still change it."""
        assert question.event is not None
        house = self._house
        if any(process.paused for process in house.workers):
            return None
        handler, task = question.event.handler, task_of(question.event.payload)
        if house.sink.may_land(handler, task):
            return None
        if house.sink.landed(handler, task):
            return Ruling.APPLIED
        return Ruling.DISCARD if self._chance.random() < 0.5 else Ruling.RETRY
