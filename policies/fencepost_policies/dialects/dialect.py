"""A dialect: what a kind of server says of continuity, and where it says it."""

from collections.abc import Mapping
from typing import Literal, Protocol, runtime_checkable

from fencepost_policies.dialects.asking import Asking
from fencepost_policies.dialects.places import Reading
from fencepost_policies.overlap import Ask
from fencepost_policies.witness import Hearing
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.sse import Frame

Join = Literal["atomic", "racy", "unknown"]
"""What the step from replayed to live events does: loses nothing, loses, or nobody knows."""


class Dialect(Protocol):
    @property
    def join(self) -> Join: ...

    @property
    def volatile(self) -> tuple[str, ...]: ...

    @property
    def covers(self) -> bool:
        """True where the next resume has to look at the join of this one again, audited or not:
        the connection of an audit has a join, too.
        """

    @property
    def replays_unasked(self) -> bool:
        """True where a connection that asked for no position may begin with a replay."""

    def asks(self, cursor: Cursor, published: Mapping[str, str] | None = None) -> tuple[Ask, ...]:
        """Return what to ask a source for, the best proof first; nothing where there is none.

        `published` is what was published behind the cursor's seam, where that is to be covered.
        """

    def hearing(
        self, cursor: Cursor | None, ask: Ask | None = None, *, last_chance: bool = True
    ) -> Hearing:
        """Return a hearing for one connection attempt, with the dialect's witnesses."""

    def counts(self, frame: Frame) -> bool:
        """Return True if this frame is an event of the source, which moves its position."""

    def ends(self, frame: Frame) -> bool:
        """Return True if this frame says that nothing will ever follow."""

    def replayed(self, frame: Frame) -> bool:
        """Return True if this frame says that all was replayed and what follows is live."""

    def type_of(self, frame: Frame) -> str:
        """Return the event's type, "" where there is none."""


@runtime_checkable
class Speech(Dialect, Protocol):
    """A dialect by which a source can be followed: it also says how to ask, and where to read."""

    @property
    def ask(self) -> Asking: ...

    @property
    def key(self) -> str:
        """Where the idempotency key is, a JSON pointer; "" where the source has to say it."""

    def reading(self, ask: Ask | None) -> Reading:
        """Return what reads the positions of one connection, which was opened with this ask."""

    def advances(self, frame: Frame) -> bool:
        """Return True if this frame is no event of the source, but moves its position."""
