"""Ids that carry the time at which some writer made them: ULID and version 7 of UUID.

Writers have clocks of their own, so two ids that were made within a second of each other say
nothing of their order; further apart, they do.
"""

import re
from collections.abc import Callable

from fencepost_policies.schemes.scheme import Hole, Order

SKEW_MS = 1_000
"""How far the clocks of a source's writers may be apart."""

Stamp = tuple[int, str]
"""Milliseconds, and the id as it is always written."""

_ULID = re.compile("[0-7][0-9A-HJKMNP-TV-Z]{25}", re.IGNORECASE | re.ASCII)
_UUID7 = re.compile(
    "(?:urn:uuid:)?([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
    re.IGNORECASE | re.ASCII,
)
_BASE32 = {char: value for value, char in enumerate("0123456789ABCDEFGHJKMNPQRSTVWXYZ")}


def read_ulid(text: str) -> Stamp | None:
    if not _ULID.fullmatch(text):
        return None
    ms = 0
    for char in text[:10].upper():
        ms = ms * 32 + _BASE32[char]
    return ms, text.upper()


def read_uuid7(text: str) -> Stamp | None:
    found = _UUID7.fullmatch(text)
    return (int(found[1] + found[2], 16), text.lower().removeprefix("urn:uuid:")) if found else None


class Stamped:
    """`read` returns the time in an id, None for what is no id of this kind."""

    ties = False
    dense = False

    def __init__(self, name: str, read: Callable[[str], Stamp | None]) -> None:
        self.name = name
        self._read = read

    def compare(self, earlier: str, later: str) -> Order:
        before, after = self._read(earlier), self._read(later)
        if before is None or after is None:
            return Order.UNKNOWN
        if before[1] == after[1]:
            return Order.SAME
        if abs(after[0] - before[0]) <= SKEW_MS:
            return Order.UNKNOWN
        return Order.AFTER if after[0] > before[0] else Order.BEFORE

    def covers(self, floor: str, asked: str) -> bool | None:
        return True if self.compare(floor, asked) in (Order.SAME, Order.AFTER) else None

    def hole(self, earlier: str, later: str) -> Hole | None:
        return None

    def generation(self, event_id: str) -> str:
        return ""


ULID = Stamped("ulid", read_ulid)
UUID7 = Stamped("uuidv7", read_uuid7)
