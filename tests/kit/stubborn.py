"""An app whose parts do not end when they are told to, run as a process of its own.

Its handlers take events whose type is their name. Each writes its name to a file once it runs.
"""

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fencepost.broker.embedded import EmbeddedBroker
from kit.command import Command, configure, started
from kit.house import House, house
from kit.pool import SOURCE, event, publish
from kit.wait import until

DRAIN_S = 1.0
POOL: dict[str, Any] = {
    "slots": 4,
    "handler_timeout_s": 60.0,
    "lease_s": 70.0,
    "ack_wait_s": 80.0,
    "drain_s": DRAIN_S,
}
STUBBORN = Path(__file__).with_name("stubborn_app.py")


class Stubborn:
    """A worker of the stubborn app, and the house that it works in."""

    def __init__(self, home: House, command: Command, noted: Path) -> None:
        self.home = home
        self.command = command
        self._noted = noted

    def notes(self) -> list[str]:
        return self._noted.read_text("utf-8").split() if self._noted.exists() else []

    async def note(self, word: str) -> None:
        """Wait until the app has written this."""
        await until(lambda: word in self.notes(), f"the app to note {word!r}: {self.command.err}")

    async def runs(self) -> None:
        """Wait until the worker takes events."""
        await until(lambda: "slots, as worker-" in self.command.err, "the worker to run")

    async def begin(self, name: str) -> None:
        """Have a handler run, and wait until it does."""
        await publish(self.home, event(name, type=name))
        await self.note(name)

    def tell(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.command.signal(number)


@asynccontextmanager
async def stubborn(
    broker: EmbeddedBroker,
    folder: Path,
    lifespan: str = "",
    output: int | None = None,
    begins: Callable[[Command], Awaitable[None]] | None = None,
    **more: str,
) -> AsyncIterator[Stubborn]:
    """Run a worker of the stubborn app; `lifespan` is what its lifespan does, "" for nothing.

    What it prints goes into `output` where that is given. Where it `begins` in its own way, it does
    so without a broker, which comes after that.
    """
    noted = folder / "noted"
    async with house(broker, SOURCE, pool=POOL) as home:
        await home.init()
        configure(folder, broker.url, SOURCE, app=f"{STUBBORN}:app", pool=POOL)
        if begins is not None:
            await broker.kill()
        environment = {"NOTED": str(noted), "LIFESPAN": lifespan, **more}
        async with started("worker", folder=folder, more=environment, output=output) as command:
            if begins is not None:
                await begins(command)
                await broker.start()
            yield Stubborn(home, command, noted)
