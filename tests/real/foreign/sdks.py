"""The MCP servers that run on something else than the tests' own environment."""

from pathlib import Path
from typing import Any

from fencepost_schemas.reason import Reason
from real.foreign.npm import node, version_of
from real.mcp_server import COUNTED, PYTHON_CASES, SCRIPT, McpServer
from real.scenarios import (
    LITTLE,
    LONG,
    NOTHING,
    PAST,
    RESTART_FEWER,
    RESTART_MORE,
    UNKNOWN,
    WITHIN,
    Case,
    Row,
)

FIRST_SDK_PYTHON = Path(__file__).parents[3] / ".venv-mcp1" / "bin" / "python"

# An id that is not known is refused with 400; a second stream beside the first with 409.
TYPESCRIPT_CASES = (
    Case(NOTHING, (Reason.OVERLAP_MATCHED,)),
    Case(WITHIN, (Reason.OVERLAP_MATCHED,)),
    Case(PAST, (Reason.RESET_STATUS,)),
    Case(RESTART_FEWER, (Reason.SESSION_CHANGED,)),
    Case(RESTART_MORE, (Reason.SESSION_CHANGED,)),
    Case(UNKNOWN, (Reason.RESET_STATUS,)),
    Case(UNKNOWN, (Reason.OVERLAP_OTHER_BYTES,), COUNTED),
    Case(LITTLE, (Reason.OVERLAP_MATCHED,)),
    Case(LONG, (Reason.OVERLAP_MATCHED,)),
)


def first_sdk(folder: Path, *options: str, **mcp: Any) -> McpServer:
    """Return a server on the MCP Python SDK 1.x; fail where that is not installed."""
    assert FIRST_SDK_PYTHON.exists(), f"there is no {FIRST_SDK_PYTHON}: run make test-real"
    return McpServer(folder, [str(FIRST_SDK_PYTHON), str(SCRIPT), *options], mcp)


def typescript_sdk(folder: Path, *options: str, **mcp: Any) -> McpServer:
    """Return a server on the MCP TypeScript SDK; fail where that is not installed.

    What its step from replayed to live events loses depends on the store, so nobody knows.
    """
    line = node("mcp-sdk.mjs", *options)
    return McpServer(folder, line, {"join": "unknown", **mcp})


SDKS = (
    Row(
        "MCP Python SDK 1.x",
        "mcp",
        lambda folder, case: first_sdk(folder, *case.line),
        PYTHON_CASES,
    ),
    Row(
        f"MCP TypeScript SDK {version_of('@modelcontextprotocol/sdk')}",
        "mcp",
        lambda folder, case: typescript_sdk(folder, *case.line),
        TYPESCRIPT_CASES,
    ),
)
