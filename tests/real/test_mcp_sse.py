"""MCP over HTTP with SSE, on the official Python SDK: greeted, listened to, and never resumed."""

import sys
from pathlib import Path
from typing import Any

from fencepost.broker.embedded import EmbeddedBroker
from fencepost.registry import shipped
from fencepost_schemas.reason import Reason
from kit.house import house
from kit.orders import see, see_verdicts
from real.process import listening_socket, start

SCRIPT = Path(__file__).parent / "mcp_sse_source.py"
CALL = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "tell"}}


async def test_a_server_that_speaks_only_once_it_is_spoken_to(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """Its notifications are events, its answers are not, and each connection begins anew."""
    greeting = [*shipped()["mcp_http_sse"].greeting, CALL]
    tables: dict[str, Any] = {"old": {"like": "mcp_http_sse", "greeting": greeting}}
    listening = listening_socket()
    port = listening.getsockname()[1]
    sources = {
        "orders": {
            "url": f"http://127.0.0.1:{port}/sse",
            "keys": "generation",
            "key": "/params/data/k",
            "dialect": "old",
        }
    }
    line = [sys.executable, str(SCRIPT), "--fd", str(listening.fileno())]
    process = await start(line, listening, tmp_path / "out")
    try:
        async with house(broker, sources, dialects=tables, bridge={"headers_s": 20.0}) as home:
            await home.init()
            async with home.bridge():
                await see(home, 3)
            async with home.bridge():
                await see(home, 6)
                await see_verdicts(home, 2)
            assert ["genesis", "reoriginated"] == await home.verdicts()
            _, second = await home.records()
            assert (Reason.NO_RESUMPTION,) == second.verdict.reasons
            events = await home.events()
            assert ["a", "b", "c"] * 2 == [event.key for event in events]
            assert {"notifications/message"} == {event.type for event in events}
    finally:
        await process.kill()
