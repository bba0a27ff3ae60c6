"""Proves how the ids of Redis streams are ordered."""

import pytest

from fencepost_policies.schemes.ms_seq import MS_SEQ
from fencepost_policies.schemes.scheme import Order


@pytest.mark.parametrize(
    ("earlier", "later", "expected"),
    [
        ("1526919030474-55", "1526919030474-56", Order.AFTER),
        ("9-9", "10-0", Order.AFTER),
        ("10-9", "10-10", Order.AFTER),
        ("10", "10-0", Order.SAME),
        ("10-0", "9-99", Order.BEFORE),
        ("10-", "10-1", Order.UNKNOWN),
        ("-1-1", "10-1", Order.UNKNOWN),
        ("10-*", "10-1", Order.UNKNOWN),
    ],
)
def test_the_order_of_ids(earlier: str, later: str, expected: Order) -> None:
    """By the milliseconds first, by the number then, both as numbers."""
    assert expected is MS_SEQ.compare(earlier, later)


def test_numbers_are_left_out() -> None:
    """No two ids are known to follow each other, so nothing is known of what lies between."""
    assert MS_SEQ.hole("10-0", "10-1") is None
    assert MS_SEQ.covers("10-1", "10-0") is None
    assert MS_SEQ.covers("10-0", "10-0") is True
