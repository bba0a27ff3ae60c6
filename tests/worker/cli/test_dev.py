"""`fencepost dev` as a process: whatever ends it, nothing of it is left and its port is free."""

import asyncio
import os
import pty
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker.embedded import EmbeddedBroker
from fencepost.cli.signals import TOGETHER_S
from fencepost_schemas.row import State
from kit.command import Command, configure, environment, started
from kit.house import House, house
from kit.pool import SOURCE, event, publish
from kit.processes import alive, descendants
from kit.stubborn import POOL, STUBBORN
from kit.wait import until

BOUND_S = 40.0
PROCESSES = 6
"""A bridge, a worker and a broker, each with who watches over it."""


class Dev:
    """A `fencepost dev` that runs, all of its processes, and a house on its broker."""

    def __init__(self, command: Command, home: House, port: int, folder: Path) -> None:
        self.command = command
        self.home = home
        self.port = port
        self.folder = folder
        self.children = descendants(command.process.pid)

    async def begin(self, handler: str) -> None:
        await publish(self.home, event(handler, type=handler))
        await until(lambda: handler in self.noted.read_text(), f"{handler} to run")

    def go_on(self) -> None:
        """Let the handler that awaits a file come to its end."""
        Path(f"{self.noted}.go").touch()

    @property
    def noted(self) -> Path:
        return self.folder / "noted"

    async def gone(self) -> None:
        """Wait until none of its processes is left, and its port is free."""
        await until(
            lambda: not any(alive(pid) for pid in self.children), "its processes to end", BOUND_S
        )
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(("127.0.0.1", self.port))

    async def states(self) -> list[State]:
        """Return the states of all rows, from a broker on the data that was left."""
        async with (
            EmbeddedBroker(self.folder / ".fencepost") as server,
            house(server, SOURCE) as home,
        ):
            return [row.state for row in await home.rows()]


@asynccontextmanager
async def dev(folder: Path) -> AsyncIterator[Dev]:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        port = trial.getsockname()[1]
    url = f"nats://127.0.0.1:{port}"
    patient = {"retry_first_s": 5.0, "retry_longest_s": 5.0}
    configure(folder, url, SOURCE, app=f"{STUBBORN}:app", pool=POOL, bridge=patient)
    (folder / "noted").touch()
    more = {"NOTED": str(folder / "noted")}
    async with started("dev", "--port", str(port), folder=folder, more=more) as command:
        await until(
            lambda: "slots, as worker-" in command.err and "orders: " in command.err,
            "bridge and worker to run",
        )
        server: Any = type("Server", (), {"url": url})()
        async with house(server, SOURCE, pool=POOL) as home:
            yield Dev(command, home, port, folder)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_ends_it_and_what_runs_is_finished(
    tmp_path: Path, number: signal.Signals
) -> None:
    async with dev(tmp_path) as running:
        assert PROCESSES == len(running.children)
        await running.begin("awaits-a-file")
        running.command.signal(number)
        running.go_on()
        ran = await running.command.ended()
        assert (0, "stopped") == (ran.code, ran.out.splitlines()[-1])
        await running.gone()
        assert [State.APPLIED] == await running.states()


async def test_killed_it_takes_all_along_and_the_broker_last(tmp_path: Path) -> None:
    """Its worker finishes what runs, and the ledger is still there to hold how it ended."""
    async with dev(tmp_path) as running:
        assert PROCESSES == len(running.children)
        await running.begin("awaits-a-file")
        running.command.signal(signal.SIGKILL)
        await running.command.ended()
        await until(lambda: "stopping: 1 still running" in running.command.err, "the worker's end")
        running.go_on()
        await running.gone()
        assert [State.APPLIED] == await running.states()


async def test_killed_it_takes_along_who_does_not_want_to_end(tmp_path: Path) -> None:
    async with dev(tmp_path) as running:
        for handler in ("swallows", "own-thread", "plain"):
            await running.begin(handler)
        running.command.signal(signal.SIGKILL)
        await running.command.ended()
        await running.gone()


async def test_a_second_signal_ends_all_at_once(tmp_path: Path) -> None:
    async with dev(tmp_path) as running:
        await running.begin("swallows")
        running.command.signal(signal.SIGINT)
        # Nothing tells when signals no longer count as one.
        await asyncio.sleep(TOGETHER_S * 1.5)
        running.command.signal(signal.SIGINT)
        assert 130 == (await running.command.ended()).code
        await running.gone()


async def test_a_terminal_that_goes_ends_it(tmp_path: Path) -> None:
    """The system says SIGHUP, and nothing can be printed any more."""
    terminal, ours = pty.openpty()
    configure(tmp_path, "nats://127.0.0.1:9", SOURCE, app=f"{STUBBORN}:app", pool=POOL)
    line = ("-m", "fencepost", "dev", "--port", "0")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *line,
        cwd=tmp_path,
        env=environment(NOTED=str(tmp_path / "noted")),
        stdin=ours,
        stdout=ours,
        stderr=ours,
        start_new_session=True,
    )
    os.close(ours)
    said = await asyncio.to_thread(_read_until, terminal, b"slots, as worker-")
    assert b"slots, as worker-" in said
    children = descendants(process.pid)
    os.close(terminal)
    process.send_signal(signal.SIGHUP)
    async with asyncio.timeout(BOUND_S):
        assert 0 == await process.wait()
    await until(lambda: not any(alive(pid) for pid in children), "its processes to end", BOUND_S)


def _read_until(terminal: int, words: bytes) -> bytes:
    said = b""
    while words not in said and (more := os.read(terminal, 1000)):
        said += more
    return said
