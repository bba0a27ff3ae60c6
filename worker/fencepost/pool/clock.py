"""The broker's clock: what leases are written and judged by.

A machine's wall clock may be set, forward or back, at any moment, so the broker's clock is kept as
an offset to a clock of this machine that only goes on: the one that counts from its start, and goes
on while it is suspended. The offset is read every few seconds, and at once where the wall clock was
set: the broker may be on the same machine.

The broker's clock may be set as well, or be another node's from one moment to the next, where a
cluster elects. Then the offset steps, and a lease that was written before says nothing any more to
whoever reads it after. So a worker judges the leases of others only by a clock that it has seen go
on without a step for longer than a lease lasts (`reading`). The owner of a lease judges it by its
own clock, and writes it anew by the broker's.
"""

import asyncio
import logging
import threading

import msgspec

from fencepost.errors import Denied, Unreachable
from fencepost.ports import Broker, World
from fencepost_policies.plan import Reading

log = logging.getLogger("fencepost.pool")

TRIP_S_MAX = 0.5
"""A reading that took longer to come says too little of when it was taken: half of that is how far
a lease may be judged too early, well below what a worker keeps between its last act and its end."""
READINGS_MAX = 5
STEP_MS = 250
"""A clock that is this far from where it should be has been set, and did not merely drift."""
LOOK_S = 1.0
"""Between two looks whether the wall clock was set; each costs nothing."""


class _Kept(msgspec.Struct, frozen=True, gc=False):
    """One reading, `asked_s` for. `since_s` is when the clock was last seen to step, or first."""

    offset_ms: int
    trip_ms: int
    asked_s: float
    since_s: float


NEVER_S = float("-inf")


class BrokerClock:
    """Kept as an offset to the world's monotonic clock. Any thread may read it, or ask it.

    `reading_s` is how long one reading may be gone by.
    """

    def __init__(self, world: World, reading_s: float) -> None:
        self.reading_s = reading_s
        self._world = world
        self._kept = _Kept(0, 0, NEVER_S, world.monotonic_s())
        self._taking = threading.Lock()

    def now_ms(self) -> int:
        """Return the broker's time."""
        return self.steady_ms() + self._kept.offset_ms

    def steady_ms(self) -> int:
        """Return this machine's own time, which nobody sets. Only its differences mean anything."""
        return int(self._world.monotonic_s() * 1000)

    def reading(self, *, fresh: bool) -> Reading:
        """Return how well the time is known now."""
        stood_s = self._world.monotonic_s() - self._kept.since_s
        return Reading(fresh, int(stood_s * 1000))

    @property
    def stale(self) -> bool:
        """True where the last reading is too old to write leases by."""
        return self._world.monotonic_s() - self._kept.asked_s >= self.reading_s

    async def read(self, connection: Broker, stream: str) -> None:
        """Ask the broker for its clock, again where the answer took long.

        A worker that was paused between the broker's answer and its own look at it would be behind
        by the pause, and its leases over too early.
        """
        for _ in range(READINGS_MAX):
            asked_s = self._world.monotonic_s()
            broker_ms = await connection.clock_ms(stream)
            trip_s = self._world.monotonic_s() - asked_s
            if trip_s <= TRIP_S_MAX:
                break
        else:
            log.warning("the broker's clock took %.1f s to read; the last reading counts", trip_s)
        with self._taking:
            self._take(broker_ms, asked_s, trip_s)

    async def keep(self, connection: Broker, stream: str) -> None:
        """Read the broker's clock twice in each `reading_s`, and when the wall clock is set."""
        wall_ahead_ms = self._world.wall_ms() - self.steady_ms()
        while True:
            await asyncio.sleep(min(LOOK_S, self.reading_s / 4))
            ahead_ms = self._world.wall_ms() - self.steady_ms()
            set_by_ms, wall_ahead_ms = ahead_ms - wall_ahead_ms, ahead_ms
            if abs(set_by_ms) >= STEP_MS:
                log.warning(
                    "the clock of this machine was set %s by %.1f s: leases do not depend on it; "
                    "the broker's clock is read again",
                    "forward" if set_by_ms > 0 else "back",
                    abs(set_by_ms) / 1000,
                )
            elif self._world.monotonic_s() - self._kept.asked_s < self.reading_s / 2:
                continue
            try:
                await self.read(connection, stream)
            except Denied:
                raise
            except Unreachable as error:
                log.warning("%s; going on by the last reading of the broker's clock", error)

    def _take(self, broker_ms: int, asked_s: float, trip_s: float) -> None:
        """Keep a reading, unless another thread has asked later and heard already.

        The broker took its time about half way between the question and its answer.
        """
        before = self._kept
        if asked_s < before.asked_s:
            return
        trip_ms = int(trip_s * 1000)
        offset_ms = broker_ms - int(asked_s * 1000) - trip_ms // 2
        set_by_ms = offset_ms - before.offset_ms
        since_s = before.since_s
        if before.asked_s == NEVER_S:
            since_s = asked_s
        elif abs(set_by_ms) >= STEP_MS + (trip_ms + before.trip_ms) // 2:
            since_s = self._world.monotonic_s()
            log.warning(
                "the broker's clock went %s by %.1f s: it was set, or another node's clock counts "
                "now, or this machine stood still. Keep the clocks of all nodes together (NTP). "
                "Leases of other workers are left alone for a while",
                "forward" if set_by_ms > 0 else "back",
                abs(set_by_ms) / 1000,
            )
        self._kept = _Kept(offset_ms, trip_ms, asked_s, since_s)
