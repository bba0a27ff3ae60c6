"""Proves how times are read, and that only times of one kind are compared."""

import pytest

from fencepost_policies.schemes.scheme import Order
from fencepost_policies.schemes.timestamp import Timestamp, read

TIMESTAMP = Timestamp()
NOON = "2026-02-28T12:00:00"


@pytest.mark.parametrize(
    ("earlier", "later", "expected"),
    [
        ("1795998878", "1795998879", Order.AFTER),
        ("9", "10", Order.AFTER),
        ("1.9", "1.10", Order.BEFORE),
        ("-1.5", "-1.4", Order.AFTER),
        ("1.5", "1.50", Order.SAME),
        ("0.1234567890123", "0.1234567890124", Order.AFTER),
        (f"{NOON}Z", f"{NOON}.000000001Z", Order.AFTER),
        (f"{NOON}.9Z", f"{NOON}.10Z", Order.BEFORE),
        (f"{NOON}Z", "2026-02-28 12:00:00Z", Order.SAME),
        (f"{NOON}Z", f"{NOON}+01:00", Order.BEFORE),
        (f"{NOON}+0100", f"{NOON}Z", Order.AFTER),
        (NOON, "2026-03-01T00:00:00", Order.AFTER),
        (NOON, f"{NOON}Z", Order.UNKNOWN),
        ("1795998878", f"{NOON}Z", Order.UNKNOWN),
        (f"{NOON}Z", "2026-02-30T12:00:00Z", Order.UNKNOWN),
        (f"{NOON}Z", "today", Order.UNKNOWN),
        ("today", "today", Order.UNKNOWN),
    ],
)
def test_the_order_of_times(earlier: str, later: str, expected: Order) -> None:
    """Exact to the last digit; a local time and one with a zone say nothing of each other."""
    assert expected is TIMESTAMP.compare(earlier, later)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1e9",
        "0x1",
        "1_0",
        "\u0661",
        "1.",
        ".5",
        "+1",
        "12:00",
        "0000-01-01T00:00:00Z",
        f"{NOON}+99:00",
        f"{NOON}z",
    ],
)
def test_what_is_no_time(text: str) -> None:
    """Nothing is guessed."""
    assert read(text) is None


def test_several_events_may_share_a_time() -> None:
    """So an event of the floor's own time may be gone, and only an earlier floor covers."""
    assert TIMESTAMP.ties
    assert TIMESTAMP.covers("5", "5") is None
    assert TIMESTAMP.covers("4", "5") is True
    assert TIMESTAMP.covers("6", "5") is None
