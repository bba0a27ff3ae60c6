"""The command line: one file a command. The only place that chooses adapters and reads argv."""

import signal
import sys

import typer

from fencepost.cli.bridge import bridge
from fencepost.cli.dead import dead
from fencepost.cli.demo import demo
from fencepost.cli.dev import dev
from fencepost.cli.init import init
from fencepost.cli.ledger import ledger
from fencepost.cli.output import plain
from fencepost.cli.probe import probe
from fencepost.cli.questions import questions
from fencepost.cli.sources import sources
from fencepost.cli.version import version
from fencepost.cli.worker import worker
from fencepost.errors import FencepostError, Stopped

app = typer.Typer(
    name="fencepost",
    help="Workers on NATS JetStream that act once on SSE events, or ask first.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (demo, dev, init, bridge, worker, probe, version):
    app.command()(command)
_GROUPS = (("sources", sources), ("questions", questions), ("ledger", ledger), ("dead", dead))
for name, commands in _GROUPS:
    app.add_typer(commands, name=name)


# Typer brings its own copy of click, or used to need click; the class is the same by either way.
_MISUSE: type[Exception] = typer.BadParameter.__mro__[1]


def main() -> None:
    """Run a command; exit 0 fine, 1 not fine, 2 usage, 3 cannot reach. Errors are one line.

    A command that a signal ended exits with 128 and the signal's number.
    """
    try:
        code = app(standalone_mode=False)
    except FencepostError as error:
        _complain(str(error))
        code = error.exit_code
    except _MISUSE as error:
        _explain(error)
        code = 2
    except KeyboardInterrupt:
        stopped = Stopped(signal.SIGINT)
        _complain(str(stopped))
        code = stopped.exit_code
    except typer.Abort:
        code = 130  # at a prompt, which has ended its line itself
    except BrokenPipeError:
        # Whoever read our output has gone, as in `fencepost questions ls | head -1`.
        sys.stderr.close()
        code = 0
    sys.exit(code or 0)


def _explain(error: Exception) -> None:
    """Say in one line what is wrong with the command line; help, where it was asked for, is longer.

    A command that needs a subcommand and has none raises its help, which may be printed already.
    """
    text: str = getattr(error, "format_message", error.__str__)()
    if "\n" in text or not text:
        typer.echo(text, err=True, nl=bool(text))
        return
    path = getattr(getattr(error, "ctx", None), "command_path", "fencepost")
    _complain(f"{text.rstrip('.')}: see `{path} --help`")


def _complain(text: str) -> None:
    typer.echo(f"fencepost: {plain(' '.join(text.split()))}", err=True)
