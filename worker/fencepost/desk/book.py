"""The book of questions: what is open, what it is about, and the first answer to each.

Open is what has no answer; nothing else is kept that could disagree.
"""

import asyncio
import logging

import msgspec

from fencepost.clock import RealWorld, iso_time
from fencepost.errors import NotFine, Unreadable, UsageError
from fencepost.ports import Broker, Message, NotStored, Stored, World
from fencepost.records import read_record
from fencepost_policies.lineage import places_settled
from fencepost_schemas.limits import NOTE_CHARS_MAX
from fencepost_schemas.question import (
    Answer,
    AuditEntry,
    Question,
    QuestionKind,
    Ruling,
    seam_question_id,
)
from fencepost_schemas.subject import ANSWERS, LEDGER, QUESTIONS, BadSubject, Subjects

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
        first, with who, when and what, or where this cannot be said, or not yet.
        """
        if not actor.isprintable():
            raise UsageError(f"{actor!r} is no name for who answers: use printable characters")
        entry = await self.entry(question)
        kind = entry.question.kind
        if ruling not in kind.rulings:
            raise UsageError(f"a {kind} question takes {', '.join(kind.rulings)}; not {ruling!r}")
        if entry.answer is None and ruling == Ruling.SAME:
            await self._check_seam_in_front(entry.question)
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
        return await self.store(answer)

    async def store(self, answer: Answer) -> Answer:
        """Store an answer, the first one, and return it; raise NotFine where somebody was first."""
        subject = self._subjects.answer(answer.question)
        reply = await self._connection.store(Message(subject, msgspec.json.encode(answer)))
        if isinstance(reply, NotStored):
            first = await self._answer_to(answer.question)
            if reply.taken and first is not None:
                raise NotFine(
                    f"{answer.question} was answered before: {first.ruling} by {first.actor!r} at "
                    f"{iso_time(first.at_ms)}; that answer stands"
                )
            raise NotFine(f"the answer was not taken: {reply.text} ({reply.error})")
        await self._record(answer)
        return answer

    async def _check_seam_in_front(self, question: Question) -> None:
        """Refuse to say "the same" while it is not settled where the generation in front counts.

        Events without a key of their own are known by their place in the oldest generation that is
        the same. Were that one found out later, they would get another key; were it never said,
        what was applied before it would not be known again. Either way it would be applied twice.
        An answer is final, so what is settled once stays so, whoever answers meanwhile.
        """
        if question.gap is None:
            raise NotFine(
                f"{question.id}: what it goes on from is not known: answer accept or reconcile"
            )
        generation = question.gap.after_generation
        front = seam_question_id(question.source, generation)
        answer = await self._answer_to(front)
        if places_settled(generation, answer.ruling if answer is not None else None):
            return
        if answer is not None:
            raise NotFine(
                f"{question.id}: {answer.ruling} was said of {generation}, from which it goes on, "
                "so events without a key that were applied before that one are not known again: "
                "answer reconcile or discard, or accept if none of them comes"
            )
        subject = self._subjects.question(question.source, front)
        if await self._connection.last(QUESTIONS, subject) is None:
            raise NotFine(
                f"{question.id} goes on from {generation}, and nobody has asked about that one: "
                "answer that first once somebody does, or answer accept or reconcile"
            )
        raise NotFine(
            f"{question.id} goes on from a generation that is in question itself: "
            f"answer {front} first"
        )

    async def _check_quarantine(self, question: Question) -> None:
        """Refuse to say "it did not happen" while the attempt may still bring it about.

        An answer waits for the end of the quarantine before it is carried out, but what was seen
        before that end need not be true any more by then.
        """
        # The time was written by the clock of whoever leads the ledger, and no other one counts.
        left_ms = question.retry_from_ms - await self._connection.clock_ms(LEDGER)
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
            try:
                answer = await self._answer_to(question.id)
            except Unreadable as error:
                log.error("%s; whether that question is answered is not known", error)
                answer = None
            held = await self._held(question) if answer is None else 0
            return Entry(question, held, answer)

    async def _held(self, question: Question) -> int:
        if question.kind not in (QuestionKind.SEAM, QuestionKind.PAUSE):
            return 1
        under = self._subjects.held_under(question.source, question.id)
        return len(await self._connection.subjects(QUESTIONS, under))

    async def _answer_to(self, question: str) -> Answer | None:
        stored = await self._connection.last(ANSWERS, self._subjects.answer(question))
        return read_record(stored, Answer) if stored is not None else None
