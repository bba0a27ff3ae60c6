"""The stage of one act: replicas, balancers, a broker, and both clients on the same events."""

import asyncio
import contextlib
import functools
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx2
import msgspec

from fencepost.broker.backlog import nothing_left
from fencepost.broker.connection import Connection
from fencepost.broker.embedded import EmbeddedBroker
from fencepost.broker.jetstream import connect
from fencepost.clock import monotonic_s
from fencepost.demo.app import SINK_VARIABLE
from fencepost.demo.balancer import Balancer
from fencepost.demo.casts import SOURCE, Cast
from fencepost.demo.tally import ServerLog, read_log
from fencepost.errors import NotFine
from fencepost.lifeline import Lifeline
from fencepost.settings import Broker
from fencepost.settings_file import login_for
from fencepost_schemas.event import event_of
from fencepost_schemas.question import Held
from fencepost_schemas.subject import ANSWERS, EVENTS, QUESTIONS, Subjects
from fencepost_schemas.verdict import EpochRecord

NAIVE, FENCEPOST = "naive", "fencepost"
CONSUMER = "fp-demo"
WAIT_S = 30.0
LOOK_S = 0.05
STOP_S = 10.0


class ReplicaPlan(msgspec.Struct, frozen=True):
    """One server process. `options` are its arguments; `late` leaves its start to the act, on the
    port of the replica before it."""

    name: str
    options: tuple[str, ...] = ()
    late: bool = False


class Stage:
    """What an act plays on: emit, cut, and wait until something is so."""

    def __init__(self, folder: Path, cast: Cast, plans: list[ReplicaPlan]) -> None:
        self.folder = folder
        self.broker = ""
        self.ports: dict[str, int] = {}
        self.balancers: list[Balancer] = []
        self._cast = cast
        self._plans = {plan.name: plan for plan in plans}
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._http = httpx2.AsyncClient(trust_env=False)

    # --- what the director does
    async def emit(self, replica: str, tasks: list[str]) -> None:
        await self._post(replica, "emit", {"tasks": tasks})

    async def start(self, replica: str, port: int = 0) -> None:
        """Start a replica; its port is known at once, for its socket is bound here."""
        plan = self._plans[replica]
        with socket.socket() as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(("127.0.0.1", port))
            listening.listen()
            self.ports[replica] = listening.getsockname()[1]
            line = [sys.executable, "-m", self._cast.source, "--name", replica]
            line += ["--fd", str(listening.fileno())]
            line += ["--log", str(self.folder / f"{replica}.log"), *plan.options]
            (self.folder / f"{replica}.log").touch()
            self._processes[replica] = await _start(
                self.folder, replica, line, pass_fds=(listening.fileno(),)
            )

    async def kill(self, replica: str) -> None:
        """End a replica as a crash does."""
        self._processes[replica].kill()
        await self._processes[replica].wait()

    def break_connections(self) -> None:
        """Break both clients' connections on the way, and leave the server as it is."""
        for balancer in self.balancers:
            balancer.cut()

    async def cut(self, replica: str) -> None:
        """Break every connection of a replica in the middle."""
        await self._post(replica, "cut", {})

    async def until_attached(self, replica: str, visits: int = 1) -> None:
        """Wait until each client has connected to this replica so many times."""
        await self._until(
            f"both clients on {replica}",
            lambda: all(
                sum(visit.replica == replica for visit in self.log(client).visits) >= visits
                for client in (NAIVE, FENCEPOST)
            ),
        )

    async def until_done(self) -> None:
        """Wait until both clients have dealt with everything that was sent to them."""
        await self._until(
            "the naive client to be done",
            lambda: _lines(self.sink(NAIVE)) >= self._sent(NAIVE),
        )
        connection = await self.connection()
        try:
            deadline = monotonic_s() + WAIT_S
            while not await self._settled(connection):
                if monotonic_s() > deadline:
                    raise NotFine(f"the demo's worker did not finish; see {self.folder}")
                await asyncio.sleep(LOOK_S)
        finally:
            await connection.close()

    # --- what is left to count
    def log(self, client: str) -> ServerLog:
        return read_log((self.folder / f"{name}.log" for name in self.ports), client)

    def sink(self, client: str) -> Path:
        return self.folder / f"{client}.sink"

    async def records(self) -> list[EpochRecord]:
        """Return the verdict records of every connection, in order."""
        connection = await self.connection()
        try:
            subject = Subjects().epochs_of(SOURCE)
            found = [
                msgspec.json.decode(stored.payload, type=EpochRecord)
                async for stored in connection.scan(EVENTS, subject)
            ]
        finally:
            await connection.close()
        return [record for record in found if record.bridge != "init" and not record.early]

    async def waiting(self) -> frozenset[str]:
        """Return the keys of the tasks that are held under a question without an answer."""
        connection = await self.connection()
        try:
            answered = await connection.subjects(ANSWERS, Subjects().answers())
            closed = {subject.rsplit(".", 1)[1] for subject in answered}
            keys = set()
            async for stored in connection.scan(QUESTIONS, f"{Subjects().prefix}.held.>"):
                held = msgspec.json.decode(stored.payload, type=Held)
                if stored.subject.split(".")[3] not in closed and held.handler:
                    keys.add(event_of(held.headers, held.payload).key or "")
        finally:
            await connection.close()
        return frozenset(keys)

    async def connection(self) -> Connection:
        broker = Broker(servers=(self.broker,))
        return await connect(broker, login_for(broker, "desk"), "desk")

    async def close(self) -> None:
        await self._http.aclose()
        for process in self._processes.values():
            await _stop(process)

    # --- inside
    async def _post(self, replica: str, path: str, body: dict[str, list[str]]) -> None:
        reply = await self._http.post(f"http://127.0.0.1:{self.ports[replica]}/{path}", json=body)
        reply.raise_for_status()

    async def _until(self, what: str, so: Callable[[], bool]) -> None:
        deadline = monotonic_s() + WAIT_S
        while not so():
            if monotonic_s() > deadline:
                raise NotFine(f"the demo waited {WAIT_S:g} s for {what}; see {self.folder}")
            await asyncio.sleep(LOOK_S)

    def _sent(self, client: str) -> int:
        """Return how many events were sent, each counted once however often it was replayed."""
        visits = self.log(client).visits
        return len({(visit.replica, sent.id) for visit in visits for sent in visit.sent})

    async def _settled(self, connection: Connection) -> bool:
        """Return True once all that was sent to the bridge is published, and acked by the pool."""
        filters = await connection.api(
            f"STREAM.INFO.{EVENTS}", {"subjects_filter": Subjects().events_of()}
        )
        published = sum((filters["state"].get("subjects") or {}).values())
        if published < self._sent(FENCEPOST):
            return False
        return await nothing_left(connection, EVENTS, CONSUMER)


