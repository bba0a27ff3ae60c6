"""`fencepost dev`: a broker, init, a bridge and workers in one process tree. For one machine."""

import asyncio
import contextlib
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from fencepost.broker.embedded import STOP_S, EmbeddedBroker
from fencepost.cli.ending import END_S, HARD_S
from fencepost.cli.init import initialise
from fencepost.cli.loading import load_app, with_app_dialects
from fencepost.cli.options import AppOption, ConfigOption, settings_from
from fencepost.cli.output import log_to_stderr
from fencepost.cli.processes import run_until_signal
from fencepost.errors import NotFine, UsageError
from fencepost.lifeline import Lifeline
from fencepost.settings_file import DEFAULT_FILE

DEFAULT_PORT = 4222
KILL_S = 1.0
"""Behind the bound of a child's own end, before it is killed."""


def dev(
    app: AppOption = None,
    config: ConfigOption = None,
    workers: Annotated[int, typer.Option(min=1, help="How many worker processes")] = 1,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The broker's port; 0 takes a free one")
    ] = DEFAULT_PORT,
    data: Annotated[Path, typer.Option(help="Where the broker keeps its data")] = Path(
        ".fencepost"
    ),
    start: Annotated[
        str, typer.Option("--from", help="Where new sources begin: now, earliest, or an id")
    ] = "now",
) -> None:
    """Run everything an app needs on this machine, until Ctrl-C."""
    log_to_stderr()
    settings = settings_from(config, None, app)
    if not settings.sources:
        raise UsageError(f"there is no source: add [sources.NAME] to {config or DEFAULT_FILE}")
    load_app(settings.app)
    with_app_dialects(settings)
    command = _Command(config, settings.app)
    names = ["bridge", *(f"worker {number + 1}" for number in range(workers))]
    stop_s = settings.pool.drain_s + END_S + HARD_S + KILL_S
    children = _Children(stop_s)
    run_until_signal(
        lambda stop: _dev(command, names, EmbeddedBroker(data, port), start, children, stop),
        stop_s + STOP_S,
    )


class _Command:
    """The arguments that every child is started with."""

    def __init__(self, config: Path | None, app: str) -> None:
        self._config = ["--config", str(config)] if config is not None else []
        self._app = app

    def line(self, role: str, server: str) -> list[str]:
        app = ["--app", self._app] if role == "worker" else []
        return [sys.executable, "-m", "fencepost", role, "--server", server, *self._config, *app]

    def config(self) -> Path | None:
        return Path(self._config[1]) if self._config else None


class _Children:
    """The processes of bridge and workers. They end when we do, and the broker behind them."""

    def __init__(self, stop_s: float) -> None:
        self.processes: dict[str, asyncio.subprocess.Process] = {}
        self._lifeline = Lifeline()
        self._stop_s = stop_s

    async def start(self, name: str, line: list[str], broker: EmbeddedBroker) -> None:
        line, descriptors = self._lifeline.command(line, self._stop_s, holds=broker.lifeline)
        # A session of their own: a Ctrl-C at the terminal is for us to pass on, in order.
        self.processes[name] = await asyncio.create_subprocess_exec(
            *line, pass_fds=descriptors, start_new_session=True
        )

    async def stop(self) -> None:
        """Have all of them end; kill those that do not within their bound."""
        left = [child for child in self.processes.values() if child.returncode is None]
        for child in left:
            child.terminate()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._stop_s):
                for child in left:
                    await child.wait()
        for child in left:
            if child.returncode is None:
                child.kill()
                await child.wait()


async def _dev(
    command: _Command,
    names: list[str],
    broker: EmbeddedBroker,
    start: str,
    children: _Children,
    stop: asyncio.Event,
) -> None:
    async with broker:
        settings = settings_from(command.config(), broker.url)
        report = await initialise(settings, list(settings.sources), start)
        for name in report.begun:
            typer.echo(f"source {name} begins {start}")
        typer.echo(f"broker {broker.url}, data in {broker.store}; Ctrl-C stops everything")
        if broker.port != DEFAULT_PORT:
            typer.echo(f"questions: fencepost questions ls --server {broker.url}")
        try:
            for name in names:
                await children.start(name, command.line(name.split()[0], broker.url), broker)
            assert broker.process is not None
            await _until_one_ends({**children.processes, "broker": broker.process}, stop)
        finally:
            await children.stop()
            with contextlib.suppress(OSError):  # the terminal may have gone
                typer.echo("stopped")


async def _until_one_ends(
    children: dict[str, asyncio.subprocess.Process], stop: asyncio.Event
) -> None:
    """Return when told to stop; raise NotFine if a child ends by itself, and say which."""
    waits = {asyncio.create_task(child.wait()): name for name, child in children.items()}
    stopping = asyncio.create_task(stop.wait())
    try:
        done, _ = await asyncio.wait([stopping, *waits], return_when=asyncio.FIRST_COMPLETED)
        if stopping not in done:
            name = next(waits[task] for task in waits if task in done)
            raise NotFine(f"the {name} {_ended(children[name])}; everything is stopped")
    finally:
        stop.set()  # whatever ended it: from here on the end of the process is bounded
        for task in (stopping, *waits):
            task.cancel()


def _ended(child: asyncio.subprocess.Process) -> str:
    """Say how a process came to its end."""
    code = child.returncode
    if code is not None and code < 0:
        return f"(pid {child.pid}) was ended by {signal.Signals(-code).name}: run dev again"
    return f"(pid {child.pid}) ended by itself with {code}: its reason stands above"
