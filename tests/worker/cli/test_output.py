"""What commands print: foreign text made harmless, and a name for whoever answers."""

import getpass
import logging
import sys

import pytest

from fencepost.cli.output import ENTRY_CHARS_MAX, OneLine, plain, print_lines
from fencepost.cli.questions import _own_name
from fencepost.errors import UsageError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain ütf", "plain ütf"),
        ("\x1b[2Jgone", "\\u001b[2Jgone"),
        ("a\nb\tc", "a\\u000ab\\u0009c"),
        ("\u202eright to left", "\\u202eright to left"),
        ("\x00", "\\u0000"),
    ],
)
def test_foreign_text_cannot_steer_a_terminal(text: str, expected: str) -> None:
    """Control, escape and direction characters are shown, not sent."""
    assert expected == plain(text)


@pytest.mark.parametrize("error", [KeyError("uid not found"), OSError("no name")])
def test_a_system_without_a_name_for_us(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """As in a container that runs under a bare number: the option is named."""

    def getuser() -> str:
        raise error

    monkeypatch.setattr(getpass, "getuser", getuser)
    with pytest.raises(UsageError, match="say who answers with --as"):
        _own_name()


def test_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lines are broken between words, behind their indentation; in a pipe they are left whole."""
    lines = ["  overlap: the source gave back the events that we had", "", "short"]
    print_lines(lines)
    assert lines == capsys.readouterr().out.splitlines()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "30")
    print_lines(lines)
    broken = ["  overlap: the source gave", "    back the events that we", "    had", "", "short"]
    assert broken == capsys.readouterr().out.splitlines()


# --- the log ------------------------------------------------------------------------------------
FORGED = "rejected\n12:00:00 ERROR   orders: the ledger is lost\x1b[2J\u202e\r\u2028\u0085"


def logged(message: str, *values: object, error: BaseException | None = None) -> str:
    told = (type(error), error, error.__traceback__) if error is not None else None
    record = logging.LogRecord("fencepost", logging.ERROR, "", 1, message, values, told)
    return OneLine().format(record)


def test_an_entry_of_the_log_is_one_line_whatever_is_in_it() -> None:
    """A source, an exception or a handler's own text cannot write a line that looks like ours."""
    line = logged("%s: %s", "charge", FORGED)
    assert line.isprintable() and "\\u001b" in line and "\\u000a12:00:00" in line


def test_an_entry_has_an_end() -> None:
    line = logged("%s", "x" * 1_000_000)
    assert len(line) < ENTRY_CHARS_MAX + 100 and line.endswith("(1000000 characters)")


def test_a_traceback_stands_indented_behind_its_entry() -> None:
    """No line of it begins as an entry does, whatever its exception says."""
    try:
        raise RuntimeError(FORGED)
    except RuntimeError as error:
        first, *lines = logged("it failed", error=error).splitlines()
    assert first.endswith("it failed")
    assert lines and all(line.startswith("    ") and line.isprintable() for line in lines)
    assert any("the ledger is lost" in line for line in lines)
