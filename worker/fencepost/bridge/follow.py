"""Follow one source, connection after connection.

Nothing of a connection is published before it is judged; what it brings until then is held. Where
the source does not prove continuity by itself, the connection resumes from further back and wants
what we had given back (the overlap probe), twice if need be, and audits the join where that is
known to lose. A connection that broke before its verdict leaves no trace: the next one asks with
the same cursor.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from enum import StrEnum

import msgspec
from opentelemetry import trace

from fencepost.bridge.approach import Approach, TurnedAway
from fencepost.bridge.attempt import Attempt, Heard
from fencepost.bridge.early import Early
from fencepost.bridge.faults import stack_of, told_of
from fencepost.bridge.lineage import Lineage
from fencepost.bridge.renewal import Renewal
from fencepost.bridge.shelf import Shelf, nothing_reached
from fencepost.bridge.strikes import Strikes
from fencepost.errors import Denied, FencepostError, SourceStopped, Unreachable, first_of
from fencepost.ports import Door, SourceUnreachable, World
from fencepost.settings import Bridge, Source
from fencepost.telemetry import CONNECT, tracer
from fencepost_policies.judge import judge
from fencepost_policies.overlap import Ask
from fencepost_policies.renewal import Due, Watch
from fencepost_policies.reply import Reply
from fencepost_policies.retry import asked_bounds, wait_bounds
from fencepost_policies.witness import Hearing
from fencepost_schemas.evidence import Evidence
from fencepost_schemas.limits import SILENT_PROBES_MAX
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Frame, SseLimitExceeded
from fencepost_schemas.standing import Standing

log = logging.getLogger("fencepost.bridge")

FRAMES_AT_A_TIME = 50
"""Taken from what was read ahead before anything else has its turn."""


class Ending(StrEnum):
    """How a connection came to its end."""

    CLOSED = "closed"
    REFUSED = "refused"
    """Our position was refused: ask at once without one, and judge both together."""
    SILENT = "silent"
    """Owed events did not come in time: probe again, a few times."""
    BUSY = "busy"
    RENEWED = "renewed"
    """We ended it ourselves, to resume it at once."""


class Follower:
    """Follows one source with one cursor. `run` it once."""

    def __init__(
        self,
        name: str,
        source: Source,
        door: Door,
        shelf: Shelf,
        settings: Bridge,
        world: World,
        *,
        owner: str,
        idle_touch_s: float,
        reached: Callable[[str], None] = nothing_reached,
    ) -> None:
        self.name = name
        self.source = source
        self._door = door
        self._settings = settings
        self._world = world
        self._idle_touch_s = idle_touch_s
        self._reached = reached
        self._lineage = Lineage(name, source, shelf, world, owner, reached)
        self._approach = Approach(
            source, door, self._lineage, settings.overlap_s, settings.event_s, world, reached
        )
        self._early = Early(self._lineage)
        self._renewal = Renewal(self._approach, self._lineage, source, settings, world)
        self._tries = 0
        self._silences = 0
        self._strikes = Strikes(name, settings.strikes_max)
        self._retry_s = 0.0
        self._wait_s = 0.0
        self._refused: Hearing | None = None
        """The hearing of a connection whose position was refused, to be judged with the next."""

    async def run(self) -> None:
        """Follow until cancelled; raise SourceStopped or Fenced where it cannot go on."""
        await self._lineage.take_over()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._lineage.outbox.run())
                group.create_task(self._touch_while_idle())
                await self._connect_for_ever()
        except BaseExceptionGroup as together:
            raise first_of(together) from None
        finally:
            self._early.drop()

    async def _connect_for_ever(self) -> None:
        while True:
            await self._lineage.outbox.drained()
            self._approach.opened_s = None
            before = self._lineage.progress
            ending = await self._connect_once()
            after = self._lineage.progress
            if after != before:
                self._silences = 0
            if ending in (Ending.REFUSED, Ending.RENEWED):
                continue
            # A server that begins afresh each time brings events each time, the same ones: only a
            # lineage that goes on is health.
            went_on = after[0] == before[0] and after != before
            if went_on or self._approach.lasted_s() >= self._settings.healthy_s:
                self._tries = 0
            await self._wait()

    async def _connect_once(self) -> Ending:
        """Connect, and say how it ended; raise only what stops the source for good."""
        refused, self._refused = self._refused, None
        try:
            return await self._connect(refused)
        except TurnedAway as away:
            return self._turn_away(away)
        except SourceUnreachable as error:
            log.warning("%s: the source %s", self.name, error)
            self._wait_s = error.wait_s
        except Denied:
            raise
        except Unreachable as error:
            log.warning("%s: %s; trying again", self.name, error)
        except SourceStopped:
            self._early.tell()
            await self._lineage.outbox.drained()
            raise
        except FencepostError:
            raise
        except Exception as fault:  # the user's dialect or our own; the other sources go on
            log.debug("%s: %s", self.name, stack_of(fault))
            self._early.tell()
            await self._lineage.outbox.drained()
            raise SourceStopped(f"{self.name}: {told_of(fault, self.source.speech)}") from None
        return Ending.BUSY

    async def _wait(self) -> None:
        """Wait before the next connection, longer after each one that brought nothing."""
        self._tries += 1
        longest_s = self._settings.retry_longest_s
        own = wait_bounds(self._tries, first_s=self._settings.retry_first_s, longest_s=longest_s)
        bounds = asked_bounds(own, retry_s=self._retry_s, after_s=self._wait_s, longest_s=longest_s)
        self._wait_s = 0.0
        await asyncio.sleep(self._world.draw_s(bounds))

    async def _touch_while_idle(self) -> None:
        """Rewrite the cursor of a quiet source, well before the stream's age drops it."""
        while True:
            revision = self._lineage.outbox.revision
            await asyncio.sleep(self._idle_touch_s)
            if self._lineage.outbox.revision == revision:
                await self._lineage.touch()

    # --- one connection
    async def _connect(self, refused: Hearing | None) -> Ending:
        """Open a connection, find out what it is, and read it to its end."""
        await self._lineage.look_for_ruling()
        cursor = self._lineage.cursor
        asks: tuple[Ask, ...] = ()
        if refused is None and not cursor.fresh and self._approach.in_session():
            published = await self._lineage.published_since_join()
            asks = self.source.speech.asks(cursor, published)
        given_up = self._silences >= SILENT_PROBES_MAX
        with tracer().start_as_current_span(
            f"connect {self.name}", kind=CONNECT, attributes={"fencepost.source": self.name}
        ):
            self._lineage.outbox.context = trace.set_span_in_context(trace.get_current_span())
            async with AsyncExitStack() as stack:
                probes = () if given_up else asks
                attempt, heard = await self._approach.probe(
                    stack, probes, refused, self._early.hear
                )
                if given_up and asks:
                    # Owed events were waited for often enough; this connection asked for nothing.
                    probe = self.source.speech.hearing(cursor, asks[0])
                    attempt.hearing.gave_up(probe.overlap.silence())
                if heard is Heard.ENDED:
                    heard = self._look_at_end(attempt)
                if heard is Heard.SILENT:
                    return self._was_silent()
                if heard is Heard.ENDED:
                    return Ending.CLOSED if self._refused is None else Ending.REFUSED
                await self._approach.audit(stack, attempt)
                verdict = judge(attempt.hearing.evidence())
                if verdict.kind is not Standing.RESUMED and not await self._approach.news(attempt):
                    # Only repeats came, and a generation begins with something new: until then the
                    # cursor that we have is worth more than an empty one.
                    self._remember_retry(attempt)
                    attempt.check()
                    self._stop_if_finished(attempt)
                    return Ending.CLOSED
                self._judge(attempt)
                return await self._go_on(attempt, stack.pop_all())

    def _look_at_end(self, attempt: Attempt) -> Heard:
        """Say what a connection amounts to that ended before it could be judged.

        One that broke leaves no trace. One that ended properly is judged on what it brought, if
        that is anything; an empty answer to our position is a reset where the dialect says so, and
        owed events that did not come are owed still.
        """
        self._remember_retry(attempt)
        try:
            attempt.check()
        except SseLimitExceeded as exceeded:
            self._strikes.strike(exceeded, self._lineage.progress)
            return Heard.ENDED
        if attempt.hearing.ended():
            self._refused = attempt.hearing
            return Heard.ENDED
        if not attempt.held:
            self._stop_if_finished(attempt)
        if attempt.hearing.overlap.owing:
            return Heard.SILENT
        return Heard.READY if attempt.held else Heard.ENDED

    def _stop_if_finished(self, attempt: Attempt) -> None:
        """Raise SourceStopped where the source has said that nothing will ever follow."""
        if attempt.finished:
            raise SourceStopped(f"{self.name}: the source has ended; nothing more will come of it")

    def _was_silent(self) -> Ending:
        self._silences += 1
        log.warning(
            "%s: the source did not give back what we had within %g s (%d of %d)",
            self.name,
            self._settings.overlap_s,
            self._silences,
            SILENT_PROBES_MAX,
        )
        return Ending.SILENT

    def _turn_away(self, away: TurnedAway) -> Ending:
        """Return how to go on without a stream; raise SourceStopped where somebody must act.

        A source that has spoken before in this process is asked again later: an error page during
        a deployment is no reason to stop for good.
        """
        reading = away.reading
        if reading.reply is Reply.REFUSED:
            log.warning("%s: %s; asking without one", self.name, reading.text)
            self._refused = away.hearing
            return Ending.REFUSED
        final = reading.reply is Reply.STOP or (
            reading.reply is Reply.MISTAKEN and not self._approach.spoke
        )
        if final:
            raise SourceStopped(f"{self.name}: the source {reading.text}")
        log.warning("%s: the source %s; trying again later", self.name, reading.text)
        self._wait_s = reading.wait_s
        return Ending.BUSY

    # --- after the verdict
    def _judge(self, attempt: Attempt) -> None:
        self._early.drop()
        hearing = attempt.hearing
        first = attempt.held[0].frame if attempt.held else None
        covered = hearing.overlap.covered
        if covered is not None and any(
            fact.reason is Reason.WINDOW_COVERS for fact in hearing.facts
        ):
            # The source itself says that it holds all behind the mark.
            covered = msgspec.structs.replace(covered, doubt="")
        if covered is None and hearing.overlapped and self._lineage.join_owes:
            hearing.uncovered()
        verdict = judge(hearing.evidence())
        self._lineage.turn(
            verdict, first, token=hearing.generation.token, asked=attempt.asked, covered=covered
        )
        self._renewal.judged(verdict.kind)
        if first is None and verdict.kind is Standing.REORIGINATED:
            # What we asked for is of the generation that ended: its first event is not behind it.
            attempt.hearing = self.source.speech.hearing(self._lineage.cursor)
        held, attempt.held = attempt.held, []
        late = covered.late if covered is not None and verdict.kind is Standing.RESUMED else 0
        self._lineage.pass_late([came.frame for came in held[:late]])
        for came in held[late:]:
            self._lineage.pass_on(came.frame)

    async def _go_on(self, attempt: Attempt, stack: AsyncExitStack) -> Ending:
        """Read a judged connection to its end, and each one that takes its place."""
        try:
            judged = self._lineage.progress
            watch = self._renewal.watch(_now_s())
            while due := await self._read_on(attempt, watch):
                if attempt.hearing.unsettled:
                    # It took something back and brought nothing since: there is nothing to keep.
                    return Ending.RENEWED
                asks, renewed = await self._renewal.asks(due), None
                if asks and self._door.session:
                    # A session has one stream, and a second request might take it away.
                    if self._renewal.has_proven:
                        return Ending.RENEWED
                elif asks:
                    renewed = await self._renewal.beside(attempt, asks, due)
                if renewed is None:
                    # From here on, or a resume that takes as long as an age leaves no time to read.
                    watch.looked(_now_s())
                    continue
                self._remember_retry(attempt)
                old, attempt, stack = stack, renewed.attempt, renewed.stack
                await old.aclose()
                if attempt.held or judged != self._lineage.progress:
                    self._judge(attempt)
                else:  # nothing has come since the last verdict, which stands
                    self._lineage.take_back()
                judged = self._lineage.progress
                watch = self._renewal.watch(_now_s())
            self._stop_if_finished(attempt)
        finally:
            self._approach.heard_s = attempt.heard_s
            self._remember_retry(attempt)
            self._remember_reset(attempt.hearing)
            await stack.aclose()
        return Ending.CLOSED

    async def _read_on(self, attempt: Attempt, watch: Watch) -> Due | None:
        """Pass on what comes, watched by the same witnesses.

        Return what has come due, None at the end of the connection.
        """
        lineage = self._lineage
        try:
            await lineage.outbox.room()
            while not attempt.over and (due := watch.due(_now_s())) is None:
                before = lineage.progress
                for number, frame in enumerate(await attempt.frames(watch.due_at_s), 1):
                    self._take(frame, attempt)
                    if number % FRAMES_AT_A_TIME == 0:
                        # What was read ahead is several batches. They go out meanwhile, and other
                        # sources have their turn.
                        await asyncio.sleep(0)
                        await lineage.outbox.room()
                if lineage.progress != before:
                    watch.heard(_now_s())
                await lineage.outbox.room()
            if not attempt.over:
                return due
            attempt.check()
        except SseLimitExceeded as exceeded:
            self._strikes.strike(exceeded, self._lineage.progress)
        await lineage.outbox.drained()
        return None

    def _take(self, frame: Frame, attempt: Attempt) -> None:
        """Hear the witnesses on one frame and pass it on."""
        hearing, cursor = attempt.hearing, self._lineage.cursor
        wanted = attempt.wanted(frame)
        facts = hearing.arrived(frame) if wanted else attempt.noticed(frame)
        against = hearing.reopened(facts, cursor, event=wanted and frame.data is not None)
        if against is None and facts and hearing.unsettled:
            self._early.look(hearing.unsettled_evidence(cursor))
        if against is not None:
            self._judge_again(against, frame, attempt)
        if not wanted:
            self._lineage.pass_over(frame)
        elif against is not None or not hearing.repeat:
            self._lineage.pass_on(frame)

    def _judge_again(self, against: Evidence, frame: Frame, attempt: Attempt) -> None:
        """Turn the lineage in the middle of a connection: from this event on it is another one."""
        self._early.drop()
        lineage, token = self._lineage, attempt.hearing.generation.token
        lineage.turn(judge(against), frame, token=token, asked=attempt.asked)
        attempt.hearing = self.source.speech.hearing(lineage.cursor)
        attempt.hearing.arrived(frame)

    def _remember_reset(self, hearing: Hearing) -> None:
        """Where the source took something back and brought nothing more, the next connection is
        judged on that, too: what it brings begins another generation."""
        if hearing.unsettled:
            self._refused = self.source.speech.hearing(self._lineage.cursor)
            self._refused.gave_up(hearing.unsettled)

    def _remember_retry(self, attempt: Attempt) -> None:
        self._retry_s = attempt.retry_s if attempt.retry_s is not None else self._retry_s


def _now_s() -> float:
    return asyncio.get_running_loop().time()
