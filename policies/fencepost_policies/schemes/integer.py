"""Whole numbers, of any width."""

from fencepost_policies.schemes.scheme import Order

_DIGITS_MAX = 40


class Integer:
    """Ids are decimal integers that grow; holes are allowed."""

    name = "integer"

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


def number(text: str) -> int | None:
    """Return the integer, or None: "9x", "+9", " 9" and "٩" are not numbers here."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX):
        return None
    return int(text)
