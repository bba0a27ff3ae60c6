"""Ids of several parts, one for each log that a stream is put together from.

Three ways of writing them are read: a JSON array of {topic, partition, offset or timestamp}, as
Kafka's offsets are sent; `name:n,name:n` in any order; and `time:a,[b],-`, where the place in the
list is the log and the brackets show which one the event is from.
"""

from fractions import Fraction

import msgspec

from fencepost_policies.pointer import Undecodable, read_json
from fencepost_policies.schemes.integer import number
from fencepost_policies.schemes.scheme import ID_CHARS_MAX, Hole, Order
from fencepost_policies.schemes.timestamp import read as read_time

Part = tuple[str, Fraction]
"""What the number counts (an offset, a kind of time), and the number."""

_NONE_YET: Part = ("offset", Fraction(-(10**21)))
"""A log of the list that has brought nothing in this second."""


class Parts(msgspec.Struct, frozen=True):
    """A vector: `era` comes first; within one, each part counts for itself."""

    era: int
    parts: dict[str, Part]


class Vector:
    """One id is after another where no part is behind and some part is ahead.

    A part that only one of the two has counts as ahead there. Where one part is ahead and another
    behind, the two are APART: no single stream goes from one to the other.
    """

    name = "vector"
    dense = False
    ties = False

    def compare(self, earlier: str, later: str) -> Order:
        before, after = read(earlier), read(later)
        if before is None or after is None:
            return Order.UNKNOWN
        if before.era != after.era:
            return Order.AFTER if after.era > before.era else Order.BEFORE
        return _compare(before.parts, after.parts)

    def covers(self, floor: str, asked: str) -> bool | None:
        return True if self.compare(floor, asked) in (Order.SAME, Order.AFTER) else None

    def hole(self, earlier: str, later: str) -> Hole | None:
        return None

    def generation(self, event_id: str) -> str:
        return ""


def _compare(before: dict[str, Part], after: dict[str, Part]) -> Order:
    ahead, behind = bool(after.keys() - before.keys()), bool(before.keys() - after.keys())
    for name in before.keys() & after.keys():
        (kind, last), (other_kind, this) = before[name], after[name]
        if kind != other_kind:
            return Order.UNKNOWN
        ahead, behind = ahead or this > last, behind or this < last
    if ahead and behind:
        # Ids that name only some of the parts at a time have not gone back.
        return Order.APART if before.keys() == after.keys() else Order.UNKNOWN
    if ahead or behind:
        return Order.AFTER if ahead else Order.BEFORE
    return Order.SAME


def read(text: str) -> Parts | None:
    """Return the parts of an id, None where it is no vector."""
    if not text or len(text) > ID_CHARS_MAX:
        return None
    if text.startswith("["):
        return _read_array(text)
    era, _, places = text.partition(":")
    if ":" not in places and ("," in places or "[" in places):
        return _read_places(era, places)
    return _read_map(text)


def _read_array(text: str) -> Parts | None:
    try:
        entries = read_json(text)
    except Undecodable:
        return None
    if not isinstance(entries, list) or not entries:
        return None
    parts: dict[str, Part] = {}
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("topic"), str):
            return None
        part = _part_of(entry)
        name = f"{entry['topic']}\n{entry.get('partition', 0)}"
        if part is None or name in parts:
            return None
        parts[name] = part
    return Parts(0, parts)


def _part_of(entry: dict[str, object]) -> Part | None:
    """Return the offset; the time where there is none, as in an id that asks by time."""
    offset, time = entry.get("offset"), entry.get("timestamp")
    if isinstance(offset, int) and not isinstance(offset, bool) and offset >= 0:
        return "offset", Fraction(offset)
    if isinstance(time, int | str) and not isinstance(time, bool):
        return read_time(str(time))
    return None


def _read_map(text: str) -> Parts | None:
    parts: dict[str, Part] = {}
    for entry in text.split(","):
        name, _, digits = entry.rpartition(":")
        value = number(digits)
        if not name or value is None or name in parts:
            return None
        parts[name] = ("offset", Fraction(value))
    return Parts(0, parts)


def _read_places(era: str, places: str) -> Parts | None:
    second = number(era)
    if second is None:
        return None
    parts: dict[str, Part] = {}
    for place, entry in enumerate(places.split(",")):
        bracketed = entry.startswith("[") and entry.endswith("]")
        value = number(entry[1:-1] if bracketed else entry)
        if value is None and entry != "-":
            return None
        parts[str(place)] = ("offset", Fraction(value)) if value is not None else _NONE_YET
    return Parts(second, parts)
