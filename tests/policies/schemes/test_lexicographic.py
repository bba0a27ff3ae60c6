"""Proves that texts are ordered by their bytes."""

import pytest

from fencepost_policies.schemes.lexicographic import LEXICOGRAPHIC
from fencepost_policies.schemes.scheme import Order


@pytest.mark.parametrize(
    ("earlier", "later", "expected"),
    [
        ("0000000000000000_0000000000000015", "0000000000000000_0000000000000039", Order.AFTER),
        ("9", "10", Order.BEFORE),
        ("a", "aa", Order.AFTER),
        ("Z", "a", Order.AFTER),
        ("\uffff", "\U00010000", Order.AFTER),
        ("a", "a", Order.SAME),
        ("", "a", Order.UNKNOWN),
    ],
)
def test_the_order_of_texts(earlier: str, later: str, expected: Order) -> None:
    """As UTF-8, which for characters beyond 16 bits differs from other ways of sorting."""
    assert expected is LEXICOGRAPHIC.compare(earlier, later)
