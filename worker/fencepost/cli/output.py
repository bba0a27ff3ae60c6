"""What commands print: tables on a terminal, plain lines in a pipe, JSON for programs."""

import logging
import sys
import textwrap
from typing import Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

PIPE_WIDTH = 200
ENTRY_CHARS_MAX = 4_000
"""Of one entry of the log; what a source makes may be of any length."""
TRACE_LINE_CHARS_MAX = 500


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


class OneLine(logging.Formatter):
    """One line an entry, whatever text of strangers is in it.

    Nothing in it can steer a terminal, begin a line that looks like another entry, or go on for
    ever. Tracebacks are indented behind it.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = _cut(plain(record.message), ENTRY_CHARS_MAX)
        return super().formatMessage(record)

    def formatException(self, exc_info: Any) -> str:
        lines = super().formatException(exc_info).splitlines()
        return "\n".join(f"    {_cut(plain(line), TRACE_LINE_CHARS_MAX)}" for line in lines)


def _cut(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else f"{text[:chars_max]} ... ({len(text)} characters)"


def log_to_stderr(*, quiet: bool = False) -> None:
    """Log one plain line an entry. The client libraries only say what we would say better."""
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine())
    root = logging.getLogger("fencepost")
    root.handlers = [handler]
    root.propagate = False
    root.setLevel(logging.WARNING if quiet else logging.INFO)
    logging.getLogger("nats").setLevel(logging.CRITICAL)
