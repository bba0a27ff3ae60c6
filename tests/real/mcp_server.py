"""An MCP server of ours, on whichever SDK: started by a command line, told by POST."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fencepost_schemas.reason import Reason
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
from real.told import ToldServer

FOLLOW = {"method": "tools/call", "params": {"name": "follow", "arguments": {}}}
WORK = {"method": "tools/call", "params": {"name": "work", "arguments": {}}}
SCRIPT = Path(__file__).parent / "mcp_python_source.py"
COUNTED = ("--ids", "counted")
"""Ids that begin anew with each process, and whenever the log is lost."""

PYTHON_CASES = (
    Case(NOTHING, (Reason.AUDIT_DONE,)),
    Case(WITHIN, (Reason.AUDIT_DONE,)),
    Case(PAST, (Reason.RESET_EMPTY_STREAM,)),
    Case(RESTART_FEWER, (Reason.SESSION_CHANGED,)),
    Case(RESTART_MORE, (Reason.SESSION_CHANGED,)),
    Case(RESTART_MORE, (Reason.SESSION_CHANGED,), COUNTED),
    Case(UNKNOWN, (Reason.RESET_EMPTY_STREAM,)),
    Case(UNKNOWN, (Reason.OVERLAP_OTHER_BYTES,), COUNTED),
    Case(LITTLE, (Reason.AUDIT_DONE,)),
    Case(LONG, (Reason.AUDIT_DONE,)),
)
"""The scenarios on the Python SDK: an id that it does not know is answered with nothing."""


class McpServer(ToldServer):
    """`line` is the command that runs it, `mcp` configures how it is followed."""

    def __init__(self, folder: Path, line: Sequence[str], mcp: Mapping[str, Any] = {}) -> None:
        source = {
            "dialect": "mcp",
            "key": "/params/data/k",
            "mcp": {"requests": [FOLLOW], **mcp},
        }
        super().__init__(folder, line, "/mcp", source)


def second_sdk(folder: Path, *options: str, **mcp: Any) -> McpServer:
    """Return a server on the 2.x SDK of the environment that the tests run in."""
    return McpServer(folder, [sys.executable, str(SCRIPT), *options], mcp)


SECOND_SDK = Row(
    "MCP Python SDK 2.x",
    "mcp",
    lambda folder, case: second_sdk(folder, *case.line),
    PYTHON_CASES,
)
