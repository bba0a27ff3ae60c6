"""Whatever an exception says of itself, it can be stored, sent and printed."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.foreign_text import (
    TRACE_CHARS_MAX,
    UNPRINTABLE,
    error_text,
    fit,
    log_error,
    told_by,
)
from fencepost_schemas.limits import NOTE_CHARS_MAX

ANY_TEXT = st.text(st.characters(categories=None, exclude_categories=()))
"""Lone surrogates and all that is no character included."""
KINDS: list[type[BaseException]] = [
    RuntimeError,
    KeyError,
    OSError,
    SystemExit,
    KeyboardInterrupt,
    GeneratorExit,
    asyncio.CancelledError,
    StopIteration,
    BaseException,
]


class Odd(str):
    """Text with its own idea of what text is."""

    def encode(self, *_: Any, **__: Any) -> bytes:
        raise RuntimeError("no")

    def __getitem__(self, _: Any) -> str:
        return "\udce9"

    def __len__(self) -> int:
        return -7


def says(what: Any) -> type[Exception]:
    """Return a kind of exception whose text is what this returns or raises."""

    class Says(Exception):
        def __str__(self) -> str:
            if isinstance(what, BaseException):
                raise what
            return what  # type: ignore[no-any-return]

        __repr__ = __str__

    return Says


class Renamed(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise SystemExit(7)


class Nameless(Exception, metaclass=Renamed):
    pass


def odd_exceptions() -> Iterator[BaseException]:
    yield says(RuntimeError("no text"))()
    yield says(SystemExit(3))()
    yield says(KeyboardInterrupt())()
    yield says(RecursionError())()
    yield says(7)()
    yield says(None)()
    yield says(b"bytes")()
    yield says(Odd("odd"))()
    yield Nameless("nameless")
    yield RuntimeError("x" * 10_000_000)
    yield RuntimeError("\udce9" * 10_000)
    yield BaseExceptionGroup("several", [SystemExit(1), RuntimeError("\udce9")])
    yield ExceptionGroup("nested", [ExceptionGroup("deeper", [says(ValueError())()])] * 3)
    wrong = SyntaxError("wrong")
    wrong.lineno, wrong.text, wrong.filename = "no number", 7, b"\xff"  # type: ignore[assignment]
    yield wrong
    noted = RuntimeError("noted")
    noted.__notes__ = [says(ValueError())(), 7, "\udce9"]  # type: ignore[list-item]
    yield noted
    circle = RuntimeError("circle")
    circle.__cause__ = RuntimeError("other")
    circle.__cause__.__context__ = circle
    yield circle
    yield chained(2_000)


def chained(length: int) -> BaseException:
    error = RuntimeError("first")
    for number in range(length):
        following = RuntimeError(f"number {number}")
        following.__context__ = error
        error = following
    return error


def raised(error: BaseException) -> BaseException:
    """Return the exception with a traceback."""
    try:
        raise error
    except BaseException as caught:  # whatever it is
        return caught


def check(error: BaseException) -> None:
    """Check that all that is told of it can be stored, and is no longer than it may be."""
    told = told_by(error)
    msgspec.json.encode(told.text + told.trace)
    assert len(told.text) <= 2 * NOTE_CHARS_MAX + 2
    assert len(told.trace) <= TRACE_CHARS_MAX
    assert type(told.text) is type(told.trace) is str
    assert told.text == error_text(error)
    assert told.trace


@given(ANY_TEXT, st.sampled_from(KINDS))
def test_any_text_of_any_exception(text: str, kind: type[BaseException]) -> None:
    check(kind(text))
    check(raised(kind(text)))


@given(ANY_TEXT, st.integers(1, 40))
def test_any_text_fits(text: str, chars_max: int) -> None:
    """And text that fitted before is as it was."""
    made = fit(text, chars_max)
    assert len(made.encode()) >= len(made) <= chars_max
    try:
        text.encode()
    except UnicodeEncodeError:
        assert text[:chars_max] != made or "\\" in made or text[:chars_max].isascii()
    else:
        assert made == text[:chars_max]


@pytest.mark.parametrize("number", range(len(list(odd_exceptions()))))
def test_exceptions_that_are_odd(number: int, caplog: pytest.LogCaptureFixture) -> None:
    """They are printed by the log as well, whose own way of printing would raise for some."""
    error = list(odd_exceptions())[number]
    check(error)
    check(raised(error))
    with caplog.at_level(logging.WARNING):
        log_error(logging.getLogger("odd"), logging.WARNING, "it failed", told_by(error))
    assert "it failed" in caplog.text
    caplog.text.encode()
    assert len(caplog.text) < 100_000


def test_what_cannot_be_printed_is_said_to_be_so() -> None:
    assert error_text(says(RuntimeError())()) == f"Says: {UNPRINTABLE}"
    assert fit(says(7)()) == UNPRINTABLE
    assert fit("no such file: 'caf\udce9.txt'") == "no such file: 'caf\\udce9.txt'"


def test_an_ordinary_exception_is_told_with_its_causes() -> None:
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise ValueError("outer") from inner
    except ValueError as error:
        told = told_by(error)
    assert told.text == "ValueError: outer"
    assert "KeyError: 'inner'" in told.trace
    assert told.trace.rstrip().endswith("ValueError: outer")
    assert isinstance(told.exc_info, ValueError)
