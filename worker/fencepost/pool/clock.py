"""The broker's clock: leases must not depend on this machine's."""

import logging

from fencepost.ports import Broker, World

log = logging.getLogger("fencepost.pool")

TRIP_S_MAX = 0.5
"""A reading that took longer to come says too little of when it was taken: half of that is how far
a lease may be judged too early, well below what a worker keeps between its last act and its end."""
READINGS_MAX = 5


class BrokerClock:
    """Kept as an offset to this machine's clock; `read` it now and then."""

    def __init__(self, world: World) -> None:
        self.offset_ms = 0
        self._world = world

    def set(self, broker_ms: int) -> None:
        self.offset_ms = broker_ms - self._world.wall_ms()

    def now_ms(self) -> int:
        return self._world.wall_ms() + self.offset_ms

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
                self.set(broker_ms + int(trip_s * 1000 / 2))
                return
        log.warning("the broker's clock took %.1f s to read; the last reading counts", trip_s)
        self.set(broker_ms + int(trip_s * 1000 / 2))
