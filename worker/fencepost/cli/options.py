"""Options that several commands share, and the settings made of them."""

import os
from pathlib import Path
from typing import Annotated

import typer

from fencepost.settings import Settings
from fencepost.settings_file import load_settings, split_servers

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="The configuration file. Default: ./fencepost.toml"),
]
ServerOption = Annotated[
    str | None, typer.Option("--server", "-s", help="The broker, as nats://host:port[,...]")
]
AppOption = Annotated[
    str | None, typer.Option("--app", "-a", help="The app, as module:name or path/file.py:name")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Log warnings and errors only")]


def settings_from(
    config: Path | None, server: str | None = None, app: str | None = None
) -> Settings:
    """Return the settings of file, environment and flags, in this order."""
    servers = split_servers(server) if server else None
    flags = {"broker.servers": servers, "app": app}
    return load_settings(config, os.environ, flags)
