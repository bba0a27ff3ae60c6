"""Rows that nobody works on because their handler is paused, and the question that they wait for.

The event of such a row was acked when it was put under the pause, and the answer brings it back.
Until then the row stands as its last worker left it, and no worker owes anything about it.
"""

from collections.abc import Mapping, Sequence

import msgspec

from fencepost.ports import Broker
from fencepost_schemas.question import Question, QuestionKind
from fencepost_schemas.row import Row, State
from fencepost_schemas.subject import (
    ANSWERS,
    LEDGER,
    QUESTIONS,
    Subjects,
    held_place,
    is_app_source,
)

WORKED_ON = (State.CLAIMED, State.STARTED, State.RETRY_WAIT)


class Pause(msgspec.Struct, frozen=True):
    """An open pause of a handler, and the places of the events that are held under it."""

    question: str
    places: frozenset[str]


class Pauses:
    """What is paused, by handler; two apps may have handlers of one name."""

    def __init__(self, by_handler: Mapping[str, Sequence[Pause]], now_ms: int) -> None:
        self._by_handler = by_handler
        self._now_ms = now_ms

    def question_of(self, subject: str, row: Row) -> str:
        """Return the id of the question that this row waits for, "" where it waits for none."""
        if row.state not in WORKED_ON or self._now_ms < row.lease_until_ms:
            return ""
        place = held_place(subject, row.generation, row.position)
        for pause in self._by_handler.get(row.handler, ()):
            if place in pause.places:
                return pause.question
        return ""


async def open_pauses(connection: Broker, subjects: Subjects) -> Pauses:
    """Read which handlers are paused, and what is held for each."""
    asked = await connection.subjects(QUESTIONS, subjects.questions_of())
    apps = [subject for subject in asked if is_app_source(subject.split(".")[2])]
    by_handler: dict[str, list[Pause]] = {}
    if apps:
        answers = await connection.subjects(ANSWERS, subjects.answers())
        answered = {subject.rsplit(".", 1)[1] for subject in answers}
        for subject in apps:
            question = await _question(connection, subject)
            if question is None or question.id in answered:
                continue
            under = subjects.held_under(question.source, question.id)
            held = await connection.subjects(QUESTIONS, under)
            places = frozenset(one.rsplit(".", 1)[1] for one in held)
            by_handler.setdefault(question.handler, []).append(Pause(question.id, places))
    return Pauses(by_handler, await connection.clock_ms(LEDGER))


async def _question(connection: Broker, subject: str) -> Question | None:
    stored = await connection.last(QUESTIONS, subject)
    if stored is None:
        return None
    try:
        question = msgspec.json.decode(stored.payload, type=Question)
    except msgspec.DecodeError:
        return None  # of another release, whose command knows it
    return question if question.kind is QuestionKind.PAUSE else None
