"""A handler that gets into doubt again and again is paused, and one question asked about it.

What comes for it meanwhile is held under that question, and brought to its rows by the answer. The
question is the pause: while it is open every worker of the app holds, once it has seen it.
"""

import asyncio
import logging
from collections import Counter

import msgspec

from fencepost.errors import Unreachable
from fencepost.pool.ask import Desk
from fencepost.pool.case import Done
from fencepost.pool.drive import Driver
from fencepost.pool.rulings import Rulings
from fencepost.pool.seams import Seams
from fencepost.pool.work import Work
from fencepost.ports import Broker
from fencepost_policies.plan import Settlement
from fencepost_schemas.limits import DOUBTS_IN_A_ROW_MAX
from fencepost_schemas.question import Held, Question, QuestionKind
from fencepost_schemas.row import Row, State
from fencepost_schemas.subject import ANSWERS, QUESTIONS, Subjects, app_source

log = logging.getLogger("fencepost.pool")

LOOK_S = 5.0
"""Until another worker's pause, or an answer to it, is seen here."""


class Pauses:
    def __init__(
        self,
        app: str,
        connection: Broker,
        subjects: Subjects,
        rulings: Rulings,
        driver: Driver,
        seams: Seams,
        desk: Desk,
    ) -> None:
        self._source = app_source(app)
        self._connection = connection
        self._subjects = subjects
        self._rulings = rulings
        self._driver = driver
        self._seams = seams
        self._desk = desk
        self._open: dict[str, str] = {}
        """The open question of each paused handler."""
        self._in_a_row: Counter[str] = Counter()

    async def watch(self) -> None:
        """See what other workers and people did, now and then, for ever."""
        while True:
            try:
                await self.look()
            except Unreachable as error:
                log.warning("pauses: %s; looking again later", error)
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Read which pauses are open."""
        asked = await self._connection.subjects(
            QUESTIONS, self._subjects.questions_of(self._source)
        )
        found: dict[str, str] = {}
        for subject in asked:
            question = await self._question(subject)
            if question is not None and not await self._answered(question.id):
                found[question.handler] = question.id
        for handler in self._open.keys() - found.keys():
            log.info("%s: goes on", handler)
        self._open = found

    def is_paused(self, handler: str) -> bool:
        return handler in self._open

    async def arrived(self, work: Work) -> Done | None:
        """Hold an event whose handler is paused; return None where it is not.

        An answer may have come between our last look and the event's safe place at the desk, and
        whoever carried it out may not have seen this event. So the look is repeated.
        """
        question = self._open.get(work.handler.name)
        if question is None:
            return None
        await self._desk.hold_under(self._source, question, work)
        if not await self._answered(question):
            return Done(Settlement.ACK)
        self._open.pop(work.handler.name, None)
        place = self._desk.place_under(self._source, question, work)
        return await self.carry_out(place, work.carrier, work.reply)

    def count(self, work: Work, done: Done) -> bool:
        """Count doubts in a row; return True for the last one that is taken."""
        name = work.handler.name
        if done.row is None or not done.written:
            return False
        if done.row.state is not State.IN_DOUBT:
            self._in_a_row[name] = 0
            return False
        self._in_a_row[name] += 1
        if self._in_a_row[name] < DOUBTS_IN_A_ROW_MAX or name in self._open:
            return False
        self._in_a_row[name] = 0
        return True

    async def pause(self, work: Work, doubtful: Row) -> None:
        """Pause the handler of this work, and ask about it."""
        self._open[work.handler.name] = await self._desk.ask_pause(
            self._source, work, doubtful, doubtful.changed_ms
        )

    async def carry_out(self, subject: str, held: Held, reply: str) -> Done:
        """Bring an event that was held under a pause to its row, and release it."""
        work = await self._seams.work_of(held, reply)
        if isinstance(work, Done):
            return work
        ruled = await self._rulings.of(work.event)
        done = await self._driver.arrived(work, ruled)
        if done.settlement is Settlement.ACK:
            await self._desk.release(subject, held)
        return done

    async def _question(self, subject: str) -> Question | None:
        stored = await self._connection.last(QUESTIONS, subject)
        if stored is None:
            return None
        try:
            question = msgspec.json.decode(stored.payload, type=Question)
        except msgspec.DecodeError as error:
            log.warning("%s: not a question that this release knows: %s", subject, error)
            return None
        return question if question.kind is QuestionKind.PAUSE else None

    async def _answered(self, question: str) -> bool:
        return await self._connection.last(ANSWERS, self._subjects.answer(question)) is not None
