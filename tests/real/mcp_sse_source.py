"""A server on the official MCP Python SDK over HTTP with SSE, as of 2024-11-05: run as a process.

A client that calls the tool `tell` is told of three events on its stream.
"""

import argparse
import asyncio
import socket

import uvicorn
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("old-source")


@server.tool()
async def tell(ctx: Context) -> str:
    """Tell this session of three events."""
    for key in ("a", "b", "c"):
        await ctx.session.send_log_message(level="info", data={"k": key}, logger="events")
    return "told"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fd", type=int, required=True, help="an inherited, listening socket")
    given = parser.parse_args()
    config = uvicorn.Config(server.sse_app(), log_level="warning", timeout_graceful_shutdown=1)
    asyncio.run(uvicorn.Server(config).serve(sockets=[socket.socket(fileno=given.fd)]))


if __name__ == "__main__":
    main()
