"""An MCP server of ours, on whichever SDK: started by a command line, told by POST."""

import itertools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fencepost_schemas.reason import Reason
from real.process import Process, listening_socket, start
from real.rig import lines_of, tell
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
)

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


class McpServer:
    """`line` is the command that runs it; its socket and its log are added. `mcp` configures
    how it is followed."""

    path = "/mcp"

    def __init__(self, folder: Path, line: Sequence[str], mcp: Mapping[str, Any] = {}) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.log = folder / "emitted"
        self.source: Mapping[str, Any] = {
            "dialect": "mcp",
            "key": "/params/data/k",
            "mcp": {"requests": [FOLLOW], **mcp},
        }
        self.process: Process
        self._line = line
        self._lives = itertools.count(1)

    async def start(self) -> Process:
        listening = listening_socket()
        line = [*self._line, "--fd", str(listening.fileno()), "--log", str(self.log)]
        output = self.folder / f"server-{next(self._lives)}.out"
        self.process = await start(line, listening, output)
        return self.process

    async def emit(self, *keys: str) -> None:
        await tell(self.process, "emit", *keys)

    async def forget(self) -> None:
        await tell(self.process, "forget")

    def emitted(self) -> list[str]:
        return lines_of(self.log)


def second_sdk(folder: Path, *options: str, **mcp: Any) -> McpServer:
    """Return a server on the 2.x SDK of the environment that the tests run in."""
    return McpServer(folder, [sys.executable, str(SCRIPT), *options], mcp)
