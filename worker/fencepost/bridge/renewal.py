"""Resume a source anew beside a connection that has grown old or quiet.

The connection that we have was judged and goes on. So the new one takes its place only where it
proves that it continues the lineage; what either of the two has brought meanwhile is kept. Doubt
about the new one is no reason to let go of the old one, with one exception: where the old one is
quiet and the source, which has honoured a resume before, now answers with another stream.
"""

import asyncio
import logging
from contextlib import AsyncExitStack

from fencepost.bridge.approach import Approach, TurnedAway, merged
from fencepost.bridge.attempt import Arrival, Attempt, Heard
from fencepost.bridge.lineage import Lineage
from fencepost.ports import SourceUnreachable, World
from fencepost.settings import Bridge, Source
from fencepost_policies.judge import judge
from fencepost_policies.overlap import Ask
from fencepost_policies.renewal import Due, Watch, age_bounds, provable
from fencepost_policies.witness import Hearing, contradiction
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.limits import AUDIT_QUIET_S, COVER_EVENTS_MAX
from fencepost_schemas.standing import Standing

log = logging.getLogger("fencepost.bridge")

RENEWAL_S_MAX = 10.0
"""The old connection is not read while the new one is heard."""


class Renewed:
    """A connection that takes the place of another; `stack` holds it open."""

    def __init__(self, attempt: Attempt, stack: AsyncExitStack) -> None:
        self.attempt = attempt
        self.stack = stack


class Renewal:
    """How the connections of one source are renewed. `judged` tells it what resumes have shown."""

    def __init__(
        self,
        approach: Approach,
        lineage: Lineage,
        source: Source,
        settings: Bridge,
        world: World,
    ) -> None:
        self._proven = ""
        self._approach = approach
        self._lineage = lineage
        self._speech = source.speech
        self._settings = settings
        self._world = world
        self._heard: tuple[Hearing, bool] | None = None
        """What the last resume said, and whether it was the last way to ask."""
        self._quiet_at: tuple[str, int] | None = None
        """How far we were when a quiet source was resumed anew: once is enough for one silence."""

    def watch(self, now_s: float) -> Watch:
        """Return what watches a connection that was judged just now."""
        age_s = self._settings.connection_age_s
        return Watch(
            age_s=self._world.draw_s(age_bounds(age_s)) if age_s else 0.0,
            quiet_s=self._settings.quiet_s,
            now_s=now_s,
            looked=self._quiet_at == self._lineage.progress,
        )

    def judged(self, verdict: Standing) -> None:
        """Remember that a resume has proven itself, if it has."""
        if verdict is Standing.RESUMED:
            self._proven = self._lineage.cursor.generation

    async def asks(self, due: Due) -> tuple[Ask, ...]:
        """Return what to ask for; nothing where that cannot be expected to prove anything."""
        if due is Due.QUIET:
            self._quiet_at = self._lineage.progress
        if due is Due.AGE and self._lineage.join_owes > COVER_EVENTS_MAX:
            # It is anything but quiet, and the resume could only say that nobody can look again.
            return ()
        await self._lineage.outbox.drained()
        await self._lineage.look_for_ruling()
        cursor = self._lineage.cursor
        if not self._approach.in_session() or not _ends_with_id(cursor):
            return ()
        asks = self._speech.asks(cursor, await self._lineage.published_since_join())
        return asks if provable(asks, self.has_proven) else ()

    async def beside(self, old: Attempt, asks: tuple[Ask, ...], due: Due) -> Renewed | None:
        """Return the connection that is to take the place of `old`, None where that goes on."""
        stack, self._heard = AsyncExitStack(), None
        try:
            async with asyncio.timeout(RENEWAL_S_MAX):
                new = await self._resume(stack, old, asks, due)
        except TimeoutError:
            new = None
        except (SourceUnreachable, TurnedAway) as error:
            log.info("%s: resumed beside the connection that we have: %s", self._name, error)
            new = None
        except BaseException:  # a renewal that is cancelled must not leave its connection open
            await stack.aclose()
            raise
        if new is None:
            await stack.aclose()
            log.info("%s: a resume proved nothing; the connection goes on", self._name)
            self._tell_early(old, due)
            return None
        log.info("%s: resumed anew (%s)", self._name, due)
        return Renewed(new, stack)

    @property
    def _name(self) -> str:
        return self._lineage.name

    @property
    def has_proven(self) -> bool:
        """True where a resume has proven itself in this generation."""
        return self._proven == self._lineage.cursor.generation

    async def _resume(
        self, stack: AsyncExitStack, old: Attempt, asks: tuple[Ask, ...], due: Due
    ) -> Attempt | None:
        new, heard = await self._approach.probe(stack, asks, None, self._hear)
        if heard is Heard.SILENT or (heard is Heard.ENDED and not new.held):
            return None
        await self._approach.audit(stack, new)
        if self._speech.join == "unknown":
            # What falls between its replay and its live events comes on the old one meanwhile.
            await new.hear_for(AUDIT_QUIET_S)
        verdict = judge(new.hearing.evidence())
        if verdict.kind is Standing.RESUMED:
            self.judged(verdict.kind)
            return new if self._brings_all(new, old) else None
        another = verdict.kind is Standing.REORIGINATED
        return new if another and self._believes(old, due) and new.held else None

    def _believes(self, old: Attempt, due: Due) -> bool:
        """Return True where another stream would be believed, if it brought an event."""
        return self.has_proven and due is Due.QUIET and not _events(old)

    def _hear(self, hearing: Hearing, *, last_chance: bool) -> None:
        self._heard = hearing, last_chance

    def _tell_early(self, old: Attempt, due: Due) -> None:
        """Tell of a loss that the source has proven, and sent no event with which to believe it.

        The old connection goes on; an event on it takes that back.
        """
        if self._heard is None or not self._believes(old, due):
            return
        hearing, last_chance = self._heard
        evidence = hearing.evidence()
        if judge(evidence).kind is Standing.REORIGINATED:
            self._lineage.tell_early(evidence, last_chance=last_chance)

    def _brings_all(self, new: Attempt, old: Attempt) -> bool:
        """Take over what came on the old connection meanwhile; return False where that cannot be.

        An event without an id of its own cannot be told from its repeat, and one that speaks
        against the lineage is for the old connection's own witnesses to say.
        """
        events = _events(old)
        anew = self._speech.hearing(self._lineage.cursor)
        facts = [fact for came in old.waiting for fact in anew.arrived(came.frame)]
        if contradiction(facts) or not all(came.frame.id_seen for came in events):
            return False
        new.held = merged(events, new.held, ended=old.ended)
        new.skip_ids |= {came.frame.last_event_id for came in events}
        return True


def _events(old: Attempt) -> list[Arrival]:
    """Return the events that came on a connection and were not taken yet."""
    return [came for came in old.waiting if came.frame.data is not None and old.wanted(came.frame)]


def _ends_with_id(cursor: Cursor) -> bool:
    """Return False where the last events had no id of their own, so that no resume covers them."""
    return cursor.position is not None and not cursor.position.ordinal
