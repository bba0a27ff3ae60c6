"""A real HTTP source on a real socket that answers each connection by a script."""

import asyncio
import contextlib
import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Self


class End(Enum):
    """What happens once a reply's chunks are sent."""

    CLOSE = "close"
    """The body ends properly."""
    BREAK = "break"
    """The connection is reset in the middle of the body."""
    HANG = "hang"
    """The connection stays open and silent until the source is stopped or `cut`."""


@dataclass(frozen=True)
class Reply:
    """One scripted answer. `body` chunks are sent one after the other, as they are."""

    body: Sequence[bytes] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})
    end: End = End.CLOSE


@dataclass(frozen=True)
class Request:
    """`head` is the request as it came, in Latin-1; header names are lower case in `headers`."""

    path: str
    headers: dict[str, str]
    head: str = ""

    @property
    def asked(self) -> str | None:
        """The Last-Event-ID that was sent, None where none was."""
        return self.headers.get("last-event-id")


def sse(*events: tuple[str, str], type: str = "task") -> bytes:
    """Return events of (id, data) as they travel."""
    return "".join(f"id: {id}\nevent: {type}\ndata: {data}\n\n" for id, data in events).encode()


def stream(*chunks: bytes, end: End = End.CLOSE, **headers: str) -> Reply:
    """Return a 200 with an event stream; header names are written with underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(chunks, headers={"content-type": "text/event-stream", **named}, end=end)


@contextlib.contextmanager
def _closing(writer: asyncio.StreamWriter) -> Iterator[None]:
    try:
        yield
    finally:
        writer.close()


class ScriptedSource:
    """Answers the first connection with the first reply, and so on; the last one repeats.

    Use as an async context manager. `requests` is what was asked, in order. With `tls` it speaks
    TLS, and its url says so.
    """

    def __init__(self, *script: Reply, tls: ssl.SSLContext | None = None) -> None:
        self.script = list(script)
        self._tls = tls
        self.requests: list[Request] = []
        self.url = ""
        self._server: asyncio.Server | None = None
        self._asked = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self._cut = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls)
        port = self._server.sockets[0].getsockname()[1]
        scheme = "https" if self._tls is not None else "http"
        self.url = f"{scheme}://127.0.0.1:{port}/events"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()
        await asyncio.sleep(0)  # let the closed transports say goodbye

    def cut(self) -> None:
        """Break every connection that hangs, and every one that would hang later."""
        self._cut.set()

    async def asked_times(self, count: int, limit_s: float = 20.0) -> None:
        """Return once so many requests have come."""
        async with asyncio.timeout(limit_s), self._asked:
            await self._asked.wait_for(lambda: len(self.requests) >= count)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._answer(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError), _closing(writer):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            request_line, *lines = head.split("\r\n")
            named = (line.split(":", 1) for line in lines if ":" in line)
            headers = {name.strip().lower(): value.strip() for name, value in named}
            number = len(self.requests)
            request = Request(request_line.split(" ")[1], headers, head)
            async with self._asked:
                self.requests.append(request)
                self._asked.notify_all()
            await self._respond(number, request, writer)

    async def _respond(self, number: int, request: Request, writer: asyncio.StreamWriter) -> None:
        await self._send(self.script[min(number, len(self.script) - 1)], writer)

    async def _send(self, reply: Reply, writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {reply.status} scripted"]
        lines += [f"{name}: {value}" for name, value in reply.headers.items()]
        writer.write(("\r\n".join([*lines, "transfer-encoding: chunked"]) + "\r\n\r\n").encode())
        for chunk in reply.body:
            writer.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
            await writer.drain()
        if reply.end is End.HANG:
            await self._cut.wait()
        if reply.end is End.CLOSE:
            writer.write(b"0\r\n\r\n")
        await writer.drain()
