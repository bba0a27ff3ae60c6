"""Ledger rows and dead letters in words, line by line, for a person."""

import json

from fencepost.clock import iso_time
from fencepost.desk.graves import Letter, LetterReport
from fencepost.desk.rows import RowEntry, RowReport
from fencepost_schemas.row import Row

ROW_COLUMNS = ["row", "handler", "namespace", "key", "state", "attempt", "changed", "error"]
LETTER_COLUMNS = ["letter", "handler", "source", "position", "type", "attempts", "reason"]
PAYLOAD_CHARS_SHOWN = 2_000


def row_cells(entry: RowEntry) -> list[str]:
    row = entry.row
    if row is None:
        handler, namespace = entry.subject.split(".")[2:4]
        return [entry.digest, handler, namespace, "", entry.state, "", "", entry.problem]
    changed = iso_time(row.changed_ms)
    named = [entry.digest, row.handler, row.namespace, row.key]
    error = f"waits for the answer to {entry.pause}" if entry.pause else row.error
    return [*named, entry.state, str(row.attempt), changed, error]


def letter_cells(letter: Letter) -> list[str]:
    place = [letter.source, letter.position, letter.type]
    return [str(letter.sequence), letter.handler, *place, letter.attempts, letter.reason]


def described_row(report: RowReport) -> list[str]:
    lines = _described_entry(report.entry)
    for conflict in report.conflicts:
        lines.append("  the key came again with another payload:")
        lines += [f"  {line}" for line in _described_entry(conflict)]
    return lines


def _described_entry(entry: RowEntry) -> list[str]:
    lines = [entry.subject, f"  {'revision':<22}{entry.revision}"]
    if entry.row is None:
        return [*lines, f"  {'state':<22}{entry.state}: {entry.problem}; it is left alone"]
    if entry.pause:
        lines.append(f"  {'paused':<22}waits for the answer to {entry.pause}")
    return lines + [f"  {name:<22}{text}" for name, text in _fields(entry.row)]


def _fields(row: Row) -> list[tuple[str, str]]:
    """Return every field of a row, times as people write them; what is not set is a dash."""
    fields = []
    for name in row.__struct_fields__:
        value = getattr(row, name)
        if name.endswith("_ms"):
            fields.append((name.removesuffix("_ms"), iso_time(value) if value else "-"))
        else:
            fields.append((name, str(value) or "-"))
    return fields


def described_letter(report: LetterReport) -> list[str]:
    letter = report.letter
    lines = [
        f"dead letter {letter.sequence} of {letter.handler}, app {letter.app or '-'}",
        f"  reason    {letter.reason or '-'}",
        f"  attempts  {letter.attempts or '-'}",
        f"  row       {_row_line(report)}",
        f"  event     {letter.type} at {letter.position!r} of {letter.source or '-'}, "
        f"key {letter.key or '-'}",
    ]
    lines += [f"  header    {name}: {value}" for name, value in sorted(letter.headers.items())]
    text = letter.payload.decode("utf-8", "backslashreplace")
    shown = text if len(text) <= PAYLOAD_CHARS_SHOWN else text[:PAYLOAD_CHARS_SHOWN] + " ..."
    lines.append(f"  payload   {len(letter.payload)} bytes: {json.dumps(shown)}")
    if letter.traceback:
        lines.append("  traceback")
        lines += [f"    {line}" for line in letter.traceback.splitlines()]
    return lines


def _row_line(report: LetterReport) -> str:
    if report.row is None:
        return f"{report.letter.row or '-'} (not in the ledger)"
    return f"{report.row.subject} ({report.row.state})"
