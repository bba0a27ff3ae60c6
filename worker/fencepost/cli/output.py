"""What commands print: tables on a terminal, plain lines in a pipe, JSON for programs."""

import logging
import sys
import textwrap

import msgspec
import typer
from rich.console import Console
from rich.table import Table

PIPE_WIDTH = 200


def print_json(value: object) -> None:
    """Print one line of JSON."""
    typer.echo(msgspec.json.encode(value).decode())


def print_table(columns: list[str], rows: list[list[str]]) -> None:
    """Print a table on a terminal, tab-separated lines in a pipe."""
    if not sys.stdout.isatty():
        for row in [columns, *rows]:
            typer.echo("\t".join(plain(cell) for cell in row))
        return
    table = Table(header_style="bold", box=None, pad_edge=False)
    for number, column in enumerate(columns):
        # What stands first is copied into the next command: it is never shortened or broken.
        table.add_column(column, no_wrap=number == 0, overflow="fold")
    for row in rows:
        table.add_row(*(plain(cell) for cell in row))
    console().print(table, markup=False)


def print_lines(lines: list[str]) -> None:
    """Print lines, each broken behind its own indentation where a terminal is too narrow for it."""
    terminal = sys.stdout.isatty()
    for line in map(plain, lines):
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        width = console().width if terminal else len(line) + 1
        wrapped = textwrap.wrap(
            line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
        for one in wrapped or [""]:
            typer.echo(one)


def console() -> Console:
    terminal = sys.stdout.isatty()
    return Console(width=None if terminal else PIPE_WIDTH, highlight=False, markup=False)


def plain(text: str) -> str:
    """Return foreign text fit for a terminal: no control, escape or direction characters."""
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)


def log_to_stderr(*, quiet: bool = False) -> None:
    """Log one plain line an entry. The client libraries only say what we would say better."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S"))
    root = logging.getLogger("fencepost")
    root.handlers = [handler]
    root.propagate = False
    root.setLevel(logging.WARNING if quiet else logging.INFO)
    logging.getLogger("nats").setLevel(logging.CRITICAL)
