"""The same event, sent twice: what is the same, what differs each time, or is it another event?"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from fencepost_policies.pointer import Undecodable, read_json
from fencepost_policies.schemes.integer import number
from fencepost_schemas.sse import Frame

LEAVES_MAX = 200
"""Leaves of one event that are looked at; one with more is compared as a whole."""
VOLATILE_MAX = 8


class Comparison(msgspec.Struct, frozen=True):
    """What events with one id on several connections have in common.

    `twice` is how many came more than once, `volatile` are pointers to what differs each time,
    `others` is how many ids came back with another event.
    """

    twice: int = 0
    volatile: tuple[str, ...] = ()
    others: int = 0


def compare(connections: Sequence[Sequence[Frame]]) -> Comparison:
    """Compare events of several connections that have the same id.

    Data that differ are those of the same event only where something else in them names each event
    and is the same whenever it comes. That the id itself is in the data says nothing: two counters
    have it in common. Otherwise the id names another event.
    """
    seen: dict[str, list[Frame]] = {}
    for frames in connections:
        for frame in _first_of_each(frames):
            seen.setdefault(frame.last_event_id, []).append(frame)
    found = [_differing(same[0], frame) for same in seen.values() for frame in same[1:]]
    differs = [one for one in found if one]
    twice = sum(len(same) > 1 for same in seen.values())
    volatile = dict.fromkeys(pointer for one in differs for pointer in one)
    named = _naming([same[0] for same in seen.values()]) - volatile.keys()
    # What is inside an array cannot be left out of a digest, so it cannot be volatile.
    leaves_out = not any(part.isdigit() for one in volatile for part in one.split("/"))
    if None in found or (volatile and not (named and leaves_out and len(volatile) <= VOLATILE_MAX)):
        others = sum(one is None or bool(one) for one in found)
        return Comparison(twice, (), others)
    return Comparison(twice, tuple(volatile), 0)


def _first_of_each(frames: Iterable[Frame]) -> Iterable[Frame]:
    """Yield events whose id names just one of them on this connection."""
    events = [frame for frame in frames if frame.data is not None and frame.id_seen]
    count: dict[str, int] = {}
    for frame in events:
        count[frame.last_event_id] = count.get(frame.last_event_id, 0) + 1
    return (frame for frame in events if frame.last_event_id and count[frame.last_event_id] == 1)


def _naming(frames: Sequence[Frame]) -> set[str]:
    """Return pointers to what is another in each event, and does not count along with its id."""
    documents = [leaves(frame.data or "") or {} for frame in frames]
    if len(documents) < 2:
        return set()
    ids = [frame.last_event_id for frame in frames]
    return {
        pointer
        for pointer in documents[0]
        if len({one.get(pointer) for one in documents}) == len(documents)
        and not _counts_along(ids, [one.get(pointer, "").strip('"') for one in documents])
    }


def _counts_along(ids: Sequence[str], values: Sequence[str]) -> bool:
    numbers = [(number(one), number(other)) for one, other in zip(ids, values, strict=True)]
    apart = {None if None in pair else int(pair[1] or 0) - int(pair[0] or 0) for pair in numbers}
    return list(ids) == list(values) or (len(apart) == 1 and None not in apart)


def _differing(one: Frame, other: Frame) -> list[str] | None:
    """Return pointers to what differs between the two, None where they are made otherwise."""
    if one.event != other.event:
        return None
    if one.data == other.data:
        return []
    first, second = leaves(one.data or ""), leaves(other.data or "")
    if first is None or second is None or first.keys() != second.keys():
        return None
    return [pointer for pointer in first if first[pointer] != second[pointer]]


def leaves(data: str) -> Mapping[str, str] | None:
    """Return each leaf of a JSON object by its pointer, as text; None where it is none."""
    try:
        document = read_json(data)
    except Undecodable:
        return None
    if not isinstance(document, dict):
        return None
    found: dict[str, str] = {}
    waiting: list[tuple[str, object]] = [("", document)]
    while waiting:
        pointer, here = waiting.pop()
        parts: Iterable[tuple[str, object]]
        if isinstance(here, dict):
            parts = ((str(name), value) for name, value in here.items())
        elif isinstance(here, list):
            parts = ((str(at), value) for at, value in enumerate(here))
        else:
            found[pointer] = msgspec.json.encode(here).decode()
            if len(found) > LEAVES_MAX:
                return None
            continue
        for name, value in parts:
            escaped = name.replace("~", "~0").replace("/", "~1")
            waiting.append((f"{pointer}/{escaped}", value))
    return dict(sorted(found.items()))


def renumbered(connections: Sequence[Sequence[Frame]]) -> bool:
    """Return True where the same data came under different ids on different connections.

    Only data that came once on each of them count, and one such event may be chance: a payload may
    be sent twice in earnest.
    """
    ids: dict[tuple[str, str], set[str]] = {}
    for frames in connections:
        mine: dict[tuple[str, str], set[str]] = {}
        for frame in frames:
            if frame.data and frame.id_seen and frame.last_event_id:
                mine.setdefault((frame.event, frame.data), set()).add(frame.last_event_id)
        for content, own in mine.items():
            if len(own) == 1:
                ids.setdefault(content, set()).update(own)
    return sum(len(found) > 1 for found in ids.values()) > 1
