"""A cursor scheme: what two ids of a source say about each other."""

from enum import StrEnum
from typing import Protocol

import msgspec

from fencepost_schemas.limits import EVENT_ID_BYTES_MAX

ID_CHARS_MAX = EVENT_ID_BYTES_MAX
"""A longer id cannot be sent back, so no scheme spends any time on it."""


class Order(StrEnum):
    """How `later` stands to `earlier`; UNKNOWN where the scheme cannot say.

    APART is for ids of several parts: one part went on, and another one went back.
    """

    AFTER = "after"
    SAME = "same"
    BEFORE = "before"
    APART = "apart"
    UNKNOWN = "unknown"


class Hole(msgspec.Struct, frozen=True):
    """How many events are missing between two ids: none, so many, or (not `exact`) at least so
    many."""

    missing: int
    exact: bool = True


class Scheme(Protocol):
    """Every function takes any text: what cannot be read is UNKNOWN or None, never an error."""

    @property
    def name(self) -> str: ...

    @property
    def ties(self) -> bool:
        """True where several events may bear the same id, one right after the other."""

    @property
    def dense(self) -> bool:
        """True where the ids tell how many are missing, at least at some places."""

    def compare(self, earlier: str, later: str) -> Order:
        """Return where `later` stands to `earlier`."""

    def covers(self, floor: str, asked: str) -> bool | None:
        """Return whether a log whose oldest id is `floor` holds all after `asked`; None: unknown.

        It does where floor <= asked + 1, so a scheme without a successor cannot always say.
        """

    def hole(self, earlier: str, later: str) -> Hole | None:
        """Return what is missing between two ids; None where that cannot be told."""

    def generation(self, event_id: str) -> str:
        """Return the generation that this id names; "" where it names none."""
