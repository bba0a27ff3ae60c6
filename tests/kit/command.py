"""The command line as its users run it: a process of its own, its code, and what it printed."""

import asyncio
import contextlib
import itertools
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIMIT_S = 40.0


@dataclass(frozen=True)
class Ran:
    """What became of a command."""

    code: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The one line that says what is wrong and what to do; fail where there is not just one."""
        assert "Traceback" not in self.err, self.err
        lines = [line for line in self.err.splitlines() if line.startswith("fencepost: ")]
        assert len(lines) == 1, f"one line is due, not {len(lines)}:\n{self.err}"
        assert self.err.splitlines()[-1] == lines[0], f"it is not the last line:\n{self.err}"
        return lines[0].removeprefix("fencepost: ")


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment without what would configure fencepost."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("FENCEPOST_", "OTEL_"))
    }
    return {**kept, **more}


async def run_command(*arguments: str, folder: Path, more: Mapping[str, str] = {}) -> Ran:
    """Run `fencepost ARGUMENTS` in a folder to its end."""
    async with started(*arguments, folder=folder, more=more) as command:
        return await command.ended()


class Command:
    """A command that runs."""

    def __init__(self, process: asyncio.subprocess.Process, out: Path, err: Path) -> None:
        self.process = process
        self._out = out
        self._err = err

    @property
    def err(self) -> str:
        """What it has written to stderr so far."""
        return self._err.read_text("utf-8", "replace")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def ended(self, limit_s: float = LIMIT_S) -> Ran:
        """Wait for its end and return what became of it."""
        async with asyncio.timeout(limit_s):
            code = await self.process.wait()
        return Ran(code, self._out.read_text("utf-8", "replace"), self.err)


_numbers = itertools.count(1)


@asynccontextmanager
async def started(
    *arguments: str, folder: Path, more: Mapping[str, str] = {}, output: int | None = None
) -> AsyncIterator[Command]:
    """Start `fencepost ARGUMENTS` in a folder; it is killed at the end if it still runs.

    What it prints goes into files, or into the descriptor `output`.
    """
    number = next(_numbers)
    out, err = folder / f"command-{number}.out", folder / f"command-{number}.err"
    with out.open("wb") as to_out, err.open("wb") as to_err:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "fencepost", *arguments),
            cwd=folder,
            env=environment(**more),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=to_out if output is None else output,
            stderr=to_err if output is None else output,
            start_new_session=True,
        )
    try:
        yield Command(process, out, err)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def toml(document: Mapping[str, Any]) -> str:
    """Return the document as TOML; enough of it for a configuration file."""
    return "".join(_tables((), document))


def _tables(path: Sequence[str], table: Mapping[str, Any]) -> list[str]:
    parts = []
    plain = {name: value for name, value in table.items() if not isinstance(value, Mapping)}
    if path:
        parts.append("[" + ".".join(_quoted(name) for name in path) + "]\n")
    parts += [f"{_quoted(name)} = {_value(value)}\n" for name, value in plain.items()]
    for name, value in table.items():
        if isinstance(value, Mapping):
            parts += _tables((*path, name), value)
    return parts


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(one) for one in value) + "]"
    return _quoted(value) if isinstance(value, str) else str(value)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def configure(folder: Path, server: str, sources: Mapping[str, Any] = {}, **document: Any) -> None:
    """Write fencepost.toml into a folder, with short waits; `document` adds or replaces tables."""
    broker = {"servers": [server], "connect_s": 2.0, "reply_s": 2.0, **document.pop("broker", {})}
    bridge = {"retry_first_s": 0.02, "retry_longest_s": 0.1, **document.pop("bridge", {})}
    whole = {**document, "broker": broker, "bridge": bridge, "sources": sources}
    (folder / "fencepost.toml").write_text(toml(whole), "utf-8")
