"""The overlap probe: resume from further back, and want the events that we had, byte for byte.

An honest resume and a stream that was started afresh look alike from the last id on. They differ
before it: only the log that we read from can give back what we had. The server need not help, and
the price is a few events that come twice and are dropped.
"""

import hashlib

import msgspec

from fencepost_policies.pointer import Undecodable, read_json, remove
from fencepost_schemas.cursor import Mark, Position
from fencepost_schemas.limits import RING_MARKS_MAX
from fencepost_schemas.sse import Frame


class Ask(msgspec.Struct, frozen=True):
    """What to resume from, and the marks that are owed before anything new."""

    position: Position
    owed: tuple[Mark, ...] = ()


def digest_of(frame: Frame, volatile: tuple[str, ...] = ()) -> str:
    """Return the digest of an event: its type and raw data, without what the source lists as
    volatile (JSON pointers to what differs each time an event is sent)."""
    data = frame.data or ""
    if volatile:
        try:
            document = read_json(data)
        except Undecodable:
            pass
        else:
            for pointer in volatile:
                document = remove(pointer, document)
            data = msgspec.json.encode(document, order="deterministic").decode()
    hashed = hashlib.blake2b(digest_size=16)
    hashed.update(frame.event.encode("utf-8", "surrogatepass") + b"\0")
    hashed.update(data.encode("utf-8", "surrogatepass"))
    return hashed.hexdigest()


def remember(ring: tuple[Mark, ...], mark: Mark) -> tuple[Mark, ...]:
    """Return the ring with one more mark, and without the oldest where it is full."""
    return (*ring, mark)[-RING_MARKS_MAX:]


def asks_for(ring: tuple[Mark, ...]) -> tuple[Ask, ...]:
    """Return what to ask for, one after the other: from the oldest mark, then the last but one.

    The second is for servers that hold little. Nothing comes back where the ring cannot prove
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
    return tuple(Ask(ring[number].position, ring[number + 1 :]) for number in chosen)


def matches(mark: Mark, frame: Frame, volatile: tuple[str, ...]) -> bool:
    """Return True if this frame is the event of this mark: the same id, the same bytes."""
    own_id = frame.last_event_id if frame.id_seen else ""
    expected_id = mark.position.id if not mark.position.ordinal else ""
    return own_id == expected_id and digest_of(frame, volatile) == mark.digest
