"""A world of hostile servers, each on its own socket, and one bridge that follows them all.

They are followed at the same time, so that each row of a table also shows that one bad source does
nothing to its neighbours. A case says what its server sends and what is to be seen of it at last.
"""

import asyncio
import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fencepost.broker.embedded import EmbeddedBroker
from fencepost_schemas.event import ClassifiedEvent
from fencepost_schemas.verdict import EpochRecord
from kit.house import House, house
from kit.orders import TOKENS
from kit.source import End, Reply, Request, ScriptedSource, sse, stream

BRIDGE: dict[str, Any] = {
    "retry_first_s": 0.2,
    "retry_longest_s": 2.0,
    "healthy_s": 3.0,
    "headers_s": 4.0,
    "stall_s": 4.0,
    "event_s": 5.0,
    "overlap_s": 1.0,
}
LIMIT_S = 90.0
BEAT_S = 0.5
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ngen: g\r\nfloor: 1\r\n"
HANG = End.HANG
COMMAND = [sys.executable, "-S", "-c", "import time; print(time.time_ns())"]
"""Prints another token each time."""


Step = bytes | float | End


class Server(ScriptedSource):
    """Notes when it was asked; `{port}` in a header of its script is its own port.

    Where its last reply hangs, it goes on with empty lines, so that what is to be seen stays so;
    any other that hangs is silent.
    """

    def __init__(self, *script: Reply) -> None:
        super().__init__(*script)
        self.at_s: list[float] = []

    async def _respond(self, number: int, request: Request, writer: asyncio.StreamWriter) -> None:
        self.at_s.append(asyncio.get_running_loop().time())
        await self.answer(number, request, writer)

    async def answer(self, number: int, request: Request, writer: asyncio.StreamWriter) -> None:
        reply = self.script[min(number, len(self.script) - 1)]
        port = self.url.split(":")[2].split("/")[0]
        headers = {name: value.replace("{port}", port) for name, value in reply.headers.items()}
        sent = replace(reply, headers=headers)
        if reply.end is HANG and number >= len(self.script) - 1:
            await self._send(replace(sent, end=End.BREAK), writer)
            await self._beat(writer, b"1\r\n\n\r\n")
        else:
            await self._send(sent, writer)

    async def _beat(self, writer: asyncio.StreamWriter, beat: bytes) -> None:
        while not self._cut.is_set():
            await asyncio.sleep(BEAT_S)
            writer.write(beat)
            await writer.drain()


class Raw(Server):
    """Sends bytes as they are, and pauses (numbers) in between; HANG holds, an end closes."""

    def __init__(self, *connections: Sequence[Step]) -> None:
        super().__init__()
        self._connections = connections

    async def answer(self, number: int, request: Request, writer: asyncio.StreamWriter) -> None:
        last = number >= len(self._connections) - 1
        for step in self._connections[min(number, len(self._connections) - 1)]:
            if isinstance(step, bytes):
                writer.write(step)
                await writer.drain()
            elif isinstance(step, End):
                await (self._beat(writer, b"\n") if last else self._cut.wait())
            else:
                await asyncio.sleep(step)


@dataclass(frozen=True)
class Seen:
    """What a case came to: what its server was asked, what was published, judged and logged."""

    requests: list[Request]
    at_s: list[float]
    events: list[ClassifiedEvent]
    records: list[EpochRecord]
    said: list[str]

    @property
    def asked(self) -> list[str | None]:
        return [request.asked for request in self.requests]

    @property
    def verdicts(self) -> list[str]:
        return [record.verdict.kind.value for record in self.records]

    @property
    def reasons(self) -> set[str]:
        return {str(reason) for record in self.records for reason in record.verdict.reasons}


@dataclass(frozen=True)
class Case:
    """One row, or a part of one. `name` is the test's id and the source's name.

    `keys` are those of the events that must be published, in order, `asked` the positions of the
    first requests, `reasons` some that must be given, `said` parts of what must be logged.
    `requests` is how many there must be in the end, for a source that is stopped.
    """

    row: str
    name: str
    server: Callable[[], Server]
    keys: tuple[str, ...] = ()
    asked: tuple[str | None, ...] = ()
    verdicts: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    requests: int | None = None
    plain: dict[str, Any] = field(default_factory=lambda: TOKENS)
    fields: dict[str, Any] = field(default_factory=dict)
    wants: Callable[[Seen], bool] = lambda _: True
    also: Callable[[Seen], None] = lambda _: None

    def settled(self, seen: Seen) -> bool:
        return (
            len(seen.events) >= len(self.keys)
            and len(seen.requests) >= max(len(self.asked), self.requests or 0)
            and len(seen.records) >= len(self.verdicts)
            and set(self.reasons) <= seen.reasons
            and all(any(part in line for line in seen.said) for part in self.said)
            and self.wants(seen)
        )


def event(*numbers: int) -> bytes:
    """Return events whose ids are these numbers, and their keys as well."""
    return sse(*((str(number), f'{{"k":"{number}"}}') for number in numbers))


def ok(*numbers: int, end: End = End.CLOSE, **headers: str) -> Reply:
    """Return a stream of these events that declares its generation and its window."""
    return stream(event(*numbers), end=end, **{"gen": "g", "floor": "1", **headers})


def live(*numbers: int, **headers: str) -> Reply:
    return ok(*numbers, end=HANG, **headers)


def bare(*numbers: int, end: End = End.CLOSE) -> Reply:
    """Return a stream of these events that declares nothing."""
    return stream(event(*numbers), end=end)


def scripted(*script: Reply) -> Callable[[], Server]:
    return lambda: Server(*script)


def raw(*connections: Sequence[Step]) -> Callable[[], Server]:
    return lambda: Raw(*connections)


def status(code: int, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status=code, headers={"content-type": "text/plain", **named})


class _Log(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


async def follow_all(folder: Path, cases: Sequence[Case]) -> dict[str, Seen]:
    """Follow every case's server until each has settled, or the limit; return what was seen."""
    log = _Log()
    logger = logging.getLogger("fencepost")
    logger.addHandler(log)
    try:
        async with AsyncExitStack() as stack:
            broker = await stack.enter_async_context(EmbeddedBroker(folder / "broker"))
            servers = {case.name: await stack.enter_async_context(case.server()) for case in cases}
            sources = {case.name: _source(case, servers[case.name]) for case in cases}
            home = await stack.enter_async_context(house(broker, sources, bridge=BRIDGE))
            await home.init()
            async with home.bridge():
                await _settle(home, cases, servers, log.lines)
            return {case.name: await _seen(home, case, servers, log.lines) for case in cases}
    finally:
        logger.removeHandler(log)


def _source(case: Case, server: Server) -> dict[str, Any]:
    plain = {} if case.fields.get("dialect") == "mcp" else {"plain": case.plain}
    return {"url": server.url, "keys": "durable", "key": "/k", **plain, **case.fields}


async def _settle(
    home: House, cases: Sequence[Case], servers: dict[str, Server], lines: list[str]
) -> None:
    waiting = list(cases)
    deadline_s = asyncio.get_running_loop().time() + LIMIT_S
    while waiting and asyncio.get_running_loop().time() < deadline_s:
        waiting = [
            case for case in waiting if not case.settled(await _seen(home, case, servers, lines))
        ]
        await asyncio.sleep(0.2)


async def _seen(home: House, case: Case, servers: dict[str, Server], lines: list[str]) -> Seen:
    server = servers[case.name]
    return Seen(
        list(server.requests),
        list(server.at_s),
        await home.events(case.name),
        await home.records(case.name),
        [line for line in lines if line.startswith(f"{case.name}:")],
    )
