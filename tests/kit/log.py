"""A real HTTP source that keeps a log and serves it live: honest, silent or forgetful."""

import asyncio
import contextlib
import json
import sys

from kit.source import Request, ScriptedSource


class LogSource(ScriptedSource):
    """Serves its log from behind the position that is asked for, and then what is added to it.

    `declares` makes it name its generation and its window in each response; without, it is the
    silent kind that nobody can verify. `forgets` makes it ignore the position, and start over.
    `at_once` is how many events a connection brings before it ends; None: it never does.
    """

    def __init__(
        self, *, declares: bool = True, forgets: bool = False, at_once: int | None = None
    ) -> None:
        super().__init__()
        self.at_once = at_once
        self.log: list[str] = []
        self.declares = declares
        self.forgets = forgets
        self._added = asyncio.Condition()

    async def add(self, *keys: str) -> None:
        """Append an event for each key; its id is its place in the log, from 1."""
        async with self._added:
            self.log += keys
            self._added.notify_all()

    async def _respond(self, number: int, request: Request, writer: asyncio.StreamWriter) -> None:
        head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
        if self.declares:
            head += "gen: g1\r\nfloor: 1\r\n"
        writer.write(f"{head}transfer-encoding: chunked\r\n\r\n".encode())
        place = int(request.asked) if request.asked and not self.forgets else 0
        last = place + self.at_once if self.at_once is not None else sys.maxsize
        with contextlib.suppress(ConnectionError):
            while place < last and not self._cut.is_set():
                for key in self.log[place:last]:
                    place += 1
                    self._write(writer, f"id: {place}\ndata: {json.dumps({'k': key})}\n\n")
                await writer.drain()
                if place < last:
                    await self._wait_beyond(place)
            if place == last:
                writer.write(b"0\r\n\r\n")
                await writer.drain()

    async def _wait_beyond(self, place: int) -> None:
        async with self._added:
            await self._added.wait_for(lambda: len(self.log) > place or self._cut.is_set())

    def _write(self, writer: asyncio.StreamWriter, text: str) -> None:
        chunk = text.encode()
        writer.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
