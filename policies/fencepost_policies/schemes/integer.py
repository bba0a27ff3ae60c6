"""Whole numbers, of any width."""

from functools import lru_cache

from fencepost_policies.schemes.scheme import Hole, Order

_DIGITS_MAX = 40
IDS_KNOWN_MAX = 64
"""An id is compared by several witnesses, and with the one behind it."""


class Integer:
    """Ids are decimal integers that grow; holes are allowed unless they are dense."""

    ties = False

    def __init__(self, *, dense: bool = False) -> None:
        self.name = "integer-dense" if dense else "integer"
        self.dense = dense

    def compare(self, earlier: str, later: str) -> Order:
        before, after = number(earlier), number(later)
        if before is None or after is None:
            return Order.UNKNOWN
        if after == before:
            return Order.SAME
        return Order.AFTER if after > before else Order.BEFORE

    def covers(self, floor: str, asked: str) -> bool | None:
        oldest, last = number(floor), number(asked)
        if oldest is None or last is None:
            return None
        return oldest <= last + 1

    def hole(self, earlier: str, later: str) -> Hole | None:
        before, after = number(earlier), number(later)
        if not self.dense or before is None or after is None or after <= before:
            return None
        return Hole(after - before - 1)

    def generation(self, event_id: str) -> str:
        return ""


def number(text: str) -> int | None:
    """Return the integer, or None: "9x", "+9", " 9" and "٩" are not numbers here."""
    # An id may be as long as a line, and such a one is not remembered.
    return _number(text) if len(text) <= 1 + _DIGITS_MAX else None


@lru_cache(maxsize=IDS_KNOWN_MAX)
def _number(text: str) -> int | None:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX):
        return None
    return int(text)
