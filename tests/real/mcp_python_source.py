"""A source on the official MCP Python SDK, as its examples build one; runs on 1.x and 2.x alike.

It imports nothing of fencepost, because the 1.x SDK lives in an environment of its own. A client
calls the tool `follow` to be told of events on its session's own stream, or `work` to be told on
the stream of that call until the work is finished. What happens is told to the source by POST, a
route each. A key is noted in a file before it is sent: that is what a test compares with.
"""

import argparse
import asyncio
import importlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import uvicorn
from mcp.server.streamable_http import EventMessage, EventStore
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

try:
    server_module: Any = importlib.import_module("mcp.server.mcpserver")
    Server, SECOND = server_module.MCPServer, True
except ImportError:
    server_module = importlib.import_module("mcp.server.fastmcp")
    Server, SECOND = server_module.FastMCP, False
Context: Any = server_module.Context


class Store(EventStore):
    """The events of every stream, the last `window` of each; ids are random or counted from 1.

    With a file it knows in the next process what it knew in this one. `behind_replay` is called
    when everything is replayed and before that is said, as time passes in a store that is slow.
    """

    def __init__(self, ids: str, window: int, file: Path | None) -> None:
        self._counted = ids == "counted"
        self._window = window
        self._file = file
        self._count = 0
        self.behind_replay: Callable[[], Awaitable[None]] = _nothing
        self._streams: dict[str, list[tuple[str, Any]]] = {}
        if file is not None and file.exists():
            for line in file.read_text("utf-8").splitlines():
                event_id, stream_id, message = json.loads(line)
                self._keep(event_id, stream_id, _message(message))

    def forget(self) -> None:
        """Begin anew, as a store does whose data are gone: with its counter at the beginning."""
        self._streams.clear()
        self._count = 0

    async def store_event(self, stream_id: str, message: Any) -> str:
        self._count += 1
        event_id = str(self._count) if self._counted else str(uuid4())
        self._keep(event_id, stream_id, message)
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps([event_id, stream_id, _plain(message)]) + "\n")
        return event_id

    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> str | None:
        for stream_id, events in self._streams.items():
            known = [place for place, (id, _) in enumerate(events) if id == last_event_id]
            if known:
                for event_id, message in list(events[known[0] + 1 :]):
                    if message is not None:
                        await send_callback(EventMessage(message, event_id))
                await self.behind_replay()
                return stream_id
        return None

    def _keep(self, event_id: str, stream_id: str, message: Any) -> None:
        events = self._streams.setdefault(stream_id, [])
        events.append((event_id, message))
        del events[: -self._window]


async def _nothing() -> None:
    """Replay at once."""


def _plain(message: Any) -> Any:
    if message is None:
        return None
    return message.model_dump(mode="json", by_alias=True, exclude_unset=True)


def _message(plain: Any) -> Any:
    if plain is None:
        return None
    if SECOND:
        return importlib.import_module("mcp_types").jsonrpc_message_adapter.validate_python(plain)
    return importlib.import_module("mcp.types").JSONRPCMessage.model_validate(plain)


