"""Copies of the ledger as files: written whole or not at all, and read twice before they count."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from fencepost.broker.jetstream import JetStream
from fencepost.desk.copies import Checked, Copies, Imported, check
from fencepost.desk.sweep import Told
from fencepost.errors import UsageError
from fencepost.ledgers.kv import read_identity
from fencepost_schemas.subject import Subjects

LINE_BYTES_MAX = 64 * 1024 * 1024
STDOUT = "-"


async def write_copy(connection: JetStream, file: str, told: Told) -> int:
    """Write a copy of the ledger; return how many rows it has."""
    subjects = Subjects(connection.prefix)
    identity = await read_identity(connection, subjects)
    count = 0
    with _written_whole(file) as out:
        async for line in Copies(connection, subjects).lines(identity, told):
            out.write(line)
            count += 1
        out.flush()
    return count - 2


def checked_copy(file: Path, subjects: Subjects) -> Checked:
    """Read a copy to its end; raise UsageError for the first line that is wrong."""
    try:
        with file.open("rb") as lines:
            return check(_bounded(lines), subjects)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from None
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from None


async def put_back(
    connection: JetStream, checked: Checked, file: Path, actor: str, told: Told
) -> Imported:
    """Put a copy that was checked back into the ledger."""
    with file.open("rb") as lines:
        copies = Copies(connection, Subjects(connection.prefix))
        return await copies.put_back(checked, _bounded(lines), actor, told)


def _bounded(lines: BinaryIO) -> Iterator[bytes]:
    """Yield the lines; one that never ends must not fill the memory."""
    number = 0
    while line := lines.readline(LINE_BYTES_MAX):
        number += 1
        if len(line) == LINE_BYTES_MAX:
            raise UsageError(f"line {number}: too long for any row; nothing was imported")
        yield line


@contextmanager
def _written_whole(file: str) -> Iterator[BinaryIO]:
    """Open stdout, or a file that stands under its name only once it was written to its end."""
    if file == STDOUT:
        yield sys.stdout.buffer
        return
    target = Path(file)
    part = target.with_name(f"{target.name}.part")
    try:
        with part.open("wb") as out:
            yield out
        part.replace(target)
    except BrokenPipeError:
        raise
    except OSError as error:
        part.unlink(missing_ok=True)
        raise UsageError(f"{file}: {error.strerror or error}") from None
    except BaseException:  # half a copy must not lie about, whatever it was that broke it off
        part.unlink(missing_ok=True)
        raise
