"""Open a source: one connection, a second one beside it where the first proves nothing, an audit.

All of them are closed with the stack that they are opened on; which of them is judged is decided
here, and what it means is the judge's.
"""

import heapq
import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Protocol

from fencepost.bridge.attempt import Arrival, Attempt, Heard
from fencepost.bridge.lineage import Lineage
from fencepost.bridge.pace import Pace
from fencepost.ports import Door, SourceResponse, SourceUnreachable, World
from fencepost.settings import Source
from fencepost_policies.overlap import Ask
from fencepost_policies.reply import Reading, Reply, read_reply
from fencepost_policies.witness import Hearing, Opening
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.limits import AUDIT_QUIET_S, HELD_S_MAX
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Decoder
from fencepost_schemas.subject import digest_token

log = logging.getLogger("fencepost.bridge")

EARLIEST, NOW = "earliest", "now"


class Said(Protocol):
    """Hears what a connection has said so far. Without `last_chance` the source is asked another
    way behind it."""

    def __call__(self, hearing: Hearing, *, last_chance: bool) -> None: ...


class TurnedAway(Exception):
    """The source answered with something else than a stream."""

    def __init__(self, reading: Reading, hearing: Hearing) -> None:
        super().__init__(reading.text)
        self.reading = reading
        self.hearing = hearing


class Approach:
    """How one source is approached, connection after connection."""

    def __init__(
        self,
        source: Source,
        door: Door,
        lineage: Lineage,
        overlap_s: float,
        event_s: float,
        world: World,
        reached: Callable[[str], None],
    ) -> None:
        self.heard_s: float | None = None
        """When the connection that was judged last still brought something (time of the loop)."""
        self.spoke = False
        """True once the source has answered with a stream in this process."""
        self.opened_s: float | None = None
        """When the source last answered with a stream."""
        self._source = source
        self._speech = source.speech
        self._door = door
        self._lineage = lineage
        self._overlap_s = overlap_s
        self._event_s = event_s
        self._world = world
        self._reached = reached

    async def open(
        self,
        stack: AsyncExitStack,
        ask: Ask | None,
        refused: Hearing | None,
        *,
        last_chance: bool,
        said: Said | None = None,
    ) -> Attempt:
        """Open a connection that is closed with the stack; raise TurnedAway without a stream.

        `said` hears what the connection has said each time that it has said more.
        """
        speech, cursor = self._speech, self._lineage.cursor
        hearing = refused
        if hearing is None:
            hearing = speech.hearing(cursor, ask, last_chance=last_chance)
        asked = ask.position.id if ask is not None else _start_of(cursor)
        if refused is not None:
            asked = ""
        self._reached("before_connect")
        line = await stack.enter_async_context(AsyncExitStack())
        response = await line.enter_async_context(self._door.open(cursor, asked))
        self._lineage.keep_session(self._door.session)
        self._reached("opened")
        withheld = bool(asked) and not response.own
        asked = asked if response.own else ""
        away_s = self._world.monotonic_s() - self.heard_s if self.heard_s else None
        opening = Opening(
            response.status, response.headers, asked, response.url, withheld, away_s=away_s
        )
        facts = hearing.opened(opening)
        reading = read_reply(
            response.status,
            response.headers,
            asked=bool(asked),
            reset=any(fact.reason is Reason.RESET_STATUS for fact in facts),
            renewable=self._source.credentials is not None,
        )
        if reading.reply is not Reply.STREAM:
            raise TurnedAway(reading, hearing)
        self.spoke = True
        self.opened_s = self._world.monotonic_s()
        telling = _untold if said is None else partial(said, last_chance=last_chance)
        attempt = self._attempt(response, line, hearing, ask, asked, telling)
        stack.push_async_callback(attempt.close)
        return attempt

    def _attempt(
        self,
        response: SourceResponse,
        line: AsyncExitStack,
        hearing: Hearing,
        ask: Ask | None,
        asked: str,
        said: Callable[[Hearing], None],
    ) -> Attempt:
        """Return an open connection."""
        decoder = Decoder(
            asked,
            line_bytes_max=self._source.line_bytes_max,
            event_bytes_max=self._source.event_bytes_max,
        )
        return Attempt(
            response,
            line,
            decoder,
            self._speech,
            hearing,
            ask,
            asked,
            self._door.answer if self._door.answers else None,
            Pace(self._event_s),
            self._reached,
            said,
            self._world.monotonic_s,
        )

    def lasted_s(self) -> float:
        """Return how long ago a stream was opened, however long that took; 0 where none was."""
        return self._world.monotonic_s() - self.opened_s if self.opened_s is not None else 0.0

    def in_session(self) -> bool:
        """Return False where the source has given us another session than our position is of."""
        cursor = self._lineage.cursor
        session = self._door.session or cursor.session
        return not session or not cursor.token or digest_token(session) == cursor.token

    async def probe(
        self, stack: AsyncExitStack, asks: Sequence[Ask], refused: Hearing | None, said: Said
    ) -> tuple[Attempt, Heard]:
        """Ask one way after the other until one proves something; return what is to be judged.

        A connection that missed goes on beside the next one: if none proves anything, what the
        first of them has brought is the beginning of another generation, and nothing of it is lost.
        Raises TurnedAway where the last way was refused, and none before it brought anything.
        """
        missed: Attempt | None = None
        last_heard: Hearing | None = None
        for number, ask in enumerate(asks or (None,), 1):
            last_chance = number >= len(asks)
            if missed is not None and self._speech.join == "racy":
                # The MCP Python SDK has one stream a session, and gives it to a second request that
                # comes while the first is about to get it: the first one then stays silent.
                await missed.hear_replay(AUDIT_QUIET_S)
            try:
                attempt = await self.open(stack, ask, refused, last_chance=last_chance, said=said)
            except (SourceUnreachable, TurnedAway) as error:
                passing = isinstance(error, TurnedAway) and error.reading.reply is Reply.REFUSED
                if missed is None and (last_chance or not passing):
                    raise
                log.info("%s: asked another way: the source %s", self._lineage.name, error)
                continue
            heard = await attempt.hear_out(owed_s=self._overlap_s, held_s=HELD_S_MAX)
            last_heard = attempt.hearing
            # Some servers answer a position that they do not know with nothing, and an end.
            refused_softly = heard is Heard.ENDED and attempt.barren
            if not last_chance and _refused_in_stream(attempt.hearing):
                # Others say so in the stream; one that holds little may still have a later mark.
                heard = Heard.MISSED
            over = heard in (Heard.READY, Heard.ENDED) and not refused_softly
            if missed is None and (last_chance or over):
                return attempt, heard
            if missed is not None and attempt.hearing.overlapped:
                await missed.close()
                return attempt, heard
            if heard is Heard.MISSED and missed is None:
                missed = attempt
            else:
                await attempt.close()
        assert missed is not None
        missed.hearing.concede(last_heard if last_heard is not missed.hearing else None)
        return missed, Heard.READY

    async def news(self, attempt: Attempt) -> bool:
        """Where nothing but repeats came, wait for more; return False where the end came first."""
        return not attempt.hearing.events or await attempt.hear_news(HELD_S_MAX)

    async def audit(self, stack: AsyncExitStack, attempt: Attempt) -> None:
        """Where the join is known to lose, read the replay once more while this one stays attached.

        What the second replay brings that the first did not takes its place among the held ones.
        """
        hearing = attempt.hearing
        if self._speech.join != "racy" or attempt.ask is None or not hearing.overlapped:
            return
        # A second replay that began before the first is over would miss what both of them miss.
        if not await attempt.hear_replay(AUDIT_QUIET_S):
            hearing.audited(refused="the first replay was too long to be held")
            return
        try:
            audit = await self.open(stack, attempt.ask, None, last_chance=True)
            heard = await audit.hear_out(owed_s=AUDIT_QUIET_S, held_s=AUDIT_QUIET_S)
            whole = heard is Heard.READY and await audit.hear_replay(AUDIT_QUIET_S)
        except (SourceUnreachable, TurnedAway) as error:
            hearing.audited(refused=str(error))
            return
        if not audit.hearing.overlapped:
            hearing.audited(refused="the second replay did not begin with what we had")
            return
        if not whole:
            hearing.audited(refused="the second replay was too long to be held")
            return
        await audit.close()
        # What came on the first meanwhile stands before some of what the second brought live.
        await attempt.hear_what_came()
        brought = [came.frame for came in audit.held]
        attempt.skip_ids = frozenset(frame.last_event_id for frame in brought if frame.id_seen)
        attempt.held = merged(attempt.held, audit.held, ended=attempt.ended)
        hearing.audited(refused="")


