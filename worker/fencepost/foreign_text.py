"""Text that foreign code made, fit to be stored, sent and printed.

What an exception says of itself may have no UTF-8 (the name of a file that `os.listdir` gave), may
be a hundred megabytes, and may raise when it is asked for. None of that may end a worker. So text
of an exception passes through here before it enters a row, a question, a header or a log.
"""

import logging
import traceback
from collections.abc import Iterator

import msgspec

from fencepost_schemas.limits import NOTE_CHARS_MAX

UNPRINTABLE = "unprintable"
TRACE_CHARS_MAX = 2_000
"""The end of a traceback, which is where it tells most."""
LOGGED_CHARS_MAX = 50_000
"""Of a traceback that is logged whole."""
EXCEPTIONS_MAX = 100
"""Looked at of one exception: its causes, and what is in it where it is a group."""


class Told(msgspec.Struct, frozen=True):
    """What an exception says of itself: its type and text, and the end of its traceback.

    `exc_info` is for the log: the exception, or None where a log's own way of printing it could
    fail or take too much memory.
    """

    text: str
    trace: str
    exc_info: BaseException | None


def fit(text: object, chars_max: int = NOTE_CHARS_MAX) -> str:
    """Return the text as UTF-8 can carry it, and no more than so much of it."""
    try:
        # A subclass of str may have its own idea of each method, so str's are used.
        start = str.__getitem__(str(text), slice(chars_max))
    except BaseException:  # whatever foreign code raises when it is asked for its text
        return UNPRINTABLE
    return start.encode("utf-8", "backslashreplace").decode()[:chars_max]


def error_text(error: BaseException) -> str:
    """Return the type of an exception and its text."""
    # Asked of the class, its name could be anything that a class of classes makes of it.
    name = type.__dict__["__name__"].__get__(type(error))
    return f"{fit(name)}: {fit(error)}"


def told_by(error: BaseException) -> Told:
    formatted = _formatted(error)
    if formatted is None:
        return Told(error_text(error), _bare_trace(error), None)
    return Told(error_text(error), formatted[-TRACE_CHARS_MAX:], error)


def log_error(log: logging.Logger, level: int, text: str, told: Told) -> None:
    """Log a line, and behind it where the exception came from."""
    if told.exc_info is not None:
        log.log(level, "%s", text, exc_info=told.exc_info)
    else:
        log.log(level, "%s\n%s", text, told.trace)


def _formatted(error: BaseException) -> str | None:
    """Return the whole traceback, None where it cannot be had or is too long."""
    try:
        if any(len(str(one)) > NOTE_CHARS_MAX for one in _parts(error)):
            return None
        formatted = "".join(traceback.format_exception(error))
        if len(formatted) > LOGGED_CHARS_MAX:
            return None
        formatted.encode()
    except BaseException:  # whatever foreign code raises when it is asked for its text
        return None
    return formatted


def _bare_trace(error: BaseException) -> str:
    """Return where each of an exception's parts passed, the exception itself last."""
    try:
        traces = [
            "".join(traceback.format_tb(one.__traceback__)) + error_text(one)
            for one in _parts(error)
        ]
    except BaseException:  # a traceback reads source text through loaders that may be foreign
        traces = [error_text(error)]
    text = "\n\n".join(reversed(traces))
    return fit(text[-TRACE_CHARS_MAX:], TRACE_CHARS_MAX)


def _parts(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, then those behind it and in it, each once."""
    seen: dict[int, BaseException] = {}
    waiting: list[BaseException | None] = [error]
    while waiting and len(seen) < EXCEPTIONS_MAX:
        one = waiting.pop(0)
        if one is None or id(one) in seen:
            continue
        seen[id(one)] = one
        yield one
        waiting += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions[:EXCEPTIONS_MAX]
