"""Processes as the system lists them, to see that none is left."""

import os
import subprocess


def descendants(pid: int) -> set[int]:
    """Return the ids of what this process started, and of what that did in turn."""
    found, parents = set[int](), _parents()
    due = {pid}
    while due:
        due = {child for child, parent in parents.items() if parent in due} - found
        found |= due
    return found


def alive(pid: int) -> bool:
    """Return True if there is such a process, and it is not only waited for by its parent."""
    listed = _list("stat=", "-p", str(pid))
    return bool(listed) and not listed[0].startswith("Z")


def _parents() -> dict[int, int]:
    pairs = (line.split() for line in _list("pid=,ppid=", "-A"))
    return {int(pid): int(parent) for pid, parent in pairs if int(pid) != os.getpid()}


def _list(columns: str, *which: str) -> list[str]:
    printed = subprocess.run(
        ["ps", *which, "-o", columns], capture_output=True, text=True, check=False
    )
    return printed.stdout.split("\n")[:-1]
