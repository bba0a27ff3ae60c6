"""A join, looked at again: what a connection lost on its way from replayed to live events.

The overlap proves the seam of a resume and says nothing of the step behind it, where many servers
lose what is emitted meanwhile. So the next resume asks from before that seam and wants all that was
published since, byte for byte. What comes in between was lost then, and is published late.
"""

from enum import StrEnum

import msgspec

from fencepost_policies.lineage import place
from fencepost_policies.overlap import Cover, data_digest, digest_of, remember
from fencepost_policies.schemes.scheme import Order, Scheme
from fencepost_schemas.cursor import Cursor, Mark, Position, Seam
from fencepost_schemas.limits import COVER_EVENTS_MAX
from fencepost_schemas.sse import Frame
from fencepost_schemas.verdict import Gap


class Found(StrEnum):
    """What a frame of the replay is to what was published."""

    REPEAT = "repeat"
    LATE = "late"
    """It was never published: the join lost it."""
    OTHER_BYTES = "other_bytes"
    """It stands where something else was published."""
    MISS = "miss"
    """It is neither: what is owed is not there."""


class Covered(msgspec.Struct, frozen=True):
    """A join that was looked at again to its end.

    `late` events were lost at it, all of them behind the position `after` and before `before`.
    `ring` are the last marks as the log has them. `doubt` is the first position that came back
    where nothing shows that the replay began right behind the mark that was asked from: what a log
    that forgets has dropped between the two, nobody can tell.
    """

    ring: tuple[Mark, ...]
    late: int = 0
    after: str = ""
    before: str = ""
    doubt: str = ""


class CoverReading:
    """Reads a replay against what was published, frame by frame."""

    def __init__(self, cover: Cover, scheme: Scheme, volatile: tuple[str, ...]) -> None:
        self._published = cover.published
        self._marks = cover.marks
        self._last = cover.last
        self._scheme = scheme
        self._volatile = volatile
        self._place = cover.marks[-1].position
        self._ring = cover.marks
        self._found: set[str] = set()
        self._late = 0
        self._after = ""
        self._before = ""
        self._doubt = ""

    @property
    def done(self) -> bool:
        return len(self._found) == len(self._published)

    @property
    def owed(self) -> int:
        return len(self._published)

    @property
    def found(self) -> int:
        return len(self._found)

    def take(self, frame: Frame) -> Found:
        """Say what this frame is."""
        position = place(self._place, frame)
        published = self._published.get(str(position))
        if published is None:
            if not self._may_be_late(position):
                return Found.MISS
            self._after = self._after if self._late else str(self._place)
            self._before = ""
            self._late += 1
        else:
            if str(position) in self._found or not self._same(published, frame):
                return Found.OTHER_BYTES
            if len(self._marks) == 1 and not self._found:
                self._doubt = str(position)
            self._found.add(str(position))
            self._before = self._before or str(position)
        self._place = position
        self._ring = remember(self._ring, Mark(position, digest_of(frame, self._volatile)))
        return Found.LATE if published is None else Found.REPEAT

    def _may_be_late(self, position: Position) -> bool:
        """Return True if an event that was never published may have been lost at the join.

        One mark alone proves nothing, so what comes right behind it has to be known. Without an id
        of its own an event has no place among those that have theirs already. And one behind the
        last that was published is new: what was owed before it is not there.
        """
        known = len(self._marks) > 1 or bool(self._found)
        placeable = bool(position.id) and not position.ordinal
        passed = self._scheme.compare(self._last, position.id) is Order.AFTER
        return known and placeable and not passed and self._late < COVER_EVENTS_MAX

    def covered(self) -> Covered | None:
        """Return what was found, once all that was published came back."""
        if not self.done:
            return None
        if not self._late:
            return Covered(self._ring, doubt=self._doubt)
        return Covered(self._ring, self._late, self._after, self._before, self._doubt)

    def _same(self, published: str, frame: Frame) -> bool:
        return not published or published == data_digest(frame.data or "", self._volatile)


def owed_since(cursor: Cursor) -> int:
    """Return how many events were published behind the join that is still to be covered."""
    if cursor.seam is None or not cursor.seam.marks:
        return 0
    return cursor.published - cursor.seam.published


def join_gap(cursor: Cursor, covered: Covered | None) -> Gap | None:
    """Return what a resumed lineage may have lost at its last join, and nothing where that is none.

    Exact where the join was looked at again: what it lost is published behind the gap's record.
    """
    if covered is not None and covered.doubt:
        assert cursor.seam is not None
        mark = str(cursor.seam.marks[-1].position)
        return Gap(cursor.generation, mark, cursor.generation, covered.before or covered.doubt)
    if covered is not None:
        if not covered.late:
            return None
        return Gap(cursor.generation, covered.after, cursor.generation, covered.before, exact=True)
    if not owed_since(cursor):
        return None
    assert cursor.seam is not None
    last = cursor.seam.marks[-1].position
    return Gap(cursor.generation, str(last), cursor.generation, str(cursor.position))


def joined(cursor: Cursor, covered: Covered | None, sequence: int) -> Cursor:
    """Return the cursor behind a proven resume, with its join to be covered by the next one.

    `sequence` is the broker's, before anything of this connection. What comes late stands in the
    log before the marks, so it is no part of what the next cover wants.
    """
    ring, late = (covered.ring, covered.late) if covered is not None else (cursor.ring, 0)
    published = cursor.published + late
    seam = Seam(ring, sequence, skip=late, published=published)
    return msgspec.structs.replace(cursor, published=published, ring=ring, seam=seam)


def begun(cursor: Cursor, sequence: int) -> Cursor:
    """Return the cursor of a generation that begins: its own first mark is what to ask from."""
    return msgspec.structs.replace(cursor, seam=Seam((), sequence))


def anchored(cursor: Cursor, mark: Mark) -> Cursor:
    """Return the cursor with this mark to ask from, if its seam has none and the mark will do."""
    seam = cursor.seam
    if seam is None or seam.marks or not mark.position.id or mark.position.ordinal:
        return cursor
    at = Seam((mark,), seam.sequence, skip=cursor.published, published=cursor.published)
    return msgspec.structs.replace(cursor, seam=at)
