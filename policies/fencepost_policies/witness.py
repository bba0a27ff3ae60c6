"""The witness protocol, and the hearing that gathers what the witnesses of one connection say.

A witness sees one connection attempt as it unfolds and may state facts. It keeps what it needs of
the attempt and nothing more; it never judges, and its silence is recorded as silence.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from fencepost_policies.cover import Covered
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.evidence import Evidence, Facet, Fact, Finding
from fencepost_schemas.limits import FACT_CHARS_MAX, FACTS_MAX
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Frame

WITHHELD = Fact(
    Facet.POSITION, Finding.CONTRADICTS, "redirect", Reason.POSITION_WITHHELD, "", "another origin"
)


class Opening(msgspec.Struct, frozen=True):
    """The head of a response. Header names are lower case; `asked` is the id that was sent.

    `url` is where the response came from, behind all redirects. It may hold secrets: a fact shows
    no more than a digest of it. `withheld` says that a redirect led to another origin, to which our
    position was not sent. `away_s` is how long ago the last byte of the connection before this one
    came, None where nobody knows.
    """

    status: int
    headers: Mapping[str, str]
    asked: str = ""
    url: str = ""
    withheld: bool = False
    away_s: float | None = None


class Witness(Protocol):
    @property
    def name(self) -> str: ...

    def opened(self, opening: Opening) -> Iterable[Fact]:
        """Return what the head of the response testifies to."""

    def arrived(self, frame: Frame) -> Iterable[Fact]:
        """Return what one frame testifies to; called for each frame, also after the verdict."""


@runtime_checkable
class EndWitness(Witness, Protocol):
    """A witness to whom the end of a connection says something."""

    def ended(self) -> Iterable[Fact]:
        """Return what a proper end of the connection testifies to."""


@runtime_checkable
class NoticingWitness(Witness, Protocol):
    """A witness to whom a frame may say something that is no event of the source."""

    def noticed(self, frame: Frame) -> Iterable[Fact]:
        """Return what a greeting, a heartbeat or a piece of state testifies to."""


@runtime_checkable
class RepeatWitness(Witness, Protocol):
    """A witness that can tell an event which we have already."""

    @property
    def repeat(self) -> bool:
        """True where the last event is one that must not be published again."""


class TokenWitness(Witness, Protocol):
    """The witness that reads the source's own word for its generation."""

    @property
    def token(self) -> str:
        """The token observed on this connection, "" while there is none."""

    def holds(self) -> Iterable[Fact]:
        """Return what the token is worth in the middle of the connection that named it."""


class OverlapProof(Witness, Protocol):
    """The witness that wants back what we had."""

    @property
    def owing(self) -> bool:
        """True while marks are owed: nothing that comes is new yet."""

    @property
    def matched(self) -> bool:
        """True where marks were owed and all of them came back."""

    @property
    def repeat(self) -> bool:
        """True where the last frame was an owed one, which must not be published again."""

    @property
    def missed(self) -> bool:
        """True where another event came in the place of an owed one."""

    @property
    def covered(self) -> Covered | None:
        """What was found at an earlier join, once it has been looked at to its end."""

    def uncovered(self) -> Iterable[Fact]:
        """Return what to say of an earlier join that could not be looked at."""

    def concede(self) -> Iterable[Fact]:
        """Return what a miss means once there is no other chance."""

    def silence(self) -> Iterable[Fact]:
        """Return what to say once the wait for owed events is over."""

    def audited(self, refused: str) -> Iterable[Fact]:
        """Return what an audit of the join means; `refused` says why there was none."""


