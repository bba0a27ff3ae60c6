"""Crash points: the product names them, and a trap at one of them does something to the process.

A killed process does nothing more at all. A paused one comes to a stop at its next wait, as close
to the point as a single thread can be stopped from within.
"""

import asyncio
from enum import StrEnum

from fencepost.pool.crash_points import Crash
from fencepost.testing.simulator.loop import Process

BRIDGE_POINTS = (
    "before_connect",
    "opened",
    "held",
    "judged",
    "passed_on",
    "batch_built",
    "batch_sent",
    "batch_stored",
)
WORKER_POINTS = ("written", "at_barrier", "entered", "ran", "verified", "published")
"""Of a worker, in the order in which one application passes them."""


class Kind(StrEnum):
    BRIDGE = "bridge"
    WORKER = "worker"


class Deed(StrEnum):
    KILL = "kill"
    PAUSE = "pause"


class Killed(Crash):
    """The process is gone. It is no Exception: as with SIGKILL, the product can catch nothing."""


class Trap:
    """Springs when a process of its kind reaches its point for the nth time, and only once."""

    def __init__(
        self, kind: Kind, point: str, deed: Deed, nth: int = 1, spare: Process | None = None
    ) -> None:
        self.kind = kind
        self.point = point
        self.deed = deed
        self.sprung = asyncio.Event()
        self.caught: Process | None = None
        self._left = nth
        self._spare = spare

    def springs(self, kind: Kind, point: str, process: Process) -> bool:
        """Count this process's arrival at a point, and return True if the trap springs by it."""
        if (kind, point) != (self.kind, self.point) or process is self._spare:
            return False
        self._left -= 1
        return self._left <= 0
