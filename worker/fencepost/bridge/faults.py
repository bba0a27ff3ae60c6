"""What to tell of a fault that nobody foresaw: whose code it came from, where, and never of what.

The text of an exception may hold what the source sent, so its type and its place have to do.
"""

import traceback
from types import FrameType

from fencepost.foreign_text import LOGGED_CHARS_MAX, fit

OURS = frozenset({"fencepost", "fencepost_policies", "fencepost_schemas"})


def told_of(fault: Exception, dialect: object) -> str:
    """Return in one line what is to be mended: the user's dialect, where this passed through it."""
    kind, walked = fit(type(fault).__name__), list(traceback.walk_tb(fault.__traceback__))
    theirs = {_package(one.__module__) for one in type(dialect).__mro__} - OURS
    for frame, line in reversed(walked):
        if _package(frame.f_globals.get("__name__", "")) in theirs:
            place = _place(frame, line)
            return f"its dialect raised {kind} in {place}: mend the dialect"
    place = _place(*walked[-1])
    return f"{kind} was raised in {place}: mend that where it is your own code, or report it"


def stack_of(fault: Exception) -> str:
    """Return where it passed, for whoever mends it."""
    return fit("".join(traceback.format_tb(fault.__traceback__)), LOGGED_CHARS_MAX)


def _place(frame: FrameType, line: int) -> str:
    """Return where that is; the name of a file need not be UTF-8."""
    return f"{fit(frame.f_code.co_name)}, {fit(frame.f_code.co_filename)} line {line}"


def _package(module: str) -> str:
    return module.partition(".")[0]
