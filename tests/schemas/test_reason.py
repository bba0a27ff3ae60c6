"""Proves that a reason can be read by people and by programs."""

import pytest

from fencepost_schemas.reason import Reason


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_meaning_in_one_line(reason: Reason) -> None:
    """A record names its reasons; whoever reads it needs no manual."""
    assert reason.meaning.strip() == reason.meaning != ""
    assert "\n" not in reason.meaning


def test_no_two_reasons_mean_the_same() -> None:
    """A meaning that is used twice is a reason too many, or a slip of the pen."""
    assert len(Reason) == len({reason.meaning for reason in Reason})


@pytest.mark.parametrize("reason", Reason)
def test_a_reason_is_written_as_it_is_named(reason: Reason) -> None:
    """The value is the lower-case name, so that neither can drift from the other."""
    assert reason.name.lower() == reason.value
