"""`fencepost dev`: a broker, init, a bridge and workers in one process tree. For one machine."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from fencepost.broker.embedded import EmbeddedBroker
from fencepost.cli.init import initialise
from fencepost.cli.loading import load_app
from fencepost.cli.options import AppOption, ConfigOption, settings_from
from fencepost.cli.output import log_to_stderr
from fencepost.cli.processes import run_until_signal
from fencepost.errors import NotFine, UsageError
from fencepost.settings import DEFAULT_FILE

DEFAULT_PORT = 4222
STOP_S = 40.0
"""Longer than a worker takes to drain."""


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
    command = _Command(config, settings.app)
    run_until_signal(lambda stop: _dev(command, workers, EmbeddedBroker(data, port), start, stop))


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


async def _dev(
    command: _Command, workers: int, broker: EmbeddedBroker, start: str, stop: asyncio.Event
) -> None:
    async with broker:
        settings = settings_from(command.config(), broker.url)
        report = await initialise(settings, list(settings.sources), start)
        for name in report.begun:
            typer.echo(f"source {name} begins {start}")
        typer.echo(f"broker {broker.url}, data in {broker.store}; Ctrl-C stops everything")
        children: list[asyncio.subprocess.Process] = []
        try:
            for role in ["bridge", *["worker"] * workers]:
                line = command.line(role, broker.url)
                # A session of their own: a Ctrl-C at the terminal is for us to pass on, in order.
                children.append(await asyncio.create_subprocess_exec(*line, start_new_session=True))
            await _until_one_ends(children, stop)
        finally:
            await _stop(children)
            typer.echo("stopped")


async def _until_one_ends(children: list[asyncio.subprocess.Process], stop: asyncio.Event) -> None:
    """Return when told to stop; raise NotFine if a child ends by itself."""
    waits = [asyncio.create_task(child.wait()) for child in children]
    stopping = asyncio.create_task(stop.wait())
    try:
        done, _ = await asyncio.wait([stopping, *waits], return_when=asyncio.FIRST_COMPLETED)
        if stopping not in done:
            raise NotFine("the bridge or a worker ended by itself; its reason stands above")
    finally:
        for task in (stopping, *waits):
            task.cancel()


async def _stop(children: list[asyncio.subprocess.Process]) -> None:
    """End the children in the order in which they depend on one another: the bridge first."""
    for child in children:
        if child.returncode is None:
            child.terminate()
    for child in children:
        try:
            await asyncio.wait_for(child.wait(), STOP_S)
        except TimeoutError:
            child.kill()
            await child.wait()
