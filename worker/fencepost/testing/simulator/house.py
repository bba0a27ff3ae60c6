"""The product's own bridge and pool as processes that can be paused and killed."""

import asyncio
import contextlib
import contextvars
from collections.abc import Coroutine, Iterator
from random import Random
from typing import Any

import msgspec

from fencepost import Context, Fencepost, NotApplied, Reject
from fencepost.bridge.genesis import begin
from fencepost.bridge.run import run_bridge
from fencepost.bridge.shelf import Shelf
from fencepost.errors import Fenced, Unreachable
from fencepost.ledgers.kv import KvLedger, ensure_identity
from fencepost.pool.worker import run_worker
from fencepost.testing.memory import MemoryBroker, MemoryConnection
from fencepost.testing.simulator.history import Effect, History
from fencepost.testing.simulator.loop import PROCESS, Process, outside
from fencepost.testing.simulator.plan import SOURCE, Plan, settings_for
from fencepost.testing.simulator.source import SimulatedSource
from fencepost.testing.simulator.world import SimulatedWorld
from fencepost_schemas.subject import Subjects

SKEW_MS = 600_000
RESTART_S = 1.0


class Sink:
    """Where effects land. A call that was sent lands whatever becomes of its sender."""

    def __init__(self, chance: Random, history: History) -> None:
        self._chance = chance
        self._history = history
        self._running: list[tuple[Process, str, str]] = []
        self._under_way: list[tuple[str, str]] = []

    def landed(self, handler: str, task: str) -> bool:
        return any((one.handler, one.task) == (handler, task) for one in self._history.effects)

    def may_land(self, handler: str, task: str) -> bool:
        """Return True while some attempt is alive, be it paused, or its call is on its way."""
        running = any(
            (name, its) == (handler, task) and not process.dead
            for process, name, its in self._running
        )
        return running or (handler, task) in self._under_way

    @property
    def still(self) -> bool:
        """True where nothing is on its way and no living process runs a handler."""
        return not self._under_way and all(process.dead for process, _, _ in self._running)

    @contextlib.contextmanager
    def attempt(self, handler: str, task: str) -> Iterator[None]:
        """Note that a handler runs, for as long as it does."""
        process = PROCESS.get()
        assert process is not None
        entry = (process, handler, task)
        self._running.append(entry)
        try:
            yield
        finally:
            self._running.remove(entry)

    async def call(self, handler: str, task: str, attempt: int) -> None:
        process = PROCESS.get()
        assert process is not None
        worker = process.name

        async def land() -> None:
            loop = asyncio.get_running_loop()
            await asyncio.sleep(self._chance.uniform(0.0, 0.5))
            self._under_way.remove((handler, task))
            self._history.effects.append(Effect(handler, task, worker, attempt, loop.time()))

        self._under_way.append((handler, task))
        await asyncio.shield(outside(land()))


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
        self.sink = Sink(chance, history)
        self.bridges: list[Process] = []
        self.workers: list[Process] = []
        self._connections: dict[str, MemoryConnection] = {}
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
        return self._start("bridge", self.bridges, self._bridge)

    def start_worker(self) -> Process:
        return self._start("worker", self.workers, self._worker)

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

    # --- processes
    def _start(self, kind: str, processes: list[Process], main: Any) -> Process:
        self._count += 1
        process = Process(f"{kind}-{self._count}")
        processes.append(process)
        connection = self._connections[process.name] = MemoryConnection(self.broker)
        world = SimulatedWorld(self.chance, self.chance.randint(-SKEW_MS, SKEW_MS))
        process.start(self._supervise(process, processes, main(connection, world)))
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

    async def _bridge(self, connection: MemoryConnection, world: SimulatedWorld) -> None:
        await run_bridge(self.settings, self.settings.sources, connection, self.source, world)

    async def _worker(self, connection: MemoryConnection, world: SimulatedWorld) -> None:
        ledger = KvLedger(connection, self.subjects)
        app = self._app()
        await run_worker(self.settings, app, connection, ledger, world, asyncio.Event())

    # --- handlers
    def _app(self) -> Fencepost:
        app = Fencepost(self.settings.app)

        @app.on("task", name="charge", effect="once")
        async def charge(payload: dict[str, Any], ctx: Context) -> None:
            await self._work(payload["task"], ctx)

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
        await self.sink.call(ctx.handler, task, ctx.attempt)
        await asyncio.sleep(self._duration())
        if draw > 0.98 and ctx.attempt < 3:
            raise RuntimeError("behind the effect")

    def _duration(self) -> float:
        longest = 3.0 if self.chance.random() < 0.3 else 0.2
        return self.chance.uniform(0.0, longest)


def task_of(payload: bytes) -> str:
    """Return which task an event's bytes are about."""
    return str(msgspec.json.decode(payload)["task"])


def _nobody() -> contextvars.Context:
    return contextvars.Context()
