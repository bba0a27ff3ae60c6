"""The book of questions: what is open, what it is about, and the first answer to each.

Open is what has no answer; nothing else is kept that could disagree.
"""

import asyncio
import logging

import msgspec

from fencepost.clock import RealWorld, iso_time
from fencepost.errors import NotFine, UsageError
from fencepost.ports import Broker, Message, NotStored, Stored, World
from fencepost_schemas.limits import NOTE_CHARS_MAX
from fencepost_schemas.question import (
    Answer,
    AuditEntry,
    Question,
    QuestionKind,
    Ruling,
    seam_question_id,
)
from fencepost_schemas.subject import ANSWERS, QUESTIONS, BadSubject, Subjects

log = logging.getLogger("fencepost.desk")

READS_MAX = 64
AUDIT_WRITER = "desk"
_REAL = RealWorld()


class Entry(msgspec.Struct, frozen=True):
    """A question with how many events wait under it, and its answer where it has one."""

    question: Question
    held: int
    answer: Answer | None = None


class Book:
    def __init__(self, connection: Broker, subjects: Subjects, world: World = _REAL) -> None:
        self._connection = connection
        self._subjects = subjects
        self._world = world
        self._reads = asyncio.Semaphore(READS_MAX)

    async def entries(self, *, answered: bool = False, source: str | None = None) -> list[Entry]:
        """Return the open questions, oldest first; with `answered` the others too."""
        try:
            asked = self._subjects.questions_of(source)
        except BadSubject as error:
            raise UsageError(f"source: {error}") from None
        subjects = await self._connection.subjects(QUESTIONS, asked)
        answers = await self._connection.subjects(ANSWERS, self._subjects.answers())
        closed = {subject.rsplit(".", 1)[1] for subject in answers}
        wanted = [
            subject for subject in subjects if answered or subject.rsplit(".", 1)[1] not in closed
        ]
        found = await asyncio.gather(*(self._entry(subject) for subject in wanted))
        entries = [entry for entry in found if entry is not None]
        return sorted(entries, key=lambda entry: (entry.question.asked_ms, entry.question.id))

    async def entry(self, question: str) -> Entry:
        """Return one question by its id; raise NotFine where there is none."""
        try:
            subject = self._subjects.question_anywhere(question)
        except BadSubject:
            raise UsageError(
                f"{question!r} is no question's id: see `fencepost questions ls`"
            ) from None
        entry = await self._entry(subject)
        if entry is None:
            raise NotFine(f"there is no question {question}: see `fencepost questions ls --all`")
        return entry

    async def answer(self, question: str, ruling: str, actor: str, note: str = "") -> Answer:
        """Give the first answer, and return it.

        Raises UsageError for a ruling that the question does not take, NotFine where somebody was
        first, with who, when and what, or where another question has to be answered first.
        """
        if not actor.isprintable():
            raise UsageError(f"{actor!r} is no name for who answers: use printable characters")
        entry = await self.entry(question)
        kind = entry.question.kind
        if ruling not in kind.rulings:
            raise UsageError(f"a {kind} question takes {', '.join(kind.rulings)}; not {ruling!r}")
        if entry.answer is None and ruling == Ruling.SAME:
            await self._check_seam_in_front(entry.question)
            await self._check_seams_behind(entry.question)
        if entry.answer is None and ruling == Ruling.RETRY:
            await self._check_quarantine(entry.question)
        answer = Answer(
            question=question,
            source=entry.question.source,
            kind=kind,
            ruling=Ruling(ruling),
            actor=actor,
            at_ms=self._world.wall_ms(),
            note=note[:NOTE_CHARS_MAX].encode("utf-8", "replace").decode(),
        )
        subject = self._subjects.answer(question)
        reply = await self._connection.store(Message(subject, msgspec.json.encode(answer)))
        if isinstance(reply, NotStored):
            first = await self._answer_to(question)
            if reply.taken and first is not None:
                raise NotFine(
                    f"{question} was answered before: {first.ruling} by {first.actor!r} at "
                    f"{iso_time(first.at_ms)}; that answer stands"
                )
            raise NotFine(f"the answer was not taken: {reply.text} ({reply.error})")
        await self._record(answer)
        return answer

    async def _check_seam_in_front(self, question: Question) -> None:
        """Refuse to say "the same" of a generation while the one that it goes on from is open.

        Events without a key of their own are known by their place in the oldest generation that is
        the same. Were that one found out later, they would get another key, and be applied again.
        """
        if question.gap is None:
            return
        front = seam_question_id(question.source, question.gap.after_generation)
        subject = self._subjects.question(question.source, front)
        asked = await self._connection.last(QUESTIONS, subject) is not None
        if asked and await self._answer_to(front) is None:
            raise NotFine(
                f"{question.id} goes on from a generation that is in question itself: "
                f"answer {front} first"
            )

    async def _check_seams_behind(self, question: Question) -> None:
        """Refuse to say "the same" of a generation that a later one was said to go on from.

        That was answered before this one was asked about, so its events are known by their place
        here. They would be known by another one from now on, and be applied again.
        """
        entries = await self.entries(answered=True, source=question.source)
        fronts = {
            entry.question.generation: entry.question.gap.after_generation
            for entry in entries
            if entry.answer is not None
            and entry.answer.ruling is Ruling.SAME
            and entry.question.gap is not None
        }
        for generation, front in fronts.items():
            while front in fronts:
                front = fronts[front]
            if front == question.generation:
                raise NotFine(
                    f"{question.id}: generation {generation} was said to go on from this one, and "
                    "its events are known by their place here since: answer accept or reconcile"
                )

    async def _check_quarantine(self, question: Question) -> None:
        """Refuse to say "it did not happen" while the attempt may still bring it about.

        An answer waits for the end of the quarantine before it is carried out, but what was seen
        before that end need not be true any more by then.
        """
        left_ms = question.retry_from_ms - await self._connection.clock_ms(QUESTIONS)
        if left_ms > 0:
            raise NotFine(
                f"{question.id}: attempt {question.attempt} may still act for "
                f"{-(-left_ms // 1000)} s: look again then whether it happened"
            )

    async def _record(self, answer: Answer) -> None:
        entry = AuditEntry(
            actor=answer.actor,
            action=f"answered {answer.ruling}",
            subject=answer.question,
            at_ms=answer.at_ms,
            detail=answer.note,
        )
        message = Message(self._subjects.audit(AUDIT_WRITER), msgspec.json.encode(entry))
        reply = await self._connection.store(message)
        if not isinstance(reply, Stored):
            raise NotFine(f"the answer stands, but its audit record was not taken: {reply.text}")

    async def _entry(self, subject: str) -> Entry | None:
        async with self._reads:
            stored = await self._connection.last(QUESTIONS, subject)
            if stored is None:
                return None
            try:
                question = msgspec.json.decode(stored.payload, type=Question)
            except msgspec.DecodeError as error:
                log.warning("%s: not a question that this release knows: %s", stored.subject, error)
                return None
            answer = await self._answer_to(question.id)
            held = await self._held(question) if answer is None else 0
            return Entry(question, held, answer)

    async def _held(self, question: Question) -> int:
        if question.kind not in (QuestionKind.SEAM, QuestionKind.PAUSE):
            return 1
        under = self._subjects.held_under(question.source, question.id)
        return len(await self._connection.subjects(QUESTIONS, under))

    async def _answer_to(self, question: str) -> Answer | None:
        stored = await self._connection.last(ANSWERS, self._subjects.answer(question))
        return msgspec.json.decode(stored.payload, type=Answer) if stored is not None else None
