"""The network between a bridge and a server, in the hands of a test: shut, opened, turned.

It forwards bytes as they are and reads along: who asked for what, and how it was answered.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self
from urllib.parse import parse_qs, urlsplit

CHUNK_BYTES = 65_536
LIMIT_S = 20.0
NO_POSITIONS = ("-1", "now")
"""Offsets of Durable Streams that name where to begin, and nothing that was had."""


@dataclass
class Visit:
    """One connection through the gate, which carries one request.

    `asked` is the position in it, "" without one. `status` is 0 until answered, and `greeted` is
    true once something came behind the headers.
    """

    method: str
    asked: str
    port: int
    status: int = 0
    greeted: bool = False


class Gate:
    """Listens where the bridge thinks the server is; `port` stays the same all along.

    `to` is where connections go, `detour` where the next ones go before that, one each.
    """

    def __init__(self) -> None:
        self.port = 0
        self.to = 0
        self.detour: list[int] = []
        self.visits: list[Visit] = []
        self._shut = False
        self._noticed = True
        self._kept: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Condition()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await self.shut()
        self.let_go()
        await self._server.wait_closed()

    async def shut(self, *, noticed: bool = True) -> None:
        """Break every connection in the middle, and take none until it is opened.

        Where it is not noticed, the server keeps its end until it is let go.
        """
        self._shut, self._noticed = True, noticed
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def let_go(self) -> None:
        """Break the ends that a server has kept."""
        for writer in self._kept:
            writer.close()
        self._kept.clear()

    def open(self) -> None:
        self._shut = False

    async def visited(self, so: Callable[[list[Visit]], bool], what: str) -> None:
        """Return once `so` holds of the visits."""
        try:
            async with asyncio.timeout(LIMIT_S), self._changed:
                await self._changed.wait_for(lambda: so(self.visits))
        except TimeoutError:
            raise AssertionError(f"no {what}; there were {self.visits}") from None

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._shut:
            writer.close()
            return
        port = self.detour.pop(0) if self.detour else self.to
        task = asyncio.create_task(self._forward(reader, writer, port))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int
    ) -> None:
        gone = (OSError, asyncio.IncompleteReadError)
        with contextlib.suppress(*gone), contextlib.closing(writer):
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)
            with self._closing(there_writer):
                head = await reader.readuntil(b"\r\n\r\n")
                visit = _read_head(head, port)
                await self._note(visit)
                there_writer.write(head)
                there = asyncio.create_task(_pump(reader, there_writer))
                back = asyncio.create_task(self._answer(visit, there_reader, writer))
                try:
                    await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    there.cancel()
                    back.cancel()
                    await asyncio.gather(there, back, return_exceptions=True)

    @contextlib.contextmanager
    def _closing(self, writer: asyncio.StreamWriter) -> Iterator[None]:
        try:
            yield
        finally:
            if self._shut and not self._noticed:
                self._kept.append(writer)
            else:
                writer.close()

    async def _answer(
        self, visit: Visit, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            status_line = await reader.readuntil(b"\r\n")
            writer.write(status_line)
            visit.status = int(status_line.split()[1])
            await self._note()
            writer.write(await reader.readuntil(b"\r\n\r\n"))
            writer.write(await reader.readexactly(1))
            visit.greeted = True
            await self._note()
            await _pump(reader, writer)

    async def _note(self, *visits: Visit) -> None:
        async with self._changed:
            self.visits += visits
            self._changed.notify_all()


def _read_head(head: bytes, port: int) -> Visit:
    request_line, *lines = head.decode("latin-1").split("\r\n")
    named = (line.split(":", 1) for line in lines if ":" in line)
    headers = {name.strip().lower(): value.strip() for name, value in named}
    method, target, _ = request_line.split(" ")
    asked = headers.get("last-event-id", "")
    for offset in parse_qs(urlsplit(target).query).get("offset", ()):
        asked = "" if offset in NO_POSITIONS else offset
    return Visit(method, asked, port)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
