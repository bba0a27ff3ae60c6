"""A server as a process: its socket is bound by the test, so it can be asked before it is up."""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Sequence
from pathlib import Path

OUTPUT_LINES = 20


class Process:
    """One life of a server. `port` is known from the start; `output` is what it printed."""

    def __init__(self, running: asyncio.subprocess.Process, port: int, output: Path) -> None:
        self.port = port
        self.output = output
        self._running = running

    async def kill(self) -> None:
        """End it as a crash does, with whatever it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._running.pid, signal.SIGKILL)
        await self._running.wait()

    @property
    def last_words(self) -> str:
        return "\n".join(self.output.read_text("utf-8", "replace").splitlines()[-OUTPUT_LINES:])


def listening_socket() -> socket.socket:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    return listening


async def start(
    line: Sequence[str],
    listening: socket.socket,
    output: Path,
    *,
    cwd: Path | None = None,
    environment: dict[str, str] | None = None,
) -> Process:
    """Start a server that inherits this socket under its own number; the socket is closed here."""
    with listening, output.open("ab") as printed:
        running = await asyncio.create_subprocess_exec(
            *line,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=printed,
            stderr=printed,
            pass_fds=(listening.fileno(),),
            cwd=cwd,
            env={**os.environ, **(environment or {})},
            # A group of its own, so that a kill reaches the workers of a server that has some.
            start_new_session=True,
        )
        return Process(running, listening.getsockname()[1], output)
