"""What commands print: foreign text made harmless, and a name for whoever answers."""

import getpass
import sys

import pytest

from fencepost.cli.output import plain, print_lines
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
