"""Answers from the desk. An answer is the carrier of its work.

It stays unacked until every row that it concerns is terminal or parked again, so that a worker
that dies in between is followed by another.
"""

import asyncio
import logging

import msgspec

from fencepost.pool.case import Done
from fencepost.pool.deliveries import ACK, TERM, later, settle_together
from fencepost.pool.drive import OTHER_RELEASE_MS, Driver
from fencepost.pool.leases import IN_PROGRESS
from fencepost.pool.pauses import Pauses
from fencepost.pool.seams import Seams
from fencepost.ports import Broker, Delivery
from fencepost_policies.plan import Answered, Settlement
from fencepost_schemas.event import fingerprint_of
from fencepost_schemas.question import Answer, Held, Question, QuestionKind
from fencepost_schemas.row import UnknownRowVersion, decode_row
from fencepost_schemas.subject import DEAD, LEDGER, QUESTIONS, BadSubject, Subjects, slug

log = logging.getLogger("fencepost.pool")

OWN = "fencepost-"
"""What the headers of a dead letter begin with that are not its event's."""
SEAM_CHUNK = 100
"""Held events carried out side by side, between two words to the broker that we are at it."""


class About(msgspec.Struct, frozen=True):
    """The row that an answer is about: where it stands, its key, and the attempt that was asked
    about."""

    row: str
    key: str
    attempt: int


class Answers:
    def __init__(
        self,
        connection: Broker,
        subjects: Subjects,
        driver: Driver,
        seams: Seams,
        pauses: Pauses,
    ) -> None:
        self._connection = connection
        self._subjects = subjects
        self._driver = driver
        self._seams = seams
        self._pauses = pauses

    async def work_on(self, message: Delivery) -> None:
        """Carry out one answer, and settle it."""
        try:
            answer = msgspec.json.decode(message.payload, type=Answer)
            slug(answer.source)
            if message.subject != self._subjects.answer(answer.question):
                # Elsewhere the broker could not tell which one was first.
                raise BadSubject("it does not stand where its question is answered")
        except msgspec.ValidationError as error:
            log.warning("%s: %s; left to a newer worker", message.subject, error)
            await self._connection.settle(message, later(OTHER_RELEASE_MS))
            return
        except (msgspec.DecodeError, BadSubject) as error:
            log.error("%s: not an answer: %s; it is passed over", message.subject, error)
            await self._connection.settle(message, TERM)
            return
        if answer.kind is QuestionKind.LOSS:
            done: list[Done] = []  # what is gone is gone: the answer is for the audit
        elif answer.kind in (QuestionKind.SEAM, QuestionKind.PAUSE):
            done = await self._carry_out_held(answer, message)
        else:
            done = await self._rule_on_row(answer, message.reply)
        word = settle_together(done) if done else ACK
        if word is not None:
            await self._connection.settle(message, word)

    async def _rule_on_row(self, answer: Answer, reply: str) -> list[Done]:
        if answer.kind is QuestionKind.REJECTION:
            return await self._try_again(answer, reply)
        stored = await self._connection.last(
            QUESTIONS, self._subjects.question(answer.source, answer.question)
        )
        if stored is None:
            log.error("answer to %s: there is no such question; passed over", answer.question)
            return []
        try:
            question = msgspec.json.decode(stored.payload, type=Question)
        except msgspec.DecodeError as error:
            log.warning("question %s: %s; left to a newer worker", answer.question, error)
            return [Done(Settlement.LATER, OTHER_RELEASE_MS)]
        if question.kind is not answer.kind or question.event is None:
            log.error("answer to %s: it is another question; passed over", answer.question)
            return []
        about = About(question.row, question.key, question.attempt)
        return await self._carry_out_on(answer, question.event, about, reply)

    async def _try_again(self, answer: Answer, reply: str) -> list[Done]:
        """Try once more what was rejected, as it lies among the dead: that alone says what runs."""
        stored = None
        if answer.letter > 0:
            letters = self._connection.scan(DEAD, self._subjects.dead_of(), answer.letter)
            stored = await anext(letters, None)
        if stored is None or stored.sequence != answer.letter:
            log.error("answer to %s: there is no dead letter %d", answer.question, answer.letter)
            return []
        row = await self._connection.last(LEDGER, stored.headers.get("fencepost-row", "-"))
        try:
            known = decode_row(row.payload) if row is not None else None
        except UnknownRowVersion as error:
            log.warning("answer to %s: %s", answer.question, error)
            return [Done(Settlement.LATER, OTHER_RELEASE_MS)]
        if (
            row is None
            or known is None
            or stored.headers.get("fencepost-attempts") != str(known.attempt)
        ):
            log.error("answer to %s: its row has moved on; passed over", answer.question)
            return []
        headers = {name: one for name, one in stored.headers.items() if not name.startswith(OWN)}
        app, handler = stored.headers.get("fencepost-app", ""), stored.subject.rsplit(".", 1)[1]
        event = Held("", headers, stored.payload, app, handler)
        about = About(row.subject, known.key, known.attempt)
        return await self._carry_out_on(answer, event, about, reply)

    async def _carry_out_on(
        self, answer: Answer, event: Held, about: "About", reply: str
    ) -> list[Done]:
        """Bring an answer to the row that it is about, with the event that it would run."""
        if not self._seams.mine(event):
            return []
        work = await self._seams.work_of(event, reply)
        if isinstance(work, Done):
            return [work]
        # What was ruled since may give the event another key, but it is this row that was asked
        # about.
        key = msgspec.structs.replace(work.key, text=about.key)
        work = msgspec.structs.replace(work, key=key, row_subject=about.row)
        if not work.undecodable:
            start, fingerprint = self._driver.start(work.handler), fingerprint_of(event.payload)
            answered = Answered(answer.ruling, answer.actor, about.attempt, start, fingerprint)
            done = await self._driver.answered(work, answered)
            if done.row is None:
                log.error("answer to %s: its row is gone; nothing is run", answer.question)
            return [done]
        if not await self._driver.stands(work):
            log.error("answer to %s: its row is gone; nothing is run", answer.question)
            return []
        # What cannot be read goes to the dead again, and not to the handler.
        return [await self._driver.arrived(work, await self._seams.ruled_on(work))]

    async def _carry_out_held(self, answer: Answer, message: Delivery) -> list[Done]:
        """Carry an answer out for everything that is held under it; what comes later finds it."""
        done: list[Done] = []
        chunk: list[tuple[str, Held]] = []
        under = self._subjects.held_under(answer.source, answer.question)
        async for stored in self._connection.scan(QUESTIONS, under):
            try:
                held = msgspec.json.decode(stored.payload, type=Held)
            except msgspec.DecodeError as error:
                log.error("%s: not a held event: %s; it is passed over", stored.subject, error)
                continue
            if held.handler and self._seams.mine(held):
                chunk.append((stored.subject, held))
            if len(chunk) >= SEAM_CHUNK:
                done += await self._carry_out(answer.kind, chunk, message.reply)
                chunk = []
                await self._connection.settle(message, IN_PROGRESS)
        return done + await self._carry_out(answer.kind, chunk, message.reply)

    async def _carry_out(
        self, kind: QuestionKind, chunk: list[tuple[str, Held]], reply: str
    ) -> list[Done]:
        under = self._pauses if kind is QuestionKind.PAUSE else self._seams
        return await asyncio.gather(
            *(under.carry_out(subject, held, reply) for subject, held in chunk)
        )