@asynccontextmanager
async def set_stage(folder: Path, cast: Cast, plans: list[ReplicaPlan]) -> AsyncIterator[Stage]:
    """Start everything one act needs in this folder; end it all when the act is over."""
    async with AsyncExitStack() as stack:
        stage = Stage(folder, cast, plans)
        stack.push_async_callback(stage.close)
        for plan in plans:
            if not plan.late:
                await stage.start(plan.name)
        broker = await stack.enter_async_context(EmbeddedBroker(folder / "broker"))
        stage.broker = broker.url
        urls = {}
        for client in (NAIVE, FENCEPOST):
            # A balancer a client: with one for both, the one would turn the wheel for the other.
            balancer = await stack.enter_async_context(Balancer(list(stage.ports.values())))
            stage.balancers.append(balancer)
            path = cast.path.format(client=client)
            urls[client] = f"http://127.0.0.1:{balancer.port}{path}"
        config = folder / "fencepost.toml"
        config.write_text(cast.config(urls[FENCEPOST]), "utf-8")
        await _start_clients(stack, stage, config, [cast.naive, urls[NAIVE]])
        yield stage


async def _start_clients(
    stack: AsyncExitStack, stage: Stage, config: Path, naive: list[str]
) -> None:
    """Begin the source, and start the naive client beside a bridge and a worker."""
    folder = stage.folder
    common = ["--config", str(config), "--server", stage.broker]
    fencepost = [sys.executable, "-m", "fencepost"]
    init = await _start(folder, "init", [*fencepost, "init", *common])
    if await init.wait():
        raise NotFine(f"the demo's init failed: {_last_line(folder / 'init.out')}")
    for name, line in (
        ("worker", [*fencepost, "worker", *common, "--app", "fencepost.demo.app:app"]),
        ("bridge", [*fencepost, "bridge", *common]),
        ("naive", [sys.executable, "-m", *naive, str(stage.sink(NAIVE))]),
    ):
        environment = {SINK_VARIABLE: str(stage.sink(FENCEPOST))}
        process = await _start(folder, name, line, environment)
        stack.push_async_callback(_stop, process)


@functools.cache
def _lifeline() -> Lifeline:
    """Return what all processes of the demo end with, where this one is killed."""
    return Lifeline()


async def _start(
    folder: Path,
    name: str,
    line: list[str],
    environment: dict[str, str] | None = None,
    pass_fds: tuple[int, ...] = (),
) -> asyncio.subprocess.Process:
    line, descriptors = _lifeline().command(line, STOP_S)
    with (folder / f"{name}.out").open("wb") as output:
        return await asyncio.create_subprocess_exec(
            *line,
            stdout=output,
            stderr=output,
            env={**os.environ, **(environment or {})},
            pass_fds=(*pass_fds, *descriptors),
            start_new_session=True,
        )


async def _stop(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), STOP_S)
    except TimeoutError:
        process.kill()
        await process.wait()


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _last_line(path: Path) -> str:
    lines = path.read_text("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
