"""Ids that one way of reading them puts in a row, without saying what comes next."""

from collections.abc import Callable
from typing import Any

from fencepost_policies.schemes.scheme import ID_CHARS_MAX, Hole, Order


class Ordered:
    """Ids are read as keys, which compare as Python's own values do.

    `read` returns None for what is no id of this kind. With `ties`, several events may share one.
    """

    dense = False

    def __init__(self, name: str, read: Callable[[str], Any | None], *, ties: bool = False) -> None:
        self.name = name
        self.ties = ties
        self._read = read

    def compare(self, earlier: str, later: str) -> Order:
        before, after = self._key(earlier), self._key(later)
        if before is None or after is None:
            return Order.UNKNOWN
        if after == before:
            return Order.SAME
        return Order.AFTER if after > before else Order.BEFORE

    def covers(self, floor: str, asked: str) -> bool | None:
        # The id asked for is still there, or older ones are; what a later floor means depends on
        # whether there is an id between the two.
        return True if self.compare(floor, asked) in (Order.SAME, Order.AFTER) else None

    def hole(self, earlier: str, later: str) -> Hole | None:
        return None

    def generation(self, event_id: str) -> str:
        return ""

    def _key(self, text: str) -> Any | None:
        return self._read(text) if text and len(text) <= ID_CHARS_MAX else None
