"""Answers from the desk. An answer is the carrier of its work.

It stays unacked until every row that it concerns is terminal or parked again, so that a worker
that dies in between is followed by another.
"""

import asyncio
import logging

import msgspec
from nats.aio.msg import Msg

from fencepost.broker.connection import Connection
from fencepost.pool.deliveries import ACK, TERM, settle_together
from fencepost.pool.drive import Done, Driver
from fencepost.pool.seams import Seams
from fencepost_policies.plan import Answered
from fencepost_schemas.question import Answer, Held, Question, QuestionKind
from fencepost_schemas.subject import QUESTIONS, Subjects

log = logging.getLogger("fencepost.pool")

IN_PROGRESS = b"+WPI"
SEAM_CHUNK = 100
"""Held events carried out side by side, between two words to the broker that we are at it."""


class Answers:
    def __init__(
        self, connection: Connection, subjects: Subjects, driver: Driver, seams: Seams
    ) -> None:
        self._connection = connection
        self._subjects = subjects
        self._driver = driver
        self._seams = seams

    async def work_on(self, message: Msg) -> None:
        """Carry out one answer, and settle it."""
        try:
            answer = msgspec.json.decode(message.data, type=Answer)
        except msgspec.DecodeError as error:
            log.error("%s: not an answer: %s; it is passed over", message.subject, error)
            await self._connection.post(message.reply, TERM)
            return
        if answer.kind is QuestionKind.SEAM:
            done = await self._rule_on_seam(answer, message)
        else:
            done = await self._rule_on_row(answer)
        word = settle_together(done) if done else ACK
        if word is not None:
            await self._connection.post(message.reply, word)

    async def _rule_on_row(self, answer: Answer) -> list[Done]:
        stored = await self._connection.last(
            QUESTIONS, self._subjects.question(answer.source, answer.question)
        )
        if stored is None:
            log.error("answer to %s: there is no such question; passed over", answer.question)
            return []
        question = msgspec.json.decode(stored.payload, type=Question)
        assert question.event is not None, "a question about a row carries its event"
        work = await self._seams.work_of(question.event)
        if work is None:
            return []
        answered = Answered(answer.ruling, answer.actor, question.attempt, self._driver.start())
        return [await self._driver.answered(work, answered)]

    async def _rule_on_seam(self, answer: Answer, message: Msg) -> list[Done]:
        """Carry a ruling out for everything that is held under it; what comes later finds it."""
        done: list[Done] = []
        chunk: list[tuple[str, Held]] = []
        under = self._subjects.held_under(answer.source, answer.question)
        async for stored in self._connection.scan(QUESTIONS, under):
            held = msgspec.json.decode(stored.payload, type=Held)
            if held.handler:
                chunk.append((stored.subject, held))
            if len(chunk) >= SEAM_CHUNK:
                done += await self._carry_out(chunk)
                chunk = []
                await self._connection.post(message.reply, IN_PROGRESS)
        return done + await self._carry_out(chunk)

    async def _carry_out(self, chunk: list[tuple[str, Held]]) -> list[Done]:
        done = await asyncio.gather(
            *(self._seams.carry_out(subject, held) for subject, held in chunk)
        )
        return [one for one in done if one is not None]
