"""What commands that change something have in common: who does it, and is it really meant."""

import getpass
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from fencepost.desk.audit import checked_actor
from fencepost.desk.sweep import Told, nobody
from fencepost.errors import NotFine, UsageError

ActorOption = Annotated[
    str | None, typer.Option("--actor", "--as", help="Who does this. Default: you")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask whether it is meant")]


def actor_of(actor: str | None) -> str:
    """Return who does this; raise UsageError where nobody can be named."""
    if actor is not None:
        return checked_actor(actor)
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # As in a container that runs under a number without a name.
        raise UsageError(
            "this system has no name for you: say who does this with --actor"
        ) from None


def confirm(meaning: list[str], *, yes: bool) -> None:
    """Say what is about to be done, and return if it is meant; raise NotFine where it is not."""
    for line in meaning:
        typer.echo(line, err=True)
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask on whether this is meant: say --yes")
    if not typer.confirm("go on?", err=True):
        raise NotFine("nothing was changed")


@contextmanager
def progress(what: str) -> Iterator[Told]:
    """Yield what to tell how far a long reading is: a bar on a terminal, nothing in a pipe."""
    if not (sys.stderr.isatty() and sys.stdout.isatty()):
        yield nobody
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)
