"""What does not end although it was told to: its names, for the log."""

import asyncio
import re
import threading
from collections.abc import Iterable
from typing import Any

NAMES_MAX = 10
_UNNAMED = re.compile(r"Task-\d+")


def names_of(tasks: Iterable[asyncio.Task[Any]], threads: Iterable[threading.Thread] = ()) -> str:
    """Return the names of tasks and threads; a handler's task is called after its event."""
    given = {task.get_name() for task in tasks if not _UNNAMED.fullmatch(task.get_name())}
    unnamed = {_function_of(task) for task in tasks if _UNNAMED.fullmatch(task.get_name())}
    names = [f"task {name}" for name in sorted(given)]
    names += [f"thread {name}" for name in sorted({thread.name for thread in threads})]
    names += [f"task {name}" for name in sorted(unnamed)]
    more = len(names) - NAMES_MAX
    return ", ".join(names[:NAMES_MAX]) + (f" and {more} more" if more > 0 else "") or "nothing"


def _function_of(task: asyncio.Task[Any]) -> str:
    return str(getattr(task.get_coro(), "__qualname__", task.get_name()))
