"""Proves how an id with its generation in it is taken apart."""

import pytest

from fencepost_policies.schemes.named import scheme_for
from fencepost_policies.schemes.prefixed import check_shape
from fencepost_policies.schemes.scheme import Hole, Order

COLON = scheme_for("integer-dense", "gen:pos")
DASH = scheme_for("ms-seq", r"(?P<gen>[0-9a-f]+)/(?P<pos>[0-9]+-[0-9]+)")
BARE = scheme_for("integer", r"event-(?P<pos>[0-9]+)")


def test_positions_of_one_generation_are_in_order() -> None:
    """By the scheme within; of another generation nothing is known."""
    assert COLON.compare("a1:9", "a1:10") is Order.AFTER
    assert COLON.hole("a1:9", "a1:12") == Hole(2)
    assert COLON.covers("a1:10", "a1:9") is True
    assert COLON.compare("a1:9", "b2:10") is Order.UNKNOWN
    assert COLON.hole("a1:9", "b2:10") is None
    assert COLON.covers("b2:1", "a1:9") is None
    assert DASH.compare("ff/5-1", "ff/5-2") is Order.AFTER
    assert BARE.compare("event-9", "event-10") is Order.AFTER


@pytest.mark.parametrize(
    ("event_id", "expected"),
    [("a1:9", "a1"), ("a:b:9", "a:b"), ("9", ""), (":9", ""), ("a1:", ""), ("a" * 300 + ":1", "")],
)
def test_the_generation_of_an_id(event_id: str, expected: str) -> None:
    """What does not fit the pattern, or is too long for one, names none."""
    assert expected == COLON.generation(event_id)


def test_a_pattern_without_a_generation_names_none() -> None:
    """The group gen may be left out."""
    assert BARE.generation("event-9") == ""


@pytest.mark.parametrize("shape", ["gen", "(?P<gen>.+)", "pos:gen", ""])
def test_a_pattern_needs_a_position(shape: str) -> None:
    """Whoever leaves it out reads what to write."""
    with pytest.raises(ValueError, match="has no group"):
        check_shape(shape)
