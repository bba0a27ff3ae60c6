"""A server of ours, on somebody's library: started by a command line, told by POST what to do."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from real.process import Process, listening_socket, start
from real.rig import lines_of, tell


class ToldServer:
    """`line` is the command that runs it; its socket and its log are added. `path` and `source`
    are how it is followed."""

    greets = False

    def __init__(
        self, folder: Path, line: Sequence[str], path: str, source: Mapping[str, Any]
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.log = folder / "emitted"
        self.path = path
        self.source = source
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