class Source:
    def __init__(self, log: Path, store: Store | None) -> None:
        self._log = log.open("a", buffering=1, encoding="utf-8")
        self._store = store
        if store is not None:
            store.behind_replay = self._be_busy
        self._busy: list[str] = []
        self._slow = False
        self._replays = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._followers: list[tuple[str, Any, str | int | None]] = []
        self._finished = asyncio.Event()
        self._bus: Any = None
        self.server = self._server()

    def app(self) -> Starlette:
        arguments: dict[str, Any] = {}
        if SECOND:
            arguments = {"event_store": self._store, "transport_security": UNGUARDED}
        inner = self.server.streamable_http_app(**arguments)

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            async with inner.router.lifespan_context(inner):
                yield

        told = [self.emit, self.busy, self.settle, self.forget, self.ping, self.touch, self.finish]
        routes: list[Any] = [Route(f"/{one.__name__}", one, methods=["POST"]) for one in told]
        return Starlette(routes=[*routes, Mount("/", inner)], lifespan=lifespan)

    def _server(self) -> Any:
        arguments: dict[str, Any] = {"event_store": self._store, "transport_security": UNGUARDED}
        if SECOND:
            subscriptions: Any = importlib.import_module("mcp.server.subscriptions")
            self._bus = subscriptions.InMemorySubscriptionBus()
            arguments = {"subscriptions": self._bus}
        server = Server("real-source", **arguments)

        # One SDK's decorator has types and the other's has none.
        @server.tool()  # type: ignore[untyped-decorator]
        async def follow(ctx: Context, topic: str = "") -> str:
            """Tell this session of every event on the topic from now on."""
            self._followers.append((topic, ctx.session, None))
            return "following"

        # One SDK's decorator has types and the other's has none.
        @server.tool()  # type: ignore[untyped-decorator]
        async def work(ctx: Context) -> str:
            """Tell this call of every event until the work is finished."""
            self._followers.append(("", ctx.session, ctx.request_id))
            await self._finished.wait()
            return "worked"

        return server

    async def _emit(self, keys: list[str], on: str = "") -> None:
        for key in keys:
            self._note(key)
            for topic, session, call in self._followers:
                if topic == on:
                    await session.send_log_message(
                        level="info", data={"k": key}, logger="events", related_request_id=call
                    )

    async def _be_busy(self) -> None:
        if not self._slow:
            return
        self._replays += 1
        self._quiet.clear()
        keys, self._busy = self._busy, []
        await asyncio.sleep(SLOW_S)
        await self._emit(keys)
        self._replays -= 1
        if not self._replays:
            self._quiet.set()

    # --- what it is told
    async def emit(self, request: Request) -> Response:
        said = await request.json()
        await self._emit(said["keys"], said["topic"])
        return JSONResponse({})

    async def busy(self, request: Request) -> Response:
        """Be slow in every replay, and emit these in the next one, behind all that it brings."""
        self._slow = True
        self._busy += (await request.json())["keys"]
        return JSONResponse({})

    async def touch(self, request: Request) -> Response:
        """Say that resources have changed, on streams of `subscriptions/listen`."""
        subscriptions: Any = importlib.import_module("mcp.server.subscriptions")
        for key in (await request.json())["keys"]:
            self._note(key)
            await self._bus.publish(subscriptions.ResourceUpdated(uri=key))
        return JSONResponse({})

    async def settle(self, request: Request) -> Response:
        """Answer once no replay is under way."""
        await self._quiet.wait()
        return JSONResponse({})

    async def ping(self, request: Request) -> Response:
        _, session, _ = self._followers[-1]
        await asyncio.wait_for(session.send_ping(), 5.0)
        return JSONResponse({"answered": True})

    async def forget(self, request: Request) -> Response:
        if self._store is not None:
            self._store.forget()
        return JSONResponse({})

    async def finish(self, request: Request) -> Response:
        self._finished.set()
        return JSONResponse({})

    def _note(self, key: str) -> None:
        self._log.write(key + "\n")


SLOW_S = 0.2
UNGUARDED = TransportSecuritySettings(enable_dns_rebinding_protection=False)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fd", type=int, required=True, help="an inherited, listening socket")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--ids", choices=("random", "counted", "none"), default="random")
    parser.add_argument("--window", type=int, default=1_000)
    parser.add_argument("--file", type=Path)
    given = parser.parse_args()
    store = None if given.ids == "none" else Store(given.ids, given.window, given.file)
    config = uvicorn.Config(
        Source(given.log, store).app(), log_level="warning", timeout_graceful_shutdown=1
    )
    asyncio.run(uvicorn.Server(config).serve(sockets=[socket.socket(fileno=given.fd)]))


if __name__ == "__main__":
    main()
