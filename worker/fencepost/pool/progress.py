"""How far this app has come in its streams, written down where a deleted consumer does not lose it.

Events have an age, and what no worker took in time is gone. So each worker looks now and then
whether something is gone that its app had not dealt with, asks one question about it, and warns
before that happens. What the broker's consumer knows is not enough for that, nor to begin a
consumer again that somebody deleted.
"""

import asyncio
import contextlib
import logging

import msgspec

from fencepost.clock import iso_time
from fencepost.errors import Denied, FencepostError, NotFine, Unreachable, Unreadable
from fencepost.ports import Broker, Message, NotStored
from fencepost.records import read_record
from fencepost.storing import store_decided
from fencepost_policies.progress import Look, Loss, loss_in, may_be_too_old, moved_on, reached
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.progress import Progress, Published
from fencepost_schemas.question import Question, QuestionKind, loss_question_id
from fencepost_schemas.standing import Standing
from fencepost_schemas.subject import EVENTS, QUESTIONS, SOURCES, Subjects, app_source

log = logging.getLogger("fencepost.pool")

LOOK_S = 60.0
LAST_LOOK_S = 0.5
WARN_EACH_S = 3600.0
OLD_PART = 0.5
"""An event that has waited for this part of its age is told of: there is time left to act."""


class Track:
    """One consumer of an app, and how far it has come."""

    def __init__(
        self,
        app: str,
        feed: str,
        consumer: str,
        taken: str,
        connection: Broker,
        subjects: Subjects,
    ) -> None:
        self.app = app
        self.feed = feed
        self._consumer = consumer
        self._taken = taken
        self._connection = connection
        self._subjects = subjects
        self._subject = subjects.progress(app, feed)
        self._last_before = 0
        """The stream's last sequence at the look before: what came since may not be counted yet."""
        self._warn_at_ms = 0

    async def begin(self, *, from_now: bool) -> int:
        """Return the sequence behind which a consumer that is made now has to begin.

        Where it begins now, that is written down first: it must not begin later another time.
        """
        known, _ = await self._known()
        state = await self._connection.stream_state(EVENTS)
        if known is not None:
            # A stream that was made again holds nothing from before it was.
            return known.sequence if known.made == state.made else 0
        if not from_now:
            return 0
        now = Progress(self.app, self.feed, state.made, state.last, state.now_ms)
        if not await self._write(now, 0):
            return await self.begin(from_now=from_now)  # another worker was first
        return state.last

    async def look(self) -> None:
        """Ask about what is gone and was never dealt with, and write down how far the app is."""
        known, revision = await self._known()
        look = await self._look(known)
        if look is None:
            return
        loss = loss_in(known, look)
        if loss is not None:
            await self._ask(loss, look)
        self._warn(look)
        await self._write(moved_on(known, look, self.app, self.feed), revision)

    async def _look(self, known: Progress | None) -> Look | None:
        # First of all: what is published later must not count as if it had been dealt with.
        published = await self._published()
        before, state = self._last_before, await self._connection.stream_state(EVENTS)
        consumer = await self._connection.consumer_state(EVENTS, self._consumer)
        self._last_before = state.last
        if consumer is None:
            return None  # somebody deleted it; whoever makes it again begins where we are
        look = Look(
            made=state.made,
            last=before,
            floor=consumer.floor,
            idle=consumer.idle and before > 0,
            now_ms=state.now_ms,
            age_ms=state.age_ms,
        )
        behind = reached(known, look)
        stood = await self._connection.first_behind(EVENTS, self._taken, behind)
        if stood is not None:
            look = msgspec.structs.replace(
                look, waiting=stood.sequence, waiting_since_ms=stood.stored_ms
            )
        left = {
            source: await self._connection.count(
                EVENTS, self._subjects.events_in(source, one.generation)
            )
            for source, one in published.items()
            if known is not None and may_be_too_old(known, look)
        }
        return msgspec.structs.replace(look, published=published, left=left)

    async def _published(self) -> dict[str, Published]:
        """Return how far each source has come by its own cursor."""
        found = {}
        for subject in await self._connection.subjects(EVENTS, self._subjects.cursors()):
            stored = await self._connection.last(EVENTS, subject)
            if stored is None:
                continue
            try:
                cursor = read_record(stored, Cursor)
            except Unreadable:
                continue  # its source's events are not counted
            found[cursor.source] = Published(cursor.generation, cursor.published)
        return found

    async def _ask(self, loss: Loss, look: Look) -> None:
        question = Question(
            id=loss_question_id(self.app, self.feed, look.made, loss.after, loss.before),
            kind=QuestionKind.LOSS,
            source=app_source(self.app),
            generation="",
            standing=Standing.UNVERIFIABLE,
            asked_ms=look.now_ms,
            text=_text(self.app, loss, look),
        )
        subject = self._subjects.question(question.source, question.id)
        reply = await store_decided(
            self._connection, Message(subject, msgspec.json.encode(question), expect=0)
        )
        if isinstance(reply, NotStored):
            if reply.conflict:
                return  # another worker has asked
            raise NotFine(f"a question cannot be stored in {QUESTIONS}: {reply.text}")
        log.error("%s See `fencepost questions show %s`", question.text, question.id)

    def _warn(self, look: Look) -> None:
        waits_ms = look.now_ms - look.waiting_since_ms
        if not look.waiting or not look.age_ms or waits_ms < OLD_PART * look.age_ms:
            return
        if look.now_ms >= self._warn_at_ms:
            self._warn_at_ms = look.now_ms + int(WARN_EACH_S * 1000)
            log.warning(
                "%s: an event waits since %s and is removed unseen at %s (broker.events_age_s): "
                "see what holds the app up, or raise the age and run `fencepost init`",
                self.app,
                iso_time(look.waiting_since_ms),
                iso_time(look.waiting_since_ms + look.age_ms),
            )

    # --- the record
    async def _known(self) -> tuple[Progress | None, int]:
        stored = await self._connection.last(SOURCES, self._subject)
        if stored is None:
            return None, 0
        try:
            return msgspec.json.decode(stored.payload, type=Progress), stored.sequence
        except msgspec.DecodeError as error:
            log.warning("%s: not a record that this release knows: %s", self._subject, error)
            return None, stored.sequence

    async def _write(self, progress: Progress, revision: int) -> bool:
        """Return True if it stands, False where another worker was faster."""
        message = Message(self._subject, msgspec.json.encode(progress), expect=revision)
        reply = await store_decided(self._connection, message)
        if isinstance(reply, NotStored) and not reply.conflict:
            raise Unreachable(f"progress is not taken: {reply.text} ({reply.error})")
        return not isinstance(reply, NotStored)


