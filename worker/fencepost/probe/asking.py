"""The questions of a probe, in order: first rightly, then wrongly."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec

from fencepost.errors import Unreachable, UsageError
from fencepost.ports import Door, World
from fencepost.probe.bounds import EVENTS_WANTED, BoundedTransport, Bounds
from fencepost.probe.recording import Recording
from fencepost_policies.dialects.dialect import Dialect
from fencepost_policies.probe.answers import Answer, Ending, Question
from fencepost_policies.probe.ids import from_the_future, never_given, shape_of
from fencepost_policies.probe.rehearsal import cursor_behind
from fencepost_policies.probe.signals import acknowledged, noise
from fencepost_policies.reply import read_reply
from fencepost_schemas.sse import Frame

Say = Callable[[str], None]
CONFLICT = 409
BEGINNING_ID = "0"


class Asking:
    """Asks one server. What was recorded is `answers()`; what was not asked, `not_asked`."""

    def __init__(
        self,
        door: Door,
        speech: Dialect,
        transport: BoundedTransport,
        world: World,
        bounds: Bounds,
        say: Say,
    ) -> None:
        self.not_asked: list[Question] = []
        self._door = door
        self._speech = speech
        self._transport = transport
        self._world = world
        self._bounds = bounds
        self._say = say
        self._recordings: list[Recording] = []

    def answers(self) -> list[Answer]:
        return [recording.answer() for recording in self._recordings]

    async def close(self) -> None:
        for recording in self._recordings:
            await recording.close()

    # --- what both kinds of server are asked
    async def listen(self) -> Recording:
        """Open the first connection and wait for its head; raise Unreachable without one."""
        listening = self._open(Question.LISTEN, "")
        await listening.until(lambda answer: bool(answer.status), self._transport.left_s)
        answer = listening.answer()
        if listening.spent:
            raise UsageError("so few requests do not make a session: raise --requests")
        if answer.ending is Ending.NEVER:
            why = answer.failure or "sent no response headers in time"
            raise Unreachable(f"the server {why}: is the url right, and does it run?")
        return listening

    def had(self) -> tuple[Frame, ...]:
        """Return the events that have come before any position was asked for."""
        answers = self.answers()
        events = acknowledged(answers, noise(answers))
        return tuple(frame for frame in events if self._speech.counts(frame))

    async def wait_for_events(self, listening: Recording) -> None:
        """Wait until there are enough events to resume from, or for as long as was said."""
        wait_s = min(self._bounds.wait_s, self._transport.left_s)
        self._say(f"waiting up to {wait_s:g} s for {EVENTS_WANTED} events")
        if await listening.until(lambda answer: len(self.had()) >= EVENTS_WANTED, wait_s):
            await listening.until_quiet(self._bounds.quiet_s, self._transport.answer_s)

    async def wait_for_live(self, listening: Recording) -> None:
        """Wait for one more event: it says which connections are attached to what is live.

        Where none has come since the break, none is waited for: this server is quiet.
        """
        count = len(listening.answer().events)
        if count <= len(self.had()):
            return
        limit_s = self._transport.answer_s
        if await listening.until(lambda answer: len(answer.events) > count, limit_s):
            await listening.until_quiet(self._bounds.quiet_s, self._transport.answer_s)

    def wrong_positions(self, events: Sequence[Frame]) -> list[tuple[Question, str]]:
        """Return ids that the server cannot know, of the shape of those that it gave."""
        ids = [frame.last_event_id for frame in events if frame.id_seen]
        if not ids:
            return []
        shape = shape_of(ids)
        bogus = never_given(ids[-1], shape, self._world.random_name(12))
        future = from_the_future(ids[-1], shape)
        found = [(Question.BOGUS, bogus), (Question.FUTURE, future)]
        return [(question, asked) for question, asked in found if asked and asked not in ids]

    # --- one question
    async def ask(
        self, question: Question, asked: str, door: Door | None = None
    ) -> Recording | None:
        """Ask, and return the answer once it is over or long enough; None past the bounds."""
        if self._transport.spent:
            self.not_asked.append(question)
            return None
        recording = self._open(question, asked, door)
        await recording.until_quiet(self._bounds.quiet_s, self._transport.answer_s)
        if recording.spent:
            self._recordings.remove(recording)
            self.not_asked.append(question)
            return None
        return recording

    @asynccontextmanager
    async def letting_go(
        self, question: Question, asked: str, door: Door | None = None
    ) -> AsyncIterator[Recording | None]:
        """Ask, and let the connection go at the end: for servers with one stream a session.

        One that has not noticed yet that the last stream is gone is asked once more, a little
        later; a second stream beside the first is meant to be refused.
        """
        recording = await self.ask(question, asked, door)
        busy = recording is not None and recording.answer().status == CONFLICT
        if recording is not None and busy and question is not Question.AGAIN:
            await recording.close()
            self._recordings.remove(recording)
            await asyncio.sleep(min(self._bounds.answer_s, self._transport.left_s))
            recording = await self.ask(question, asked, door)
        try:
            yield recording
        finally:
            if recording is not None:
                await recording.close()

    def _open(self, question: Question, asked: str, door: Door | None = None) -> Recording:
        count, most = self._transport.requests + 1, self._bounds.requests
        self._say(f"request {count} of at most {most}: {question.meaning}")
        fresh = question is Question.LISTEN
        cursor = msgspec.structs.replace(cursor_behind((), ""), fresh=fresh)
        through = door or self._door
        recording = Recording(
            question,
            asked,
            lambda: through.open(cursor, asked),
            clock=lambda: self._transport.took_s,
            sent_s=lambda: self._transport.sent_s,
        )
        self._recordings.append(recording)
        return recording


def refusal(answer: Answer) -> str:
    """Return why this is no stream, "" where it is one."""
    return read_reply(answer.status, answer.headers, asked=False, reset=False).text
