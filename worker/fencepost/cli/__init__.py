"""The command line: one file a command. The only place that chooses adapters and reads argv."""

import sys

import click
import typer

from fencepost.cli.bridge import bridge
from fencepost.cli.demo import demo
from fencepost.cli.dev import dev
from fencepost.cli.init import init
from fencepost.cli.questions import questions
from fencepost.cli.version import version
from fencepost.cli.worker import worker
from fencepost.errors import FencepostError

app = typer.Typer(
    name="fencepost",
    help="Workers on NATS JetStream that act once on SSE events, or ask first.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (demo, dev, init, bridge, worker, version):
    app.command()(command)
app.add_typer(questions, name="questions")


def main() -> None:
    """Run a command; exit 0 fine, 1 not fine, 2 usage, 3 cannot reach. Errors are one line."""
    try:
        code = app(standalone_mode=False)
    except FencepostError as error:
        _complain(str(error))
        code = error.exit_code
    except click.ClickException as error:
        error.show()
        code = 2
    except (KeyboardInterrupt, click.Abort):
        code = 130
    except BrokenPipeError:
        # Whoever read our output has gone, as in `fencepost questions ls | head -1`.
        sys.stderr.close()
        code = 0
    sys.exit(code or 0)


def _complain(text: str) -> None:
    typer.echo(f"fencepost: {' '.join(text.split())}", err=True)
