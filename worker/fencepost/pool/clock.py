"""The broker's clock: leases must not depend on this machine's."""

from fencepost.ports import World


class BrokerClock:
    """Kept as an offset to this machine's clock; `set` it now and then."""

    def __init__(self, world: World) -> None:
        self.offset_ms = 0
        self._world = world

    def set(self, broker_ms: int) -> None:
        self.offset_ms = broker_ms - self._world.wall_ms()

    def now_ms(self) -> int:
        return self._world.wall_ms() + self.offset_ms