async def look_once_more(tracks: list[Track]) -> None:
    """Write down how far the app is at a worker's end, if the broker answers soon."""
    with contextlib.suppress(FencepostError, TimeoutError):
        async with asyncio.timeout(LAST_LOOK_S):
            for track in tracks:
                await track.look()


async def keep_track(tracks: list[Track]) -> None:
    """Look now and then, for ever; a broker that is away is asked again later."""
    while True:
        for track in tracks:
            try:
                await track.look()
            except Denied as error:
                log.warning("%s; what is removed unseen would not be noticed", error)
            except Unreachable as error:
                log.warning("%s: %s; looked at again later", track.app, error)
        await asyncio.sleep(LOOK_S)


def _text(app: str, loss: Loss, look: Look) -> str:
    if loss.other_stream:
        return (
            f"the stream of events was made again, so what {app} had not dealt with by "
            f"{iso_time(loss.since_ms)} is gone, and nobody can tell how many events that were."
        )
    if loss.counts:
        counts = ", ".join(f"{count} of {name}" for name, count in sorted(loss.counts.items()))
        counted = counts if loss.whole else f"at least {counts}"
    else:
        counted = f"1 to {loss.before - loss.after - 1}"
    return (
        f"events that {app} may not have dealt with are gone: {counted}, stored between "
        f"{iso_time(loss.since_ms)} and {iso_time(max(loss.since_ms, look.now_ms - look.age_ms))}. "
        "They grew too old for the stream (broker.events_age_s)."
    )
