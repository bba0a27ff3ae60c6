"""A cursor scheme: what two ids of a source say about each other."""

from enum import StrEnum
from typing import Protocol


class Order(StrEnum):
    """How `later` stands to `earlier`; UNKNOWN where the scheme cannot say."""

    AFTER = "after"
    SAME = "same"
    BEFORE = "before"
    UNKNOWN = "unknown"


class Scheme(Protocol):
    @property
    def name(self) -> str: ...

    def compare(self, earlier: str, later: str) -> Order:
        """Return where `later` stands to `earlier`."""

    def covers(self, floor: str, asked: str) -> bool | None:
        """Return whether a log whose oldest id is `floor` holds all after `asked`; None: unknown.

        It does where floor <= asked + 1, so a scheme without a successor cannot say.
        """
