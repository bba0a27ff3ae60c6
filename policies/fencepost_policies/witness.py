"""The witness protocol, and the hearing that gathers what the witnesses of one connection say.

A witness sees one connection attempt as it unfolds and may state facts. It keeps what it needs of
the attempt and nothing more; it never judges, and its silence is recorded as silence.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from fencepost_schemas.cursor import Cursor
from fencepost_schemas.evidence import Evidence, Facet, Fact, Finding
from fencepost_schemas.sse import Frame


class Opening(msgspec.Struct, frozen=True):
    """The head of a response. Header names are lower case; `asked` is the id that was sent."""

    status: int
    headers: Mapping[str, str]
    asked: str = ""


class Witness(Protocol):
    @property
    def name(self) -> str: ...

    def opened(self, opening: Opening) -> Iterable[Fact]:
        """Return what the head of the response testifies to."""

    def arrived(self, frame: Frame) -> Iterable[Fact]:
        """Return what one frame testifies to; called for each frame, also after the verdict."""


class TokenWitness(Witness, Protocol):
    """The witness that reads the source's own word for its generation."""

    @property
    def token(self) -> str:
        """The token observed on this connection, "" while there is none."""


class OverlapProof(Witness, Protocol):
    """The witness that wants back what we had."""

    @property
    def owing(self) -> bool:
        """True while marks are owed: nothing that comes is new yet."""

    @property
    def repeat(self) -> bool:
        """True where the last frame was an owed one, which must not be published again."""

    @property
    def missed(self) -> bool:
        """True where another event came in the place of an owed one."""

    def silence(self) -> Iterable[Fact]:
        """Return what to say once the wait for owed events is over."""


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

    def opened(self, opening: Opening) -> tuple[Fact, ...]:
        """Hear every witness on the head of the response; return the new facts."""
        return self._hear(fact for witness in self.witnesses for fact in witness.opened(opening))

    def arrived(self, frame: Frame) -> tuple[Fact, ...]:
        """Hear every witness on one frame; return the new facts."""
        if frame.data is not None:
            self.events += 1
        return self._hear(fact for witness in self.witnesses for fact in witness.arrived(frame))

    def silent(self) -> None:
        """Hear that the wait for owed events is over."""
        self._hear(self.overlap.silence())

    def evidence(self) -> Evidence:
        fresh = self.cursor is not None and self.cursor.fresh
        return Evidence(requested=self.cursor, genesis=fresh, facts=tuple(self.facts))

    def ready(self) -> bool:
        """Return True once waiting longer cannot make the verdict better.

        It takes an event, so that the gap ends at its position. Then a contradiction is enough,
        as is the word of the witness of position; a fresh source has nothing to compare with.
        While marks are owed, only their own witness can end the wait.
        """
        if not self.events:
            return False
        if self.overlap.owing:
            return self.overlap.missed and contradiction(self.facts)
        if self.cursor is None or self.cursor.fresh or contradiction(self.facts):
            return True
        return any(fact.facet is Facet.POSITION for fact in self.facts)

    def _hear(self, facts: Iterable[Fact]) -> tuple[Fact, ...]:
        stated = tuple(facts)
        self.facts.extend(stated)
        return stated


def contradiction(facts: Iterable[Fact]) -> bool:
    """Return True if some fact says that this is not the stream we acknowledged."""
    return any(
        fact.finding is Finding.CONTRADICTS and fact.facet is not Facet.COMPLETENESS
        for fact in facts
    )
