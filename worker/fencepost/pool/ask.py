"""Publish what a plan wants published: held events, questions, parked retries, the dead.

Every one of them may be published twice after a crash, and none does harm then: questions and held
events stand on subjects of their own, and a seam has one question however many ask it.
"""

import logging
from urllib.parse import quote

import msgspec

from fencepost.errors import NotFine
from fencepost.pool.rulings import Rulings
from fencepost.pool.work import Work
from fencepost.ports import Broker, Message, NotStored
from fencepost.storing import store_decided
from fencepost_policies.plan import Notice
from fencepost_schemas.event import ClassifiedEvent
from fencepost_schemas.limits import DOUBTS_IN_A_ROW_MAX
from fencepost_schemas.question import (
    Held,
    Parked,
    Question,
    QuestionKind,
    row_question_id,
    seam_question_id,
)
from fencepost_schemas.row import Row
from fencepost_schemas.standing import Standing
from fencepost_schemas.subject import Subjects, held_place, is_app_source, lane_of
from fencepost_schemas.verdict import EpochRecord, Gap

log = logging.getLogger("fencepost.pool")

HELD_DONE_TTL = "1h"
"""How long the mark that a held event is settled stays, before the broker drops it."""
HEADER_ROOM = 512


class Desk:
    """The pool's side of the confirmation desk."""

    def __init__(self, connection: Broker, subjects: Subjects, rulings: Rulings, app: str) -> None:
        self._connection = connection
        self._subjects = subjects
        self._rulings = rulings
        self._app = app
        self._seams_asked: set[str] = set()

    async def publish(
        self, notice: Notice, work: Work, row: Row, now_ms: int, trace: str = ""
    ) -> None:
        """Publish one notice about this work, and return once it is durable."""
        if notice is Notice.ASK_DOUBT and work.handler.reconciles:
            await self._ask_gap(work, row, now_ms)
        elif notice is Notice.HOLD:
            await self._ask_seam(work, now_ms)
            await self._hold(work)
        elif notice is Notice.ASK_DOUBT:
            await self._ask_row(QuestionKind.DOUBT, work, row, now_ms)
        elif notice is Notice.ASK_REFUSAL:
            await self._ask_row(QuestionKind.REFUSAL, work, row, now_ms)
        elif notice is Notice.PARK:
            await self._park(work, row)
        else:
            await self._bury(work, row, trace)

    async def release(self, subject: str, held: Held) -> None:
        """Mark a held event as settled: its bytes go at once, the mark follows later."""
        mark = msgspec.structs.replace(held, payload=b"", headers={}, handler="")
        headers = {"Nats-TTL": HELD_DONE_TTL}
        await self._store(Message(subject, msgspec.json.encode(mark), headers))

    async def hold_under(self, source: str, question: str, work: Work) -> None:
        """Keep an event under a question that is not its seam's."""
        subject = self.place_under(source, question, work)
        await self._store(Message(subject, msgspec.json.encode(work.carrier)))

    def place_under(self, source: str, question: str, work: Work) -> str:
        """Return where such an event is held: by itself, and not by its row.

        What comes again under its key may be of another generation, and ruled on otherwise: then
        one must not take the other's place, which was acked because it is held.
        """
        event = work.event
        place = held_place(work.row_subject, event.generation, event.position)
        return self._subjects.held(source, question, place)

    async def ask_pause(self, source: str, work: Work, row: Row, now_ms: int) -> str:
        """Ask about a handler that got into doubt too often in a row; return the question's id."""
        name = work.handler.name
        question = Question(
            id=row_question_id(QuestionKind.PAUSE, work.row_subject, row.attempt),
            kind=QuestionKind.PAUSE,
            source=source,
            generation=work.event.generation,
            standing=work.event.standing,
            asked_ms=now_ms,
            text=(
                f"{name} got into doubt {DOUBTS_IN_A_ROW_MAX} times in a row, so it is paused and "
                "what comes for it is held. Is what it needs working again?"
            ),
            error=row.error,
            handler=name,
        )
        await self._put_question(question)
        log.error("%s: paused; see `fencepost questions show %s`", name, question.id)
        return question.id

    async def _hold(self, work: Work) -> None:
        subject = held_subject(self._subjects, work)
        await self._store(Message(subject, msgspec.json.encode(work.carrier)))

    async def _ask_seam(self, work: Work, now_ms: int) -> None:
        event = work.event
        seam = seam_question_id(event.source, event.generation)
        if seam in self._seams_asked:
            return
        record = await self._rulings.record(event.source, event.generation)
        question = Question(
            id=seam,
            kind=QuestionKind.SEAM,
            source=event.source,
            generation=event.generation,
            standing=event.standing,
            asked_ms=now_ms,
            text=_seam_text(event, record),
            reasons=record.verdict.reasons if record is not None else (),
            facts=record.verdict.facts if record is not None else (),
            gap=record.gap if record is not None else None,
            event=work.carrier,
        )
        if len(msgspec.json.encode(question)) + HEADER_ROOM > self._connection.payload_bytes_max:
            # The question matters more than the first event that it is about.
            question = msgspec.structs.replace(question, event=None)
        await self._put_question(question)
        self._seams_asked.add(seam)
        log.warning("%s: events are held; see `fencepost questions show %s`", event.source, seam)

    async def _ask_row(self, kind: QuestionKind, work: Work, row: Row, now_ms: int) -> None:
        event = work.event
        doubt = kind is QuestionKind.DOUBT
        await self._put_question(
            Question(
                id=row_question_id(kind, work.row_subject, row.attempt),
                kind=kind,
                source=event.source,
                generation=event.generation,
                standing=event.standing,
                asked_ms=now_ms,
                text=(
                    f"attempt {row.attempt} of {row.handler} was started and nobody knows whether "
                    "its effect happened. Did it?"
                    if doubt
                    else f"an event of {event.size} bytes for {row.handler} could not be carried "
                    f"({row.error}). Was it dealt with otherwise?"
                ),
                event=work.carrier,
                row=work.row_subject,
                key=work.key.text,
                attempt=row.attempt,
                effect=row.effect,
                error=row.error,
                retry_from_ms=row.quarantine_until_ms if doubt else 0,
            )
        )

    async def _ask_gap(self, work: Work, row: Row, now_ms: int) -> None:
        """Ask about a gap that its reconciler could not fill."""
        event = work.event
        gap = work.payload
        assert isinstance(gap, Gap)
        await self._put_question(
            Question(
                id=row_question_id(QuestionKind.GAP, work.row_subject, row.attempt),
                kind=QuestionKind.GAP,
                source=event.source,
                generation=event.generation,
                standing=event.standing,
                asked_ms=now_ms,
                text=(
                    f"{row.handler} could not fill the gap of {event.source} behind "
                    f"{gap.after_position or 'nothing'} of {gap.after_generation} {_end_of(gap)}. "
                    "Was what it hides dealt with otherwise?"
                ),
                gap=gap,
                event=work.carrier,
                row=work.row_subject,
                key=work.key.text,
                attempt=row.attempt,
                effect=row.effect,
                error=row.error,
                handler=row.handler,
            )
        )
        log.error(
            "%s: a gap of %s is open: see `fencepost questions ls`", row.handler, event.source
        )

    async def _put_question(self, question: Question) -> None:
        """Store a question unless it stands already."""
        subject = self._subjects.question(question.source, question.id)
        message = Message(subject, msgspec.json.encode(question), expect=0)
        reply = await store_decided(self._connection, message)
        if isinstance(reply, NotStored) and not reply.conflict:
            raise NotFine(f"a question cannot be stored: {reply.text} ({reply.error})")

    async def _park(self, work: Work, row: Row) -> None:
        """Keep the event among the retries until its row is due."""
        subject = self._subjects.retry(self._app, work.handler.name, lane_of(row.key))
        parked = Parked(row.due_ms, work.carrier)
        await self._store(Message(subject, msgspec.json.encode(parked)))

    async def _bury(self, work: Work, row: Row, trace: str) -> None:
        headers = {
            **work.carrier.headers,
            "fencepost-error": _one_line(row.error),
            "fencepost-attempts": str(row.attempt),
            "fencepost-row": work.row_subject,
            "fencepost-app": self._app,
        }
        payload = work.carrier.payload
        told = {**headers, "fencepost-traceback": quote(trace, safe=" ", errors="replace")}
        size = len(payload) + sum(len(name) + len(value) + 8 for name, value in told.items())
        if trace and size + HEADER_ROOM <= self._connection.payload_bytes_max:
            headers = told
        await self._store(Message(self._subjects.dead(work.handler.name), payload, headers))

    async def _store(self, message: Message) -> None:
        reply = await self._connection.store(message)
        if isinstance(reply, NotStored):
            raise NotFine(f"{message.subject} is not taken: {reply.text} ({reply.error})")


