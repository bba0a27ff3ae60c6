"""Follow one source, connection after connection.

Nothing of a connection is published before it is judged; what it brings until then is held. The
verdict's record, the events behind it and the cursor are stored together, in order. A connection
that broke before its verdict leaves no trace: the next one asks with the same cursor.
"""

import asyncio
import logging
from collections.abc import Callable
from enum import StrEnum

import msgspec
from opentelemetry import trace

from fencepost.bridge.classify import classify, message_of
from fencepost.bridge.outbox import Entry, Outbox
from fencepost.bridge.shelf import Shelf, nothing_reached
from fencepost.broker.connection import Message
from fencepost.clock import draw_s, iso_time, monotonic_s, random_name, wall_ms
from fencepost.errors import Denied, SourceStopped, Unreachable
from fencepost.ports import SourceResponse, SourceUnreachable, Transport
from fencepost.settings import Bridge, Source, source_headers
from fencepost.telemetry import CONNECT, tracer
from fencepost_policies.judge import judge
from fencepost_policies.lineage import place, turn
from fencepost_policies.reply import Reading, Reply, read_reply
from fencepost_policies.retry import wait_bounds
from fencepost_policies.witness import Hearing, Opening, contradiction
from fencepost_schemas.cursor import Cursor, sendable
from fencepost_schemas.evidence import Evidence, Fact
from fencepost_schemas.limits import HELD_BYTES_MAX, HELD_FRAMES_MAX, HELD_S_MAX
from fencepost_schemas.question import Ruling
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Decoder, Frame, SseLimitExceeded
from fencepost_schemas.standing import Standing
from fencepost_schemas.verdict import EpochRecord, Verdict

log = logging.getLogger("fencepost.bridge")

EARLIEST, NOW = "earliest", "now"
RETRY_MS_MAX = 24 * 3600 * 1000


class Ending(StrEnum):
    """How a connection came to its end."""

    CLOSED = "closed"
    REFUSED = "refused"
    """Our position was refused: ask at once without one, and judge both together."""
    BUSY = "busy"


