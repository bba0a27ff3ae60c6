"""The product's own bridge and pool as processes that can be paused and killed."""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from fencepost import Context, Fencepost, NotApplied, Reject
from fencepost.bridge.genesis import begin
from fencepost.bridge.run import follow_alone
from fencepost.bridge.shelf import Shelf
from fencepost.errors import Fenced, Unreachable
from fencepost.ledgers.kv import KvLedger, ensure_identity
from fencepost.pool.worker import run_worker
from fencepost.testing.memory import MemoryBroker, MemoryConnection
from fencepost.testing.simulator.history import History, Published, Trapped
from fencepost.testing.simulator.loop import Process, outside
from fencepost.testing.simulator.plan import SOURCE, Plan, settings_for
from fencepost.testing.simulator.sink import Sink
from fencepost.testing.simulator.source import SimulatedSource
from fencepost.testing.simulator.traps import Deed, Killed, Kind, Trap
from fencepost.testing.simulator.world import SimulatedWorld
from fencepost_schemas.event import event_of
from fencepost_schemas.row import Row, decode_row
from fencepost_schemas.subject import EVENTS, LEDGER, Subjects

SKEW_MS = 600_000
RESTART_S = 1.0


class House:
    """All processes of one run, and what they share."""

    def __init__(self, plan: Plan, chance: Random, history: History) -> None:
        self.plan = plan
        self.chance = chance
        self.history = history
        self.settings = settings_for(plan)
        self.subjects = Subjects(self.settings.broker.prefix)
        self.broker = MemoryBroker(self.settings.broker.prefix, chance)
        self.broker.vices.reply_limit_s = self.settings.broker.reply_s
        self.source = SimulatedSource(plan.source, chance, history)
        self.sink = Sink(chance, history, plan.flight_s)
        self.bridges: list[Process] = []
        self.workers: list[Process] = []
        self.traps: list[Trap] = []
        self._connections: dict[str, MemoryConnection] = {}
        self._worlds: dict[str, SimulatedWorld] = {}
        self._count = 0

    async def begin(self) -> None:
        """Do what `fencepost init` does."""
        outside(self.broker.run())
        connection = MemoryConnection(self.broker)
        world = SimulatedWorld(self.chance, 0)
        identity = await ensure_identity(
            connection, self.subjects, world.random_name(16), world.wall_ms()
        )
        await begin(Shelf(connection, self.subjects), SOURCE, "now", identity, world)
        self.start_bridge()
        for _ in range(self.plan.workers):
            self.start_worker()

    def start_bridge(self) -> Process:
        return self._start(Kind.BRIDGE, self.bridges, self._bridge)

    def start_worker(self) -> Process:
        return self._start(Kind.WORKER, self.workers, self._worker)

    def mend(self) -> None:
        """Start what is not there at all."""
        if not self.bridges:
            self.start_bridge()

    def kill(self, process: Process) -> None:
        """Do what SIGKILL and the kernel behind it do."""
        process.dead = True
        for processes in (self.bridges, self.workers):
            if process in processes:
                processes.remove(process)
        self._connections.pop(process.name).cut()
        self.source.leave(process)

    def published(self) -> list[Published]:
        """Return the events that the broker holds, oldest first."""
        events = self.broker.streams[EVENTS]
        return [
            Published(sequence, events.stored_s[sequence], event_of(one.headers, one.payload))
            for sequence, one in events.messages.items()
            if ".events." in one.subject
        ]

    def connection_of(self, process: Process) -> MemoryConnection:
        return self._connections[process.name]

    def world_of(self, process: Process) -> SimulatedWorld:
        return self._worlds[process.name]

    def row(self, subject: str) -> Row:
        """Return a row of the ledger as it stands."""
        ledger = self.broker.streams[LEDGER]
        return decode_row(ledger.messages[ledger.last[subject]].payload)

    # --- crash points
    def _trapped(self, process: Process, kind: Kind) -> Callable[[str], None]:
        """Return the `reached` of a process: it does what the first trap there wants done."""

        def reached(point: str) -> None:
            if process.stopped:
                return
            trap = next((one for one in self.traps if one.springs(kind, point, process)), None)
            if trap is None:
                return
            self.traps.remove(trap)
            now_s = asyncio.get_running_loop().time()
            self.history.trapped.append(Trapped(process.name, point, trap.deed.value, now_s))
            trap.caught = process
            trap.sprung.set()
            if trap.deed is Deed.PAUSE:
                process.paused = True
                return
            self.kill(process)
            raise Killed(point)

        return reached

    # --- processes
    def _start(self, kind: Kind, processes: list[Process], main: Any) -> Process:
        self._count += 1
        process = Process(f"{kind.value}-{self._count}")
        processes.append(process)
        connection = self._connections[process.name] = MemoryConnection(self.broker)
        world = SimulatedWorld(self.chance, self.chance.randint(-SKEW_MS, SKEW_MS))
        self._worlds[process.name] = world
        reached = self._trapped(process, kind)
        process.start(self._supervise(process, processes, main(connection, world, reached)))
        return process

    async def _supervise(
        self, process: Process, processes: list[Process], main: Coroutine[Any, Any, None]
    ) -> None:
        """Run a process to its end, and start another in its place unless one took it over."""
        try:
            await main
        except asyncio.CancelledError:
            raise
        except Fenced:
            # Whoever minds the processes starts one again once it sees that none is left.
            asyncio.get_running_loop().call_later(RESTART_S, self.mend, context=_nobody())
            again = False
        except Unreachable:
            again = True
        except Exception as error:  # whatever it is, a process must not end by it
            self.history.failures.append(f"{process.name}: {type(error).__name__}: {error}")
            again = False
        else:
            again = True
        loop = asyncio.get_running_loop()
        loop.call_soon(self.kill, process, context=_nobody())
        if again:
            start = self.start_bridge if processes is self.bridges else self.start_worker
            loop.call_later(RESTART_S, start, context=_nobody())

    async def _bridge(
        self, connection: MemoryConnection, world: SimulatedWorld, reached: Callable[[str], None]
    ) -> None:
        sources = self.settings.sources
        await follow_alone(self.settings, sources, connection, self.source, world, reached)

    async def _worker(
        self, connection: MemoryConnection, world: SimulatedWorld, reached: Callable[[str], None]
    ) -> None:
        ledger = KvLedger(connection, self.subjects)
        never = asyncio.Event()
        app = self._app()
        await run_worker(self.settings, app, connection, ledger, world, never, reached)

    # --- handlers
    def _app(self) -> Fencepost:
        app = Fencepost(self.settings.app)

        @app.on("task", name="charge", effect="once", barrier=self.plan.barrier)
        async def charge(payload: dict[str, Any], ctx: Context) -> None:
            await self._work(payload["task"], ctx)

        if self.plan.checker:

            @app.verify("charge")
            async def look(payload: dict[str, Any], ctx: Context) -> bool | None:
                # It knows who may still act, and tells the truth or nothing; a frank one says
                # what it sees, and relies on being asked when nobody can act any more.
                task = payload["task"]
                if not self.plan.frank and self.sink.may_land(ctx.handler, task):
                    return None
                return self.sink.landed(ctx.handler, task)

        if self.plan.mirror:

            @app.on("task", name="mirror", effect="idempotent")
            async def mirror(payload: dict[str, Any], ctx: Context) -> None:
                await self._work(payload["task"], ctx)

        return app

    async def _work(self, task: str, ctx: Context) -> None:
        """Take a while, act on the sink, and take a while again; some end otherwise."""
        with self.sink.attempt(ctx.handler, task):
            await self._work_on(task, ctx)

    async def _work_on(self, task: str, ctx: Context) -> None:
        draw = self.chance.random()
        await asyncio.sleep(self._duration())
        if draw < 0.03:
            raise Reject("no such order")
        if draw < 0.10 and ctx.attempt < 3:
            raise NotApplied("the receiver did not take it")
        if draw < 0.12 and ctx.attempt < 3:
            raise RuntimeError("before the effect")
        async with ctx.effect():
            await self.sink.call(ctx.handler, task, ctx.attempt)
            await asyncio.sleep(self._duration())
            if draw > 0.99 and ctx.attempt < 3:
                raise RuntimeError("behind the effect, and within the barrier")
        if draw > 0.98 and ctx.attempt < 3:
            raise RuntimeError("behind the effect")

    def _duration(self) -> float:
        longest = self.plan.slow_s if self.chance.random() < 0.3 else 0.2
        return self.chance.uniform(0.0, longest)


def _nobody() -> contextvars.Context:
    return contextvars.Context()