def _end_of(gap: Gap) -> str:
    if not gap.has_end:
        return "as far as it was known then; the whole of it is called for once its end is known"
    return f"and before {gap.before_position or 'nothing'} of {gap.before_generation}"


def _seam_text(event: ClassifiedEvent, record: EpochRecord | None) -> str:
    if is_app_source(event.source):
        return (
            f"{event.source} emitted events without the key that their handlers apply them by. "
            "What shall be done with them?"
        )
    came_back = f"{event.source} came back as generation {event.generation}"
    if record is not None and record.verdict.kind is Standing.REORIGINATED:
        return (
            f"{came_back}, which is proven not to go on where it broke off. What came before was "
            "in doubt, or events have no key to tell what was done. What shall be done with it?"
        )
    return f"{came_back}, and nothing proves that it goes on where it broke off. What is it?"


def held_subject(subjects: Subjects, work: Work) -> str:
    """Return where this work's event is held: under its seam, by its row."""
    seam = seam_question_id(work.event.source, work.event.generation)
    return subjects.held(work.event.source, seam, work.row_subject.rsplit(".", 1)[1])


def _one_line(text: str) -> str:
    """Return the text fit for a header: printable ASCII, one line."""
    return "".join(char if " " <= char <= "~" else "?" for char in text)
