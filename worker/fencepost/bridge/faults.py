"""What to tell of a fault that nobody foresaw: whose code it came from, where, and never of what.

The text of an exception may hold what the source sent, so its type and its place have to do.
"""

import sys
import traceback

OURS = frozenset({"fencepost", "fencepost_policies", "fencepost_schemas"})


def told_of(fault: Exception, dialect: object) -> str:
    """Return in one line what is to be mended: the user's dialect, where this passed through it."""
    kind, frames = type(fault).__name__, traceback.extract_tb(fault.__traceback__)
    files = _files_of(dialect)
    for frame in reversed(frames):
        if frame.filename in files:
            place = f"{frame.name}, {frame.filename} line {frame.lineno}"
            return f"its dialect raised {kind} in {place}: mend the dialect"
    last = frames[-1]
    place = f"{last.name}, {last.filename} line {last.lineno}"
    return f"fencepost raised {kind} in {place}: report it, for no source should bring that about"


def stack_of(fault: Exception) -> str:
    """Return where it passed, for whoever mends it."""
    return "".join(traceback.format_tb(fault.__traceback__))


def _files_of(dialect: object) -> set[str]:
    """Return the files that a user wrote for this dialect; none for one that is shipped."""
    modules = {one.__module__ for one in type(dialect).__mro__}
    return {
        path
        for name in modules
        if name.partition(".")[0] not in OURS
        and (path := getattr(sys.modules.get(name), "__file__", None)) is not None
    }
