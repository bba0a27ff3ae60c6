"""The dead: events that could not be applied, with why, as they lie in their stream."""

from urllib.parse import unquote

import msgspec

from fencepost.clock import RealWorld
from fencepost.desk.audit import Audit, checked_actor
from fencepost.desk.book import Book
from fencepost.desk.rows import RowEntry, entry_of
from fencepost.desk.sweep import Keeper, Told, asked, nobody, sweep
from fencepost.errors import NotFine, UsageError
from fencepost.ports import StoredMessage, World
from fencepost_schemas.event import BadEvent, ClassifiedEvent, event_of, fingerprint_of
from fencepost_schemas.question import Answer, QuestionKind, Ruling, row_question_id
from fencepost_schemas.row import Row, State
from fencepost_schemas.subject import DEAD, LEDGER, BadSubject, Subjects

OWN = "fencepost-"
_REAL = RealWorld()


class Letter(msgspec.Struct, frozen=True):
    """One dead letter: the event as it travelled, and what the pool wrote on it.

    Source, position, type and key are "" where headers and bytes do not make an event.
    """

    sequence: int
    handler: str
    app: str
    reason: str
    attempts: str
    row: str
    source: str
    position: str
    type: str
    key: str
    headers: dict[str, str]
    payload: bytes
    traceback: str


class LetterPage(msgspec.Struct, frozen=True):
    """Some dead letters, oldest first; `next` is what the next page comes after."""

    letters: list[Letter]
    next: int | None


class LetterReport(msgspec.Struct, frozen=True):
    """A dead letter, and the ledger row that it is about, where there is one."""

    letter: Letter
    row: RowEntry | None


def letter_of(stored: StoredMessage) -> Letter:
    headers = {name: value for name, value in stored.headers.items() if not name.startswith(OWN)}
    own = stored.headers
    event = _event_in(stored)
    return Letter(
        sequence=stored.sequence,
        handler=stored.subject.rsplit(".", 1)[1],
        app=own.get("fencepost-app", ""),
        reason=own.get("fencepost-error", ""),
        attempts=own.get("fencepost-attempts", ""),
        row=own.get("fencepost-row", ""),
        source=event.source if event is not None else "",
        position=_sayable(event.position) if event is not None else "",
        type=_sayable(event.type) if event is not None else "",
        key=_sayable(event.key or "") if event is not None else "",
        headers=headers,
        payload=stored.payload,
        traceback=unquote(own.get("fencepost-traceback", "")),
    )


def _is_about(letter: Letter, row: Row) -> bool:
    """Return True if this letter holds the event that the row was rejected for."""
    same = fingerprint_of(letter.payload) == row.fingerprint
    return same and letter.attempts == str(row.attempt)


def _event_in(stored: StoredMessage) -> ClassifiedEvent | None:
    try:
        return event_of(stored.headers, stored.payload)
    except BadEvent:
        return None


def _sayable(text: str) -> str:
    """Return the text without the halves of characters that no encoding takes."""
    return text.encode("utf-8", "replace").decode()


class Graves:
    def __init__(self, connection: Keeper, subjects: Subjects, world: World = _REAL) -> None:
        self._connection = connection
        self._subjects = subjects
        self._world = world

    async def page(
        self,
        *,
        handler: str | None = None,
        reason: str = "",
        limit: int = 50,
        after: int = 0,
        told: Told = nobody,
    ) -> LetterPage:
        """Return the dead letters of a handler whose reason has this text in it."""
        try:
            filtered = self._subjects.dead_of(handler)
        except BadSubject as error:
            raise UsageError(str(error)) from None
        letters: list[Letter] = []
        async for stored in sweep(self._connection, DEAD, filtered, after, told):
            if len(letters) == limit:
                return LetterPage(letters, letters[-1].sequence)
            letter = letter_of(stored)
            if reason.casefold() in letter.reason.casefold():
                letters.append(letter)
        return LetterPage(letters, None)

    async def letter(self, sequence: int) -> Letter:
        """Return one dead letter; raise NotFine where it is not there."""
        async for stored in self._connection.scan(DEAD, self._subjects.dead_of(), sequence):
            if stored.sequence == sequence:
                return letter_of(stored)
            break
        raise NotFine(f"there is no dead letter {sequence}: see `fencepost dead ls`")

    async def report(self, sequence: int) -> LetterReport:
        """Return one dead letter with the row that it is about."""
        letter = await self.letter(sequence)
        try:
            subject = self._subjects.checked_row(letter.row)
        except BadSubject:
            return LetterReport(letter, None)
        stored = await self._connection.last(LEDGER, subject)
        return LetterReport(letter, entry_of(stored) if stored is not None else None)

    async def replay(self, letter: Letter, actor: str) -> Answer:
        """Have a dead letter tried once more: an answer that names the letter, and no question.

        Raises NotFine where its row is not the one that was rejected, or has moved on.
        """
        checked_actor(actor)
        report = await self.report(letter.sequence)
        row = report.row.row if report.row is not None else None
        if report.row is None or row is None:
            raise NotFine(f"dead letter {letter.sequence} names no row that could be tried again")
        if row.state is not State.REJECTED or not _is_about(letter, row):
            raise NotFine(
                f"dead letter {letter.sequence}: its row is {row.state}, and not what was rejected "
                "in this letter; a conflict or a row that went on cannot be tried again"
            )
        return await Book(self._connection, self._subjects, self._world).store(
            Answer(
                question=row_question_id(QuestionKind.REJECTION, report.row.subject, row.attempt),
                source=letter.source or row.source,
                kind=QuestionKind.REJECTION,
                ruling=Ruling.RETRY,
                actor=actor,
                at_ms=self._world.wall_ms(),
                note=f"dead letter {letter.sequence}",
                letter=letter.sequence,
            )
        )

    async def drop(self, letter: Letter, actor: str) -> None:
        """Remove one dead letter for good; its ledger row stays what it is."""
        checked_actor(actor)
        request = {"seq": letter.sequence, "no_erase": True}
        await asked(self._connection, f"STREAM.MSG.DELETE.{DEAD}", DEAD, request)
        audit = Audit(self._connection, self._subjects, self._world)
        detail = f"{letter.source} {letter.position}: {letter.reason}"
        subject = f"{self._subjects.dead(letter.handler)} {letter.sequence}"
        await audit.record(actor, "dropped a dead letter", subject, detail)
