"""The MCP servers that run on something else than the tests' own environment."""

import shutil
from pathlib import Path
from typing import Any

from real.mcp_server import SCRIPT, McpServer

HERE = Path(__file__).parent
FIRST_SDK_PYTHON = HERE.parents[2] / ".venv-mcp1" / "bin" / "python"
TYPESCRIPT = HERE / "typescript"


def first_sdk(folder: Path, *options: str, **mcp: Any) -> McpServer:
    """Return a server on the MCP Python SDK 1.x; fail where that is not installed."""
    assert FIRST_SDK_PYTHON.exists(), f"there is no {FIRST_SDK_PYTHON}: run make test-real"
    return McpServer(folder, [str(FIRST_SDK_PYTHON), str(SCRIPT), *options], mcp)


def typescript_sdk(folder: Path, *options: str, **mcp: Any) -> McpServer:
    """Return a server on the MCP TypeScript SDK; fail where that is not installed.

    What its step from replayed to live events loses depends on the store, so nobody knows.
    """
    node = shutil.which("node")
    assert node, "there is no node here: apt-get install nodejs npm"
    installed = TYPESCRIPT / "node_modules"
    assert installed.exists(), f"there is no {installed}: run make test-real"
    line = [node, str(TYPESCRIPT / "source.mjs"), *options]
    return McpServer(folder, line, {"join": "unknown", **mcp})
