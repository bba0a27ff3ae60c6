"""A source: one replica of a service that streams tasks, with its own counter and its own log.

Run as `python -m fencepost.demo.source`. It keeps its events in memory. A client that sends an id
which this replica holds gets what came after it; one that sends an id from elsewhere gets 200 and
whatever comes next, like most servers. With `--declare` it names its generation and the oldest id
that it holds, which is all that a client needs to know better. With `--window N` it holds the last
N events only, and counts on from whatever id a client names: past the window it starts afresh
without a word, and the ids happen to align.

Everything it emits and sends is written to its log file, one JSON object a line, before the bytes
leave: the log is the truth that clients are counted against.
"""

import argparse
import asyncio
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

GENERATION_HEADER = "stream-generation"
FLOOR_HEADER = "stream-floor"
EVENT_TYPE = "task.assigned"


class Cut(ConnectionAbortedError):
    """The connection is broken off in the middle, as a crash would."""


class Replica:
    def __init__(self, name: str, first_id: int, log: Path, *, declare: bool, window: int) -> None:
        self.name = name
        self.declare = declare
        self.window = window
        self._first_id = first_id
        self._tasks: list[str] = []
        self._log = log.open("a", buffering=1)
        self._connections = 0
        self._changed = asyncio.Condition()
        self._cuts = 0

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/events/{client}", self.events),
                Route("/emit", self.emit, methods=["POST"]),
                Route("/cut", self.cut, methods=["POST"]),
            ]
        )

    async def events(self, request: Request) -> Response:
        client = request.path_params["client"]
        asked = request.headers.get("last-event-id", "")
        self._connections += 1
        self._note(what="connected", client=client, connection=self._connections, asked=asked)
        return StreamingResponse(
            self._stream(client, self._connections, *self._start_for(asked)),
            media_type="text/event-stream",
            headers=self._declarations(),
        )

    async def emit(self, request: Request) -> Response:
        for key in (await request.json())["tasks"]:
            self._tasks.append(key)
            self._note(what="emitted", id=self._first_id + len(self._tasks) - 1, key=key)
        async with self._changed:
            self._changed.notify_all()
        return JSONResponse({"emitted": len(self._tasks)})

    async def cut(self, request: Request) -> Response:
        async with self._changed:
            self._cuts += 1
            self._changed.notify_all()
        return JSONResponse({"cut": True})

    def _start_for(self, asked: str) -> tuple[int, int]:
        """Return the index of the first event to send, and how far its shown id is off its own."""
        end = self._first_id + len(self._tasks)
        oldest = max(self._first_id, end - self.window) if self.window else self._first_id
        if asked.isdigit() and oldest - 1 <= int(asked) < end:
            return int(asked) - self._first_id + 1, 0
        if asked.isdigit() and self.window:
            return len(self._tasks), int(asked) + 1 - end
        return len(self._tasks), 0

    def _declarations(self) -> dict[str, str]:
        if not self.declare:
            return {}
        return {GENERATION_HEADER: self.name, FLOOR_HEADER: str(self._first_id)}

    async def _stream(
        self, client: str, connection: int, index: int, shift: int
    ) -> AsyncIterator[bytes]:
        cuts = self._cuts
        yield b": welcome\n\n"
        while True:
            while index < len(self._tasks):
                key, number = self._tasks[index], self._first_id + index
                shown = number + shift
                sent = {"client": client, "connection": connection, "id": number, "key": key}
                self._note(what="sent", shown=shown, **sent)
                data = json.dumps({"idempotency_key": key, "title": f"task {key}"})
                yield f"id: {shown}\nevent: {EVENT_TYPE}\ndata: {data}\n\n".encode()
                index += 1
            if self._cuts != cuts:
                raise Cut("cut by the demo")
            async with self._changed:
                if index >= len(self._tasks) and self._cuts == cuts:
                    await self._changed.wait()

    def _note(self, **line: Any) -> None:
        self._log.write(json.dumps({"replica": self.name, **line}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", required=True)
    parser.add_argument("--fd", type=int, required=True, help="an inherited, listening socket")
    parser.add_argument("--first-id", type=int, required=True)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--declare", action="store_true")
    parser.add_argument("--window", type=int, default=0)
    given = parser.parse_args()
    replica = Replica(
        given.name, given.first_id, given.log, declare=given.declare, window=given.window
    )
    config = uvicorn.Config(
        replica.app(), log_level="critical", lifespan="off", timeout_graceful_shutdown=1
    )
    asyncio.run(uvicorn.Server(config).serve(sockets=[socket.socket(fileno=given.fd)]))


if __name__ == "__main__":
    main()
