"""A real server behind a gate, followed by a real bridge; both are the test's to drive."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import httpx2

from fencepost.broker.embedded import EmbeddedBroker
from fencepost_schemas.verdict import EpochRecord
from kit.house import House, house
from kit.wait import until
from real.gate import Gate, Visit
from real.process import Process

STEP_S = 20.0
PATIENT = {"stall_s": 60.0}
"""No connection ends for silence while a test takes its time."""


class Server(Protocol):
    """A real server. `path` and `source` are how a bridge is told of it.

    One that `greets` says something as soon as a subscriber is sure of what comes.
    """

    path: str
    greets: bool
    source: Mapping[str, Any]
    process: Process
    """Its life; there is none before it is started."""

    async def start(self) -> Process:
        """Begin another life of it."""

    async def emit(self, *keys: str) -> None: ...

    async def forget(self) -> None:
        """Have it lose its log, and go on as if nothing had been."""

    def emitted(self) -> list[str]:
        """Return every key that it has emitted in all its lives, in order."""


@dataclass
class Rig:
    server: Server
    gate: Gate
    home: House
    bridge: asyncio.Task[None]

    @property
    def process(self) -> Process:
        """The server as it lives now."""
        return self.server.process

    async def published(self, *keys: str) -> None:
        """Return once all of these are published."""

        async def there() -> bool:
            return set(keys) <= {event.key for event in await self.home.events()}

        await self.until(there, f"{keys[0]} to {keys[-1]}")

    async def judged(self, count: int) -> list[EpochRecord]:
        """Return the verdict records once there are so many."""

        async def there() -> bool:
            return len(await self.home.records()) >= count

        await self.until(there, f"verdict {count}")
        return await self.home.records()

    async def emit(self, *keys: str) -> None:
        await self.server.emit(*keys)

    async def attached(self) -> None:
        """Return once the bridge has a stream that it asked for without a position."""
        await self.gate.visited(lambda visits: any(map(self._begins, visits)), "stream")

    async def restart(self) -> None:
        """Kill the server and start it again, with nothing but what is on its disk."""
        await self.process.kill()
        self.gate.to = (await self.server.start()).port

    async def come_back(self) -> None:
        """Open the gate; return once the bridge has a verdict, or a stream without a position."""
        known, seen = len(await self.home.records()), len(self.gate.visits)
        self.gate.open()

        async def there() -> bool:
            fresh = any(map(self._begins, self.gate.visits[seen:]))
            return fresh or len(await self.home.records()) > known

        await self.until(there, "a stream or a verdict")

    def _begins(self, visit: Visit) -> bool:
        """Return True for a stream that was asked for without a position, and subscribed."""
        answered = visit.method == "GET" and visit.status == 200 and not visit.asked
        return answered and (visit.greeted or not self.server.greets)

    async def until(self, so: Callable[[], Awaitable[bool]], what: str) -> None:
        """Return once it is so; fail at once with what ended the bridge."""

        async def there() -> bool:
            if self.bridge.done():
                self.bridge.result()
            return await so()

        try:
            await until(there, what, STEP_S)
        except AssertionError as waited:
            said = f"{waited}\n{self.gate.visits}\n{self.process.last_words}"
            raise AssertionError(said) from None


@asynccontextmanager
async def running(server: Server) -> AsyncIterator[Process]:
    """Yield the first life of a server; the last one is ended afterwards."""
    process = await server.start()
    try:
        yield process
    finally:
        await server.process.kill()


@asynccontextmanager
async def followed(
    server: Server,
    broker: EmbeddedBroker,
    beside: Mapping[str, Any] | None = None,
    **bridge: float,
) -> AsyncIterator[Rig]:
    """Yield the server, followed by a bridge; both are ended afterwards.

    `beside` configures a second source of the same bridge, at the same url; `bridge` are settings.
    """
    async with running(server) as process, Gate() as gate:
        gate.to = process.port
        url = f"http://127.0.0.1:{gate.port}{server.path}"
        sources = {"orders": {"url": url, "keys": "durable", **server.source}}
        if beside is not None:
            sources["beside"] = {"url": url, "keys": "durable", **beside}
        async with house(broker, sources, bridge={**PATIENT, **bridge}) as home:
            await home.init()
            async with home.bridge() as following:
                yield Rig(server, gate, home, following)


async def tell(process: Process, what: str, *keys: str, topic: str = "") -> None:
    """Tell a server of ours something, past the gate."""
    async with beside_the_gate() as client:
        url = f"http://127.0.0.1:{process.port}/{what}"
        reply = await client.post(url, json={"keys": keys, "topic": topic})
        assert reply.status_code == 200, f"{what}: {reply.status_code}\n{process.last_words}"


def beside_the_gate() -> httpx2.AsyncClient:
    """Return a client of plain HTTP: certificates, which take long to read, are not wanted."""
    return httpx2.AsyncClient(trust_env=False, verify=False, timeout=STEP_S)


def lines_of(log: Path) -> list[str]:
    return log.read_text("utf-8").splitlines() if log.exists() else []
