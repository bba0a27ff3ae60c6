"""An MCP server with tasks, on the official Python SDK's low-level server.

A client calls the tool `follow` to be told on its session's own stream which tasks end. Tasks are
kept in a file, one id a line, and outlive the process; its sessions and its events do not.
"""

import argparse
import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.lowlevel.server import Server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

PAGE = 2
WHEN = "2026-01-01T00:00:00Z"
UNGUARDED = TransportSecuritySettings(enable_dns_rebinding_protection=False)


class TaskServer(Server[Any]):
    """Says that it lists tasks if it does; the SDK has no words for that of its own."""

    lists = True

    def get_capabilities(self, *given: Any, **named: Any) -> types.ServerCapabilities:
        found = super().get_capabilities(*given, **named)
        listing = types.TasksListCapability() if self.lists else None
        return found.model_copy(update={"tasks": types.ServerTasksCapability(list=listing)})


class Source:
    def __init__(self, file: Path, lists: bool) -> None:
        self._file = file
        self._sessions: list[Any] = []
        self.server = TaskServer("tasks", on_list_tools=self._tools, on_call_tool=self._follow)
        self.server.lists = lists
        self.server.add_request_handler("tasks/get", types.GetTaskRequestParams, self._get)
        self.server.add_request_handler("tasks/list", types.PaginatedRequestParams, self._list)

    def app(self) -> Starlette:
        inner = self.server.streamable_http_app(transport_security=UNGUARDED)

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            async with inner.router.lifespan_context(inner):
                yield

        routes = [Route("/emit", self.finish, methods=["POST"]), Mount("/", inner)]
        return Starlette(routes=routes, lifespan=lifespan)

    async def _tools(self, ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[])

    async def _follow(self, ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        self._sessions.append(ctx.session)
        return types.CallToolResult(content=[])

    async def _get(self, ctx: Any, params: types.GetTaskRequestParams) -> types.GetTaskResult:
        if params.task_id not in self._ids():
            raise MCPError(-32602, "Failed to retrieve task: Task not found")
        return types.GetTaskResult(**_task(params.task_id))

    async def _list(self, ctx: Any, params: types.PaginatedRequestParams) -> types.ListTasksResult:
        begin = int(params.cursor or 0)
        ids = self._ids()[begin : begin + PAGE]
        behind = begin + PAGE if begin + PAGE < len(self._ids()) else None
        return types.ListTasksResult(
            tasks=[types.Task(**_task(id)) for id in ids],
            next_cursor=str(behind) if behind is not None else None,
        )

    def _ids(self) -> list[str]:
        return self._file.read_text("utf-8").splitlines() if self._file.exists() else []

    async def finish(self, request: Request) -> Response:
        """Have tasks come to their end, and tell whoever follows."""
        for key in (await request.json())["keys"]:
            with self._file.open("a", encoding="utf-8") as lines:
                lines.write(key + "\n")
            params = types.TaskStatusNotificationParams(**_task(key), status_message="told")
            for session in self._sessions:
                await session.send_notification(types.TaskStatusNotification(params=params))
        return JSONResponse({})


def _task(id: str) -> dict[str, Any]:
    status = "working" if id.startswith("open") else "completed"
    return {
        "task_id": id,
        "status": status,
        "created_at": WHEN,
        "last_updated_at": WHEN,
        "ttl": None,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fd", type=int, required=True, help="an inherited, listening socket")
    parser.add_argument("--log", type=Path, required=True, help="where the tasks are")
    parser.add_argument("--unlisted", action="store_true")
    given = parser.parse_args()
    config = uvicorn.Config(
        Source(given.log, not given.unlisted).app(),
        log_level="warning",
        timeout_graceful_shutdown=1,
    )
    asyncio.run(uvicorn.Server(config).serve(sockets=[socket.socket(fileno=given.fd)]))


if __name__ == "__main__":
    main()
