"""How a verdict turns a lineage: which generation goes on or begins, its standing, its gap."""

import msgspec

from fencepost_policies.disposition import standing_under
from fencepost_schemas.cursor import Cursor, Position, sendable
from fencepost_schemas.question import Ruling
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Frame
from fencepost_schemas.standing import Standing, worst
from fencepost_schemas.verdict import Gap, Verdict

EXACT_LOSSES = frozenset({Reason.WINDOW_EXCEEDED, Reason.DENSE_HOLE})
"""What is lost for one of these, in a generation that was proven, lies between two known places."""


class Turn(msgspec.Struct, frozen=True):
    """What a verdict makes of the cursor: the cursor to go on from, and the gap at the seam."""

    cursor: Cursor
    parent: str
    gap: Gap | None


def generation_name(ordinal: int, chance: str) -> str:
    """Return the name minted for a generation; `chance` is eight base32 characters."""
    return f"{ordinal:04d}-{chance}"


def ordinal_of(generation: str) -> int:
    return int(generation.split("-", 1)[0])


def places_settled(generation: str, ruling: Ruling | None) -> bool:
    """Return True if it is settled which generation the places of this one are counted in.

    `ruling` is what a person said of it. The first generation's places are its own, and so are
    those of one that was accepted, for that takes whatever comes; one that is the same has the
    places of the one in front of it. Of one that was discarded, or reconciled by key, nobody said
    whether what was applied before it may come again behind it.
    """
    return ordinal_of(generation) == 1 or ruling in (Ruling.SAME, Ruling.ACCEPT)


def place(previous: Position | None, frame: Frame) -> Position:
    """Return the position of this event, given the one before it in its generation.

    An id of its own that can be sent back begins anew; anything else counts on from the last id,
    so that no two events of a generation share a position.
    """
    new_id = previous is None or frame.last_event_id != previous.id
    if frame.id_seen and new_id and sendable(frame.last_event_id):
        return Position(frame.last_event_id)
    if previous is None:
        return Position("")
    return Position(previous.id, previous.ordinal + 1)


def turn(
    cursor: Cursor, verdict: Verdict, first: Frame | None, chance: str, ruling: Ruling | None
) -> Turn:
    """Return the lineage after this verdict.

    `first` is the first event of the connection (None where it was refused before any),
    `ruling` what a person said of the cursor's own generation, which is the only thing here that
    raises a standing.
    """
    lineage = standing_under(cursor.standing, ruling)
    if verdict.kind is Standing.GENESIS:
        return Turn(msgspec.structs.replace(cursor, fresh=False), parent="", gap=None)
    if verdict.kind is Standing.RESUMED:
        standing = worst(Standing.RESUMED, cursor.standing)
        kept = msgspec.structs.replace(cursor, standing=standing)
        return Turn(kept, parent=cursor.generation, gap=None)
    generation = generation_name(ordinal_of(cursor.generation) + 1, chance)
    begun = msgspec.structs.replace(
        cursor,
        generation=generation,
        standing=worst(verdict.kind, lineage),
        position=None,
        token="",
        fresh=False,
        rebaselined=False,
        published=0,
        ring=(),
    )
    gap = Gap(
        after_generation=cursor.generation,
        after_position=str(cursor.position) if cursor.position is not None else "",
        before_generation=generation,
        before_position=str(place(None, first)) if first is not None else "",
        exact=(
            verdict.kind is Standing.REORIGINATED and not EXACT_LOSSES.isdisjoint(verdict.reasons)
        ),
        missing=_missing(verdict),
    )
    return Turn(begun, parent=cursor.generation, gap=gap)


def _missing(verdict: Verdict) -> int:
    """Return how many events are missing, where that is what the verdict rests on and ids tell."""
    if verdict.kind is not Standing.REORIGINATED or Reason.DENSE_HOLE not in verdict.reasons:
        return 0
    holes = [fact for fact in verdict.facts if fact.reason is Reason.DENSE_HOLE]
    return sum(fact.missing for fact in holes)