def merged(first: list[Arrival], second: list[Arrival], *, ended: bool) -> list[Arrival]:
    """Return what either connection brought, in the log's order, which both have in part.

    What both have holds the two together. Between, what only the second has was lost at the join
    of the first, and came before what only the first has: the second was opened when that join was
    over. But where the first has `ended`, the second may have gone on alone. Then what only the
    first has was lost at the join of the second, and belongs where it came.
    """
    places = {came.frame.last_event_id: at for at, came in enumerate(second) if came.frame.id_seen}
    merged: list[Arrival] = []
    alone: list[Arrival] = []
    taken = 0
    for came in first:
        at = places.get(came.frame.last_event_id) if came.frame.id_seen else None
        if at is None:
            alone.append(came)
        elif at >= taken:
            merged += [*second[taken:at], *alone, second[at]]
            alone = []
            taken = at + 1
    if ended:
        return [*merged, *heapq.merge(second[taken:], alone, key=lambda came: came.at_s)]
    return [*merged, *second[taken:], *alone]


def _untold(hearing: Hearing) -> None:
    """Nobody is told of what the connection of an audit says: another one is judged."""


def _refused_in_stream(hearing: Hearing) -> bool:
    """Return True if a reset came in the place of what was owed."""
    said = (Reason.RESET_EVENT, Reason.RESET_EMPTY_ID)
    return hearing.overlap.owing and any(fact.reason in said for fact in hearing.facts)


def _start_of(cursor: Cursor) -> str:
    """Return where init said that a fresh source begins, as an id to send; "" otherwise."""
    if cursor.fresh and cursor.start not in (NOW, EARLIEST):
        return cursor.start
    return ""