class Follower:
    """Follows one source with one cursor. `run` it once."""

    def __init__(
        self,
        name: str,
        source: Source,
        transport: Transport,
        shelf: Shelf,
        settings: Bridge,
        *,
        owner: str,
        idle_touch_s: float,
        reached: Callable[[str], None] = nothing_reached,
    ) -> None:
        self.name = name
        self.source = source
        self.owner = owner
        self.spoke = False
        self._transport = transport
        self._shelf = shelf
        self._settings = settings
        self._idle_touch_s = idle_touch_s
        self._reached = reached
        self._headers = source_headers(name, source)
        self._tries = 0
        self._strikes = 0
        self._struck_at: tuple[str, int] | None = None
        self._retry_s = 0.0
        self._wait_s = 0.0
        # Set by `_take_over`, before anything is read.
        self._cursor: Cursor
        self._outbox: Outbox
        # The state of the connection at hand.
        self._hearing: Hearing
        self._ruling: Ruling | None = None
        self._verdict: Standing | None = None
        self._asked = ""
        self._held: list[Frame] = []
        self._held_bytes = 0
        self._record: tuple[Message, ...] = ()
        self._deadline: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Follow until cancelled; raise SourceStopped or Fenced where it cannot go on."""
        await self._take_over()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._outbox.run())
                group.create_task(self._touch_while_idle())
                await self._connect_for_ever()
        except BaseExceptionGroup as together:
            raise _first(together) from None

    async def _take_over(self) -> None:
        """Write our name into the cursor: from here on any older bridge is refused."""
        loaded = await self._shelf.load(self.name)
        self._cursor = msgspec.structs.replace(loaded.cursor, owner=self.owner)
        revision = await self._shelf.write((), self._cursor, loaded.revision)
        self._outbox = Outbox(self._shelf, revision)

    async def _connect_for_ever(self) -> None:
        refused: Hearing | None = None
        while True:
            await self._outbox.drained()
            began = monotonic_s()
            before = self._progress()
            try:
                ending = await self._connect(refused)
            except SourceUnreachable as error:
                log.warning("%s: the source %s", self.name, error)
                ending = Ending.BUSY
            except Unreachable as error:
                if isinstance(error, Denied):
                    raise
                log.warning("%s: %s; trying again", self.name, error)
                ending = Ending.BUSY
            except SourceStopped:
                await self._outbox.drained()
                raise
            refused = self._hearing if ending is Ending.REFUSED else None
            if refused is not None:
                continue
            healthy = monotonic_s() - began >= self._settings.healthy_s
            if healthy or self._progress() != before:
                self._tries = 0
            await self._wait()

    def _progress(self) -> tuple[str, int]:
        """Return what differs once an event was taken: counts begin anew in each generation."""
        return self._cursor.generation, self._cursor.published

    async def _wait(self) -> None:
        """Wait before the next connection, longer after each one that brought nothing."""
        self._tries += 1
        bounds = wait_bounds(
            self._tries,
            first_s=self._settings.retry_first_s,
            longest_s=self._settings.retry_longest_s,
        )
        asked_s = min(max(self._retry_s, self._wait_s), self._settings.retry_longest_s)
        self._wait_s = 0.0
        await asyncio.sleep(max(asked_s, draw_s(bounds)))

    # --- one connection
    async def _connect(self, refused: Hearing | None) -> Ending:
        """Open, judge and read one connection to its end.

        `refused` is the hearing of a connection whose position was refused; this one is then
        opened without a position, and both are judged together.
        """
        self._ruling = (
            await self._shelf.ruling(self.name, self._cursor.generation)
            if self._cursor.standing.tainted
            else None
        )
        self._hearing = refused if refused is not None else self.source.plain.hearing(self._cursor)
        self._verdict, self._held, self._held_bytes = None, [], 0
        self._asked = "" if refused is not None else _position_to_ask(self._cursor)
        with tracer().start_as_current_span(
            f"connect {self.name}", kind=CONNECT, attributes={"fencepost.source": self.name}
        ):
            self._outbox.context = trace.set_span_in_context(trace.get_current_span())
            self._reached("before_connect")
            async with self._transport.open(
                self.source.url, self._headers, self._asked
            ) as response:
                self._reached("opened")
                reading = self._hear_opening(response)
                if reading.reply is not Reply.STREAM:
                    return self._turn_away(reading)
                self.spoke = True
                await self._read(response)
        return Ending.CLOSED

    def _hear_opening(self, response: SourceResponse) -> Reading:
        # Only a stream or a refusal of our position testifies; the page of some balancer does not.
        opening = Opening(response.status, response.headers, self._asked)
        facts = self._hearing.opened(opening)
        reset = any(fact.reason is Reason.RESET_STATUS for fact in facts)
        return read_reply(response.status, response.headers, asked=bool(self._asked), reset=reset)

    def _turn_away(self, reading: Reading) -> Ending:
        """Return how to go on without a stream; raise SourceStopped where somebody must act.

        A source that has spoken before in this process is asked again later: an error page during
        a deployment is no reason to stop for good.
        """
        if reading.reply is Reply.REFUSED:
            log.warning("%s: %s; asking without one", self.name, reading.text)
            return Ending.REFUSED
        final = reading.reply is Reply.STOP or (reading.reply is Reply.MISTAKEN and not self.spoke)
        if final:
            raise SourceStopped(f"{self.name}: the source {reading.text}")
        log.warning("%s: the source %s; trying again later", self.name, reading.text)
        self._wait_s = reading.wait_s
        return Ending.BUSY

    async def _read(self, response: SourceResponse) -> None:
        decoder = Decoder(
            self._asked,
            line_bytes_max=self.source.line_bytes_max,
            event_bytes_max=self.source.event_bytes_max,
        )
        self._watch_the_time()
        try:
            async for chunk in response.chunks():
                for frame in decoder.feed(chunk):
                    self._take(frame)
                await self._outbox.room()
        except SseLimitExceeded as exceeded:
            for frame in exceeded.frames:
                self._take(frame)
            self._strike(exceeded)
        finally:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None
            if decoder.retry is not None:
                # The number may have hundreds of digits, more than a float can hold.
                self._retry_s = min(decoder.retry, RETRY_MS_MAX) / 1000
        if self._verdict is None and self._held:
            self._judge()
        await self._outbox.drained()

    def _strike(self, exceeded: SseLimitExceeded) -> None:
        """Count an oversized line or event; one that stays in the way stops the source."""
        place = self._progress()
        self._strikes = self._strikes + 1 if place == self._struck_at else 1
        self._struck_at = place
        text = (
            f"{self.name}: the source sent more than {exceeded.bytes_max} bytes in one "
            f"{exceeded.limit}"
        )
        if self._strikes >= self._settings.strikes_max:
            raise SourceStopped(
                f"{text}, {self._strikes} times at the same place: raise "
                f"sources.{self.name}.{exceeded.limit}_bytes_max, or mend the source"
            )
        log.error("%s; connection dropped, nothing is lost, trying again", text)

    # --- one frame
    def _take(self, frame: Frame) -> None:
        """Hear the witnesses on a frame, then hold it or pass it on."""
        if frame.data is not None and not self.source.plain.counts(frame):
            return
        if frame.id_seen and frame.last_event_id and not sendable(frame.last_event_id):
            log.error(
                "%s: the source sent an id of %d characters that no request can send back; "
                "a break right behind it will be unverifiable: mend the source's ids",
                self.name,
                len(frame.last_event_id),
            )
        facts = self._hearing.arrived(frame)
        if self._verdict is not None:
            if contradiction(facts):
                self._judge_again(facts, frame)
            self._pass_on(frame)
            return
        if frame.data is not None:
            self._held.append(frame)
            self._held_bytes += len(frame.data)
        self._reached("held")
        full = len(self._held) >= HELD_FRAMES_MAX or self._held_bytes >= HELD_BYTES_MAX
        if full or self._hearing.ready():
            self._judge()
        else:
            self._watch_the_time()

    def _watch_the_time(self) -> None:
        """Let the limit on waiting run once there is an event to judge, or a contradiction."""
        if self._deadline is None and (self._held or contradiction(self._hearing.facts)):
            loop = asyncio.get_running_loop()
            self._deadline = loop.call_later(HELD_S_MAX, self._judge_at_deadline)

    def _judge_at_deadline(self) -> None:
        if self._verdict is None:
            self._judge()

    def _judge(self) -> None:
        self._turn(judge(self._hearing.evidence()), self._held[0] if self._held else None)
        held, self._held, self._held_bytes = self._held, [], 0
        for frame in held:
            self._pass_on(frame)

    def _judge_again(self, facts: tuple[Fact, ...], frame: Frame) -> None:
        """Turn the lineage in the middle of a connection: from this frame on it is another one."""
        evidence = Evidence(requested=self._cursor, genesis=False, facts=facts)
        token = self._hearing.generation.token
        self._turn(judge(evidence), frame if frame.data is not None else None)
        self._hearing = self.source.plain.hearing(
            msgspec.structs.replace(self._cursor, token=token)
        )
        self._hearing.arrived(frame)
        self._cursor = msgspec.structs.replace(self._cursor, token=token)

    def _turn(self, verdict: Verdict, first: Frame | None) -> None:
        """Carry out a verdict: turn the lineage, and have its record go before its first event."""
        turned = turn(self._cursor, verdict, first, random_name(), self._ruling)
        token = self._hearing.generation.token or turned.cursor.token
        if turned.cursor.generation != self._cursor.generation:
            # It was said of the generation that ends here, and counts once for the next one.
            self._ruling = None
        self._cursor = msgspec.structs.replace(turned.cursor, token=token)
        self._verdict = verdict.kind
        record = EpochRecord(
            source=self.name,
            generation=self._cursor.generation,
            parent=turned.parent,
            verdict=verdict,
            standing=self._cursor.standing,
            gap=turned.gap,
            ledger=self._cursor.ledger,
            bridge=self.owner,
            at_ms=wall_ms(),
            token=token,
            asked=self._asked,
            first=str(place(None, first)) if first is not None else "",
        )
        self._record = (self._shelf.record_message(record),)
        if first is None:
            self._outbox.add(Entry(self._record, self._cursor))
            self._record = ()
        reasons = ", ".join(reason.value for reason in verdict.reasons)
        log.info("%s: %s (%s), generation %s", self.name, verdict.kind, reasons, record.generation)
        trace.get_current_span().set_attributes(
            {
                "fencepost.verdict": verdict.kind.value,
                "fencepost.reasons": [reason.value for reason in verdict.reasons],
                "fencepost.generation": record.generation,
            }
        )
        self._reached("judged")

    def _pass_on(self, frame: Frame) -> None:
        if frame.data is None:
            return
        assert self._verdict is not None
        self._cursor = msgspec.structs.replace(
            self._cursor,
            position=place(self._cursor.position, frame),
            published=self._cursor.published + 1,
        )
        event = classify(self.source, self._cursor, self._verdict, frame, iso_time(wall_ms()))
        message = message_of(event, self._shelf.subjects, self._shelf.connection.payload_bytes_max)
        if not message.payload and event.payload:
            log.error(
                "%s: an event of %d bytes is larger than the broker takes; it is refused by its "
                "position, see `fencepost questions ls`: raise max_payload on the broker",
                self.name,
                event.size,
            )
        self._outbox.add(Entry((*self._record, message), self._cursor))
        self._record = ()
        self._reached("passed_on")

    async def _touch_while_idle(self) -> None:
        """Rewrite the cursor of a quiet source, well before the stream's age drops it."""
        while True:
            revision = self._outbox.revision
            await asyncio.sleep(self._idle_touch_s)
            if self._outbox.revision == revision:
                self._outbox.add(Entry((), self._cursor))
                await self._outbox.room()


def _first(together: BaseExceptionGroup) -> BaseException:
    """Return the first error in a group, however deep the groups are nested."""
    error: BaseException = together
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _position_to_ask(cursor: Cursor) -> str:
    """Return the id to send: the position's, or where init said that a fresh source begins."""
    if cursor.position is not None:
        return cursor.position.id
    if cursor.fresh and cursor.start not in (NOW, EARLIEST):
        return cursor.start
    return ""
