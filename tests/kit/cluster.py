"""nats-servers that replicate: real processes on loopback, for tests of replicas = 3."""

import contextlib
import json
import socket
import subprocess
from pathlib import Path
from random import Random

from fencepost.broker.embedded import find_server
from fencepost.broker.jetstream import JetStream, connect
from fencepost.clock import random_name
from fencepost.errors import Unreachable
from fencepost.lifeline import Lifeline
from fencepost.settings import Broker, Login
from kit.wait import until

STOP_S = 10.0
PORTS = (12_000, 30_000)
LIFELINE = Lifeline()
"""A run of tests that is killed leaves no server behind."""


class Cluster:
    """So many servers, started together; their data is synced on every write.

    Use as a context manager.
    """

    def __init__(self, folder: Path, size: int) -> None:
        self.size = size
        self.name = random_name(12)
        ports = _free_ports(2 * size)
        self.ports, self._routes = ports[:size], ports[size:]
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def broker(self) -> Broker:
        """The settings of whoever uses it: every stream and consumer on every server."""
        return Broker(servers=self.urls, replicas=self.size, reply_s=2.0)

    @property
    def urls(self) -> tuple[str, ...]:
        return tuple(f"nats://127.0.0.1:{port}" for port in self.ports)

    def __enter__(self) -> "Cluster":
        for number in range(self.size):
            self._processes.append(self._start(number))
        return self

    def __exit__(self, *_: object) -> None:
        # What they hold is thrown away, so there is nothing that an orderly end would save.
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait(STOP_S)

    async def connect(self) -> JetStream:
        """Return a connection, once the servers know one another and one of them leads."""
        found: list[JetStream] = []

        async def ours() -> bool:
            with contextlib.suppress(Unreachable):
                connection = await connect(self.broker, Login(servers=self.urls), "test")
                with contextlib.suppress(Unreachable):
                    # While one of ours is down somebody else's may have its port, and must not be
                    # touched.
                    if (await connection.api("INFO")).get("domain") == self.name:
                        found.append(connection)
                        return True
                await connection.close()
            return False

        await until(ours, f"{self.size} servers to be one")
        return found[0]

    def kill(self, name: str) -> None:
        """End one server as a crash would; its name is as the broker's API gives it."""
        self._processes[int(name.removeprefix("n"))].kill()
        self._processes[int(name.removeprefix("n"))].wait(STOP_S)

    def start(self, name: str) -> None:
        """Start one server again, with the data that it had."""
        number = int(name.removeprefix("n"))
        self._processes[number] = self._start(number)

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        store = self._folder / f"n{number}"
        store.mkdir(parents=True, exist_ok=True)
        config = store / "nats.conf"
        config.write_text(self._config(number, store), "utf-8")
        line, descriptors = LIFELINE.command([str(find_server()), "-c", str(config)], STOP_S)
        with (store / "nats.log").open("ab") as log:
            return subprocess.Popen(
                line, stdout=log, stderr=log, pass_fds=descriptors, start_new_session=True
            )

    def _config(self, number: int, store: Path) -> str:
        alone = (
            f"server_name: n{number}\n"
            f"listen: 127.0.0.1:{self.ports[number]}\n"
            f"jetstream {{\n"
            f"  domain: {self.name}, store_dir: {json.dumps(str(store))}, sync_interval: always\n"
            "}\n"
        )
        if self.size == 1:
            return alone
        routes = [f"nats://127.0.0.1:{port}" for port in self._routes]
        return (
            f"{alone}cluster {{\n"
            f"  name: {self.name}, listen: 127.0.0.1:{self._routes[number]}\n"
            f"  routes: {json.dumps(routes)}\n"
            "}\n"
        )


def _free_ports(count: int) -> list[int]:
    """Return ports that are free now, all different.

    They are below those that the system gives to whoever asks for any, so that nobody gets the port
    of a server that is down for a while.
    """
    found: set[int] = set()
    chance = Random()
    while len(found) < count:
        port = chance.randrange(*PORTS)
        with contextlib.suppress(OSError), socket.socket() as trial:
            trial.bind(("127.0.0.1", port))
            found.add(port)
    return sorted(found)
