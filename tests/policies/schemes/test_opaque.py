"""Proves that ids without an order are never given one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost_policies.schemes.opaque import Opaque
from fencepost_policies.schemes.scheme import Order

OPAQUE = Opaque()


@settings(deadline=None)
@given(st.text(), st.text())
def test_opaque_ids_are_the_same_or_unknown(earlier: str, later: str) -> None:
    """No two different ids are ever put in an order."""
    expected = Order.SAME if earlier == later else Order.UNKNOWN
    assert expected is OPAQUE.compare(earlier, later)


@pytest.mark.parametrize(
    ("floor", "asked", "expected"),
    [("a", "a", True), ("a", "b", None), ("1", "2", None), ("2", "1", None)],
)
def test_a_log_covers_an_opaque_id_only_where_it_still_holds_it(
    floor: str, asked: str, expected: bool | None
) -> None:
    """Without a successor there is no "next": only the id itself as floor is an answer."""
    assert expected is OPAQUE.covers(floor, asked)
