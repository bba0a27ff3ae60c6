"""What commands print: foreign text made harmless, and a name for whoever answers."""

import getpass

import pytest

from fencepost.cli.output import plain
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
