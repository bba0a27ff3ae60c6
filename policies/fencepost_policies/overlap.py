"""The overlap probe: resume from further back, and want the events that we had, byte for byte.

An honest resume and a stream that was started afresh look alike from the last id on. They differ
before it: only the log that we read from can give back what we had. The server need not help, and
the price is a few events that come twice and are dropped.
"""

import hashlib
from collections.abc import Mapping

import msgspec

from fencepost_policies.pointer import Undecodable, read_json, remove
from fencepost_schemas.cursor import Cursor, Mark, Position
from fencepost_schemas.limits import RING_MARKS_MAX
from fencepost_schemas.sse import Frame


class Cover(msgspec.Struct, frozen=True):
    """What was published behind the last of these marks, where a join is to be looked at again.

    `published` maps each position to the digest of its data, "" where the data is not kept; `last`
    is the last id among them.
    """

    marks: tuple[Mark, ...]
    last: str
    published: Mapping[str, str]


class Ask(msgspec.Struct, frozen=True):
    """What to resume from, and the marks that are owed before anything new.

    With a `cover`, all that it lists is owed behind them.
    """

    position: Position
    owed: tuple[Mark, ...] = ()
    cover: Cover | None = None


def digest_of(frame: Frame, volatile: tuple[str, ...] = ()) -> str:
    """Return the digest of an event: its type and raw data, without what the source lists as
    volatile (JSON pointers to what differs each time an event is sent)."""
    hashed = hashlib.blake2b(digest_size=16)
    hashed.update(frame.event.encode("utf-8", "surrogatepass") + b"\0")
    hashed.update(_steady(frame.data or "", volatile))
    return hashed.hexdigest()


def data_digest(data: str, volatile: tuple[str, ...] = ()) -> str:
    """Return the digest of an event's data alone, as `digest_of` takes it."""
    return hashlib.blake2b(_steady(data, volatile), digest_size=16).hexdigest()


def _steady(data: str, volatile: tuple[str, ...]) -> bytes:
    """Return the data without what is volatile; as it is where that cannot be told."""
    if volatile:
        try:
            document = read_json(data)
        except Undecodable:
            pass
        else:
            for pointer in volatile:
                document = remove(pointer, document)
            return msgspec.json.encode(document, order="deterministic")
    return data.encode("utf-8", "surrogatepass")


def remember(ring: tuple[Mark, ...], mark: Mark) -> tuple[Mark, ...]:
    """Return the ring with one more mark, and without the oldest where it is full."""
    return (*ring, mark)[-RING_MARKS_MAX:]


def asks_for(ring: tuple[Mark, ...], *, inclusive: bool = False) -> tuple[Ask, ...]:
    """Return what to ask for, one after the other: from the oldest mark, then the last but one.

    The second is for servers that hold little. With `inclusive`, the source begins with the very
    mark that is asked for, so it is owed, too. Nothing comes back where the ring cannot prove
    anything: fewer than two marks, no id to ask with, or payloads that are all alike.
    """
    askable = [
        number
        for number, mark in enumerate(ring[:-1])
        if mark.position.id and not mark.position.ordinal
    ]
    if not askable or len({mark.digest for mark in ring}) < 2:
        return ()
    chosen = dict.fromkeys((askable[0], askable[-1]))
    skipped = 0 if inclusive else 1
    return tuple(Ask(ring[number].position, ring[number + skipped :]) for number in chosen)


def probes_for(
    cursor: Cursor, published: Mapping[str, str] | None, *, inclusive: bool = False
) -> tuple[Ask, ...]:
    """Return what to ask for, the best proof first.

    `published` is what was published behind the cursor's seam: that join is covered by asking from
    before it. None where there is none to cover, or it cannot be.
    """
    probes = asks_for(cursor.ring, inclusive=inclusive)
    if not probes or not published or cursor.seam is None:
        return probes
    marks = cursor.seam.marks
    last = cursor.position.id if cursor.position is not None else ""
    for number, mark in enumerate(marks):
        if mark.position.id and not mark.position.ordinal:
            cover = Cover(marks[number:], last, published)
            first = Ask(mark.position, marks[number if inclusive else number + 1 :], cover)
            # From the same place, a probe without the cover could prove no more.
            return (first, *(probe for probe in probes if probe.position != first.position))
    return probes


def matches(mark: Mark, frame: Frame, volatile: tuple[str, ...]) -> bool:
    """Return True if this frame is the event of this mark: the same id, the same bytes."""
    own_id = frame.last_event_id if frame.id_seen else ""
    expected_id = mark.position.id if not mark.position.ordinal else ""
    return own_id == expected_id and digest_of(frame, volatile) == mark.digest