class Hearing:
    """Collects the facts of one connection attempt, in the order in which they were stated."""

    def __init__(
        self,
        cursor: Cursor | None,
        generation: TokenWitness,
        others: Iterable[Witness],
        overlap: OverlapProof,
    ) -> None:
        self.cursor = cursor
        self.generation = generation
        self.overlap = overlap
        self.witnesses: tuple[Witness, ...] = (generation, *others, overlap)
        self.facts: list[Fact] = []
        self.events = 0
        self._noticing = tuple(w for w in self.witnesses if isinstance(w, NoticingWitness))
        self._repeating = tuple(w for w in self.witnesses if isinstance(w, RepeatWitness))
        self._against: list[Fact] = []
        self._repeat = False
        self._began_with_state = False

    def opened(self, opening: Opening) -> tuple[Fact, ...]:
        """Hear every witness on the head of the response; return the new facts."""
        facts = [fact for witness in self.witnesses for fact in witness.opened(opening)]
        if opening.withheld:
            # Whatever comes now is no answer to a position that nobody there was told of.
            facts.append(WITHHELD)
        return self._hear(facts)

    def arrived(self, frame: Frame) -> tuple[Fact, ...]:
        """Hear every witness on one frame of the source; return the new facts.

        A piece of its state continues nothing, so nobody compares it with what was before.
        """
        if frame.data is not None:
            self.events += 1
        if frame.snapshot:
            self._began_with_state = True
            return self.noticed(frame)
        facts: list[Fact] = []
        for witness in self.witnesses:
            facts += witness.arrived(frame)
        self._repeat = False
        if frame.data is not None:
            for speaker in self._repeating:
                self._repeat = self._repeat or speaker.repeat
        return self._hear(facts) if facts else ()

    def noticed(self, frame: Frame) -> tuple[Fact, ...]:
        """Hear those who have something to say of a frame that is no event; return the facts."""
        self._repeat = False
        return self._hear(fact for witness in self._noticing for fact in witness.noticed(frame))

    @property
    def repeat(self) -> bool:
        """True where the last frame is an event that we have already: it is not published again."""
        return self._repeat

    @property
    def overlapped(self) -> bool:
        """True where all that was owed came back, and nothing spoke against it."""
        return self.overlap.matched and not contradiction(self.facts)

    def silent(self) -> None:
        """Hear that the wait for owed events is over."""
        self._hear(self.overlap.silence())

    def gave_up(self, silent: Iterable[Fact]) -> None:
        """Take over what earlier probes that stayed silent have to say."""
        self._hear(silent)

    def ended(self) -> bool:
        """Hear that the connection came to a proper end; return True if that is a reset."""
        facts = [
            fact
            for witness in self.witnesses
            if isinstance(witness, EndWitness)
            for fact in witness.ended()
        ]
        return contradiction(self._hear(facts))

    def uncovered(self) -> None:
        """Hear that an earlier join could not be looked at."""
        self._hear(self.overlap.uncovered())

    def audited(self, refused: str) -> None:
        """Hear how the audit of a racy join went; `refused` says why there was none."""
        self._hear(self.overlap.audited(refused))

    def concede(self, other: "Hearing | None" = None) -> None:
        """Hear that there is no other chance, and what another attempt was told."""
        self._hear(self.overlap.concede())
        if other is not None:
            self.facts.extend(other.facts)

    def reopened(self, facts: Sequence[Fact], cursor: Cursor, *, event: bool) -> Evidence | None:
        """Return what a judged connection is to be judged on again, None while it goes on.

        `facts` were just stated. A generation begins with an event, so what is said against the
        stream by anything else waits for the next one. What proved the identity holds until then:
        it is still the same connection.
        """
        if facts:
            _add(self._against, (fact for fact in facts if fact.finding is Finding.CONTRADICTS))
        if not event or not self._against:
            return None
        against = self.unsettled_evidence(cursor)
        self._against = []
        return against

    @property
    def unsettled(self) -> tuple[Fact, ...]:
        """What was said against a judged connection, and no event has followed."""
        return tuple(self._against)

    def unsettled_evidence(self, cursor: Cursor) -> Evidence:
        """Return what the next event will be judged on, unless it says something itself."""
        proven = [
            fact
            for fact in self.facts
            if fact.facet is Facet.IDENTITY and fact.finding is Finding.PROVES
        ]
        counted = (*(proven or self.generation.holds()), *self._against)
        return Evidence(requested=cursor, genesis=False, facts=counted)

    def evidence(self) -> Evidence:
        cursor = self.cursor
        genesis = cursor is not None and cursor.fresh and not cursor.rebaselined
        return Evidence(requested=cursor, genesis=genesis, facts=tuple(self.facts))

    def ready(self) -> bool:
        """Return True once waiting longer cannot make the verdict better.

        It takes an event, so that the gap ends at its position. Then a contradiction is enough,
        as is the word of the witness of position; a fresh source has nothing to compare with.
        While marks are owed, only their own witness can end the wait, or a source that sends its
        state instead.
        """
        if not self.events:
            return False
        if self.overlap.owing:
            given_up = self.overlap.missed or self._began_with_state
            return given_up and contradiction(self.facts)
        if self.cursor is None or self.cursor.fresh or contradiction(self.facts):
            return True
        return any(fact.facet is Facet.POSITION for fact in self.facts)

    def _hear(self, facts: Iterable[Fact]) -> tuple[Fact, ...]:
        stated = tuple(_shortened(fact) for fact in facts)
        _add(self.facts, stated)
        return stated


def _shortened(fact: Fact) -> Fact:
    """Return the fact as it goes into a record, which a source must not be able to burst."""
    if max(len(fact.expected), len(fact.observed)) <= FACT_CHARS_MAX:
        return fact
    return msgspec.structs.replace(
        fact, expected=fact.expected[:FACT_CHARS_MAX], observed=fact.observed[:FACT_CHARS_MAX]
    )


def _add(known: list[Fact], facts: Iterable[Fact]) -> None:
    """Add facts; once there are many, only what nobody has said yet."""
    for fact in facts:
        if len(known) < FACTS_MAX or all(
            (fact.finding, fact.reason) != (other.finding, other.reason) for other in known
        ):
            known.append(fact)


def contradiction(facts: Iterable[Fact]) -> bool:
    """Return True if some fact says that this is not the stream we acknowledged."""
    return any(
        fact.finding is Finding.CONTRADICTS and fact.facet is not Facet.COMPLETENESS
        for fact in facts
    )
