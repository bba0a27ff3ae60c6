"""Points in time, as a number or as ISO 8601. Several events may share one."""

import re
from datetime import UTC, datetime
from fractions import Fraction

from fencepost_policies.schemes.scheme import Hole, Order

_NUMBER = re.compile(r"(-?[0-9]{1,30})(?:\.([0-9]{1,30}))?")
_ISO = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2})"
    r"(?:\.([0-9]{1,30}))?(Z|[+-][0-9]{2}:?[0-9]{2})?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Moment = tuple[str, Fraction]
"""What kind of time it is, and the seconds or whatever the source counts in."""


def read(text: str) -> Moment | None:
    """Return the moment; None for what is no time, the 30th of February included."""
    if found := _NUMBER.fullmatch(text):
        return "number", _with_fraction(int(found[1]), found[2], text.startswith("-"))
    if found := _ISO.fullmatch(text):
        whole, fraction, zone = found.groups()
        try:
            moment = datetime.fromisoformat(f"{whole}{zone or 'Z'}")
            seconds = int((moment - _EPOCH).total_seconds())
        except (ValueError, OverflowError):
            return None
        return "zoned" if zone else "local", _with_fraction(seconds, fraction, False)
    return None


def _with_fraction(whole: int, digits: str | None, negative: bool) -> Fraction:
    part = Fraction(int(digits), 10 ** len(digits)) if digits else Fraction(0)
    return whole - part if negative else whole + part


class Timestamp:
    """Times compare within one kind; a local time and one with a zone do not."""

    name = "timestamp"
    dense = False
    ties = True

    def compare(self, earlier: str, later: str) -> Order:
        before, after = read(earlier), read(later)
        if before is None or after is None or before[0] != after[0]:
            return Order.UNKNOWN
        if after[1] == before[1]:
            return Order.SAME
        return Order.AFTER if after[1] > before[1] else Order.BEFORE

    def covers(self, floor: str, asked: str) -> bool | None:
        # The floor may be the last of several events of that time, so only an earlier one will do.
        return True if self.compare(floor, asked) is Order.AFTER else None

    def hole(self, earlier: str, later: str) -> Hole | None:
        return None

    def generation(self, event_id: str) -> str:
        return ""
