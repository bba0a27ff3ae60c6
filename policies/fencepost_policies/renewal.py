"""When a connection that goes on is resumed anew: it has grown old, or quiet.

An open connection is no evidence of delivery. Some servers replay and then never join the live
stream, some drop what a slow reader does not take, and a balancer may keep a connection to a server
that nobody publishes to any more. Only another resume finds what was not delivered.
"""

import math
from collections.abc import Sequence
from enum import StrEnum

from fencepost_policies.overlap import Ask
from fencepost_policies.retry import WaitBounds


class Due(StrEnum):
    """Why a connection is to be resumed anew."""

    AGE = "age"
    QUIET = "quiet"


class Watch:
    """Watches one connection. Times are seconds of one clock; a limit of 0 means never.

    `looked` says that the silence in which the connection begins was looked behind already.
    """

    def __init__(self, *, age_s: float, quiet_s: float, now_s: float, looked: bool = False) -> None:
        self._age_s = age_s or math.inf
        self._quiet_s = quiet_s or math.inf
        self._old_at_s = now_s + self._age_s
        self._quiet_at_s = math.inf if looked else now_s + self._quiet_s

    @property
    def due_at_s(self) -> float:
        return min(self._old_at_s, self._quiet_at_s)

    def due(self, now_s: float) -> Due | None:
        """Return what has come due, if anything."""
        if now_s >= self._quiet_at_s:
            return Due.QUIET
        return Due.AGE if now_s >= self._old_at_s else None

    def heard(self, now_s: float) -> None:
        """An event came; a heartbeat is none."""
        self._quiet_at_s = now_s + self._quiet_s

    def looked(self, now_s: float) -> None:
        """A resume was tried and this connection goes on: once is enough for one silence."""
        self._old_at_s = now_s + self._age_s
        self._quiet_at_s = math.inf


def age_bounds(age_s: float) -> WaitBounds:
    """Return the bounds of one connection's age: drawn, so that not all of them end at once."""
    return WaitBounds(least_s=age_s * 0.75, most_s=age_s)


def provable(asks: Sequence[Ask], proven: bool) -> bool:
    """Return True if a resume can be expected to prove itself.

    It owes events that we had, or was `proven` before in this generation. Any other would only turn
    a stream that is in order into one that nobody can verify.
    """
    return bool(asks) and (proven or bool(asks[0].owed) or asks[0].cover is not None)
