"""A source on the official MCP Python SDK: tasks as notifications on every session's own stream.

Run as `python -m fencepost.demo.mcp_source`. It keeps its sessions and an event store in memory, as
the SDK's examples do, so a new process knows neither. Each client has an endpoint with a store of
its own: the SDK keeps every session's stream under one name, so with one store for both, one
client's resume would bring the other's events as well. A client calls the tool `follow` in its
session to be told of tasks. What is emitted and sent is logged as the plain source logs it; "sent"
is noted by a wrapper around the SDK's application, from the bytes that leave.
"""

import argparse
import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.streamable_http import EventMessage, EventStore
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fencepost_schemas.sse import Decoder

CLIENTS = ("naive", "fencepost")
LOGGER = "tasks"


class Store(EventStore):
    """Every event of this process, by its id and in its stream."""

    def __init__(self) -> None:
        self._events: list[tuple[str, str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        event_id = str(uuid4())
        self._events.append((event_id, stream_id, message))
        return event_id

    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> str | None:
        places = [place for place, (id, _, _) in enumerate(self._events) if id == last_event_id]
        if not places:
            return None
        stream = self._events[places[0]][1]
        for event_id, stream_id, message in list(self._events[places[0] + 1 :]):
            if stream_id == stream and message is not None:
                await send_callback(EventMessage(message, event_id))
        return stream


class McpReplica:
    def __init__(self, name: str, log: Path) -> None:
        self.name = name
        self._log = log.open("a", buffering=1)
        self._numbers: dict[str, int] = {}
        self._count = 0
        self._followers: list[Any] = []
        self._connections = 0

    def app(self) -> ASGIApp:
        apps = {client: self._endpoint(client) for client in CLIENTS}

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            async with AsyncExitStack() as stack:
                for app in apps.values():
                    await stack.enter_async_context(app.router.lifespan_context(app))
                yield

        outer = Starlette(routes=[Route("/emit", self.emit, methods=["POST"])], lifespan=lifespan)
        for client, app in apps.items():
            outer.router.routes.append(Mount(f"/{client}", self._watched(app, client)))
        return outer

    def _endpoint(self, client: str) -> Starlette:
        server = MCPServer(f"demo-{client}")

        @server.tool()
        async def follow(ctx: Context) -> str:
            """Tell this session of every task from now on."""
            self._followers.append(ctx.session)
            return "following"

        return server.streamable_http_app(
            event_store=Store(),
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )

    async def emit(self, request: Request) -> Response:
        for key in (await request.json())["tasks"]:
            self.note_emitted(key)
            data = {"idempotency_key": key, "title": f"task {key}"}
            for session in self._followers:
                await session.send_log_message(level="info", data=data, logger=LOGGER)
        return JSONResponse({"emitted": self._count})

    def note_emitted(self, key: str) -> None:
        self._count += 1
        self._numbers[key] = self._count
        self._note(what="emitted", id=self._count, key=key)

    def _watched(self, app: ASGIApp, client: str) -> ASGIApp:
        """Return the app, with what leaves on its event streams noted in the log."""

        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http" or scope["method"] != "GET":
                await app(scope, receive, send)
                return
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            self._connections += 1
            visit = {"client": client, "connection": self._connections}
            decoder = Decoder()

            async def noting(message: Message) -> None:
                if message["type"] == "http.response.start" and message["status"] == 200:
                    asked = headers.get("last-event-id", "")
                    self._note(what="connected", asked=asked, **visit)
                for frame in decoder.feed(message.get("body", b"")):
                    self._note_sent(frame.data, frame.last_event_id, visit)
                await send(message)

            await app(scope, receive, noting)

        return watched

    def _note_sent(self, data: str | None, shown: str, visit: dict[str, Any]) -> None:
        if not data:
            return
        task = json.loads(data).get("params", {}).get("data", {})
        key = task.get("idempotency_key")
        if key is not None:
            self._note(what="sent", shown=shown, id=self._numbers[key], key=key, **visit)

    def _note(self, **line: Any) -> None:
        self._log.write(json.dumps({"replica": self.name, **line}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", required=True)
    parser.add_argument("--fd", type=int, required=True, help="an inherited, listening socket")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--early", nargs="*", default=[], help="tasks from before anybody listens")
    given = parser.parse_args()
    replica = McpReplica(given.name, given.log)
    for key in given.early:
        replica.note_emitted(key)
    config = uvicorn.Config(replica.app(), log_level="critical", timeout_graceful_shutdown=1)
    asyncio.run(uvicorn.Server(config).serve(sockets=[socket.socket(fileno=given.fd)]))


if __name__ == "__main__":
    main()
