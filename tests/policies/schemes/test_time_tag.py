"""Proves what nchan's ids say of order and of loss."""

import pytest

from fencepost_policies.schemes.scheme import Hole, Order
from fencepost_policies.schemes.time_tag import TimeTag

TIME_TAG = TimeTag()


@pytest.mark.parametrize(
    ("earlier", "later", "order", "hole"),
    [
        ("1795998878:0", "1795998878:1", Order.AFTER, Hole(0)),
        ("1795998878:0", "1795998878:4", Order.AFTER, Hole(3)),
        ("1795998878:7", "1795998879:0", Order.AFTER, None),
        ("1795998878:7", "1795998879:2", Order.AFTER, Hole(2, exact=False)),
        ("9:9", "10:0", Order.AFTER, None),
        ("10:1", "10:1", Order.SAME, None),
        ("10:1", "10:0", Order.BEFORE, None),
        ("10:1", "9:5", Order.BEFORE, None),
        ("10:1", "10:-1", Order.UNKNOWN, None),
        ("10", "10:1", Order.UNKNOWN, None),
        ("10:1", "10:1,[2]", Order.UNKNOWN, None),
    ],
)
def test_order_and_holes(earlier: str, later: str, order: Order, hole: Hole | None) -> None:
    """Within a second exact; a second that does not begin with 0 has lost at least so many."""
    assert order is TIME_TAG.compare(earlier, later)
    assert hole == TIME_TAG.hole(earlier, later)


@pytest.mark.parametrize(
    ("floor", "expected"),
    [("10:2", True), ("10:3", True), ("10:4", False), ("9:9", True), ("11:0", None)],
)
def test_a_log_covers(floor: str, expected: bool | None) -> None:
    """The next id of the same second is the successor; of a later second nothing is known."""
    assert expected is TIME_TAG.covers(floor, "10:2")
