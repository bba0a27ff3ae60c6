"""One house in two places: in memory, where time is virtual, and on a real nats-server.

What is played there is written once. In memory the same play is given again with other seeds: each
is another order of what happens at one moment.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, TypeVar, cast

from fencepost.app import Fencepost
from fencepost.bridge.genesis import begin
from fencepost.bridge.shelf import Shelf
from fencepost.broker.embedded import EmbeddedBroker
from fencepost.broker.jetstream import JetStream, connect
from fencepost.cli.init import InitReport
from fencepost.clock import RealWorld
from fencepost.ledgers.kv import KvLedger, ensure_identity
from fencepost.pool.crash_points import nothing_reached
from fencepost.pool.worker import Renewal, run_worker
from fencepost.ports import World
from fencepost.settings import Settings
from fencepost.settings_file import login_for
from fencepost.testing.memory import MemoryBroker, MemoryConnection
from fencepost.testing.simulator.loop import outside, run_virtual
from fencepost.testing.simulator.world import SimulatedWorld
from kit.house import House, house, make_settings
from kit.pool import SOURCE
from kit.wires import Wall, Wire

T = TypeVar("T")
Play = Callable[[House], Awaitable[T]]

LATENCY_S = 0.01
STOP_S = 10.0


class _Connection(MemoryConnection):
    """One that can be asked what tests ask of the broker's own API."""

    async def api(self, name: str, request: Any = None) -> dict[str, Any]:
        room, verb, stream, consumer = name.split(".")
        assert (room, verb) == ("CONSUMER", "INFO")
        held = self.broker.consumers.get((stream, consumer))
        if held is None:
            return {"error": {"description": "consumer not found"}}
        return {
            "config": {"filter_subjects": held.plan.subjects},
            "delivered": {"stream_seq": held.next_sequence - 1},
            "num_ack_pending": len(held.due),
        }


class MemoryHouse(House):
    """A house whose broker is in memory. What the kit does with a real one is done with it."""

    def __init__(self, settings: Settings, broker: MemoryBroker, chance: Random) -> None:
        super().__init__(settings, cast(JetStream, _Connection(broker)))
        self.broker = broker
        self.chance = chance

    async def init(self, start: str = "now") -> InitReport:
        world = SimulatedWorld(self.chance, 0)
        ledger = await ensure_identity(
            self.connection, self.subjects, world.random_name(16), world.wall_ms()
        )
        shelf = Shelf(self.connection, self.subjects)
        sources = list(self.settings.sources)
        begun = [name for name in sources if await begin(shelf, name, start, ledger, world)]
        return InitReport(
            ledger=ledger, streams_made=[], streams_mended=[], begun=begun, begun_before=[]
        )


class WalledWorld(RealWorld):
    """This machine's, but for its wall clock."""

    def __init__(self, wall: Wall) -> None:
        self._wall = wall

    def wall_ms(self) -> int:
        return super().wall_ms() + self._wall.ahead_ms


class WalledSimulatedWorld(SimulatedWorld):
    """A simulated machine's, but for its wall clock."""

    def __init__(self, chance: Random, wall: Wall) -> None:
        super().__init__(chance, 0)
        self._wall = wall

    def wall_ms(self) -> int:
        return super().wall_ms() + self._wall.ahead_ms


# --- the two places -----------------------------------------------------------------------------
def play_in_memory(play: Play[T], seed: int, **sections: Any) -> T:
    """Play in a house in memory, from `init` on, in virtual time."""
    chance = Random(seed)

    async def whole() -> T:
        broker = MemoryBroker(chance=chance)
        broker.vices.latency_s = LATENCY_S
        outside(broker.run())
        home = MemoryHouse(make_settings("nats://nowhere", SOURCE, **sections), broker, chance)
        await home.init()
        return await play(home)

    return run_virtual(whole(), Random(seed))


def play_on_broker(play: Play[T], folder: Path, **sections: Any) -> T:
    """Play in a house on a nats-server of its own, from `init` on."""

    async def whole() -> T:
        async with EmbeddedBroker(folder) as server, house(server, SOURCE, **sections) as home:
            await home.init()
            return await play(home)

    return asyncio.run(whole())


# --- workers ------------------------------------------------------------------------------------
@asynccontextmanager
async def worker(
    home: House,
    app: Fencepost,
    *,
    reached: Callable[[str], None] = nothing_reached,
    wire: Wire | None = None,
    wall: Wall | None = None,
    renewal: Renewal | None = None,
) -> AsyncIterator[asyncio.Task[None]]:
    """Run a worker, its connection spoiled by `wire`, its clock by `wall`; drain it."""
    connection = await _connect(home)
    seen = wire.over(connection) if wire is not None else connection
    ledger = KvLedger(seen, home.subjects)
    stop = asyncio.Event()
    world = _world(home, wall if wall is not None else Wall())
    running = asyncio.create_task(
        run_worker(home.settings, app, seen, ledger, world, stop, reached, renewal)
    )
    try:
        yield running
    finally:
        stop.set()
        await asyncio.wait([running], timeout=STOP_S)
        await connection.close()


async def _connect(home: House) -> "MemoryConnection | JetStream":
    if isinstance(home, MemoryHouse):
        return MemoryConnection(home.broker)
    settings = home.settings.broker
    return await connect(settings, login_for(settings, "worker"), "worker")


def _world(home: House, wall: Wall) -> World:
    if isinstance(home, MemoryHouse):
        return WalledSimulatedWorld(home.chance, wall)
    return WalledWorld(wall)
