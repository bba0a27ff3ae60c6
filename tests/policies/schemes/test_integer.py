"""Proves how whole numbers are ordered, and that nothing else passes for one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost_policies.schemes.integer import Integer, _number, number
from fencepost_policies.schemes.scheme import Order

INTEGER = Integer()
ANY = settings(deadline=None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0), ("9", 9), ("007", 7), ("-5", -5), ("-0", 0), ("9" * 40, int("9" * 40)),
        ("", None), ("-", None), ("--5", None), ("+9", None), (" 9", None), ("9 ", None),
        ("9\n", None), ("9x", None), ("0x9", None), ("1_000", None), ("1.0", None), ("1e3", None),
        ("\u0669", None), ("\u00b2", None), ("9" * 41, None), ("-" + "9" * 41, None),
        ("9" * 10_000, None),
    ],
    ids=lambda value: ascii(value)[:12],
)  # fmt: skip
def test_what_is_a_number(text: str, expected: int | None) -> None:
    """Plain decimal digits with a minus at most; the length is bounded."""
    assert expected == number(text)


@pytest.mark.parametrize(
    ("earlier", "later", "expected"),
    [
        ("4118", "4119", Order.AFTER),
        ("4118", "5000", Order.AFTER),
        ("9", "10", Order.AFTER),
        ("4118", "4118", Order.SAME),
        ("7", "007", Order.SAME),
        ("4118", "13", Order.BEFORE),
        ("0", "-1", Order.BEFORE),
        ("4118", "x", Order.UNKNOWN),
        ("x", "4118", Order.UNKNOWN),
        ("x", "x", Order.UNKNOWN),
        ("", "1", Order.UNKNOWN),
    ],
)
def test_the_order_of_two_ids(earlier: str, later: str, expected: Order) -> None:
    """Numbers compare as numbers, not as text; with anything else nothing is known."""
    assert expected is INTEGER.compare(earlier, later)


@ANY
@given(st.integers(), st.integers())
def test_the_order_is_that_of_the_numbers(earlier: int, later: int) -> None:
    """Within the bound on digits the scheme agrees with arithmetic."""
    expected = Order.AFTER if later > earlier else Order.SAME if later == earlier else Order.BEFORE
    assert expected is INTEGER.compare(str(earlier), str(later))


@pytest.mark.parametrize(
    ("floor", "asked", "expected"),
    [
        ("1", "4118", True),
        ("4118", "4118", True),
        ("4119", "4118", True),
        ("4120", "4118", False),
        ("0", "-1", True),
        ("1", "-1", False),
        ("x", "4118", None),
        ("4118", "x", None),
        ("", "4118", None),
        ("4118", "", None),
    ],
)
def test_a_log_covers_what_comes_after_the_id_asked_for(
    floor: str, asked: str, expected: bool | None
) -> None:
    """The oldest id held may be the very next one; one more, and something is lost."""
    assert expected is INTEGER.covers(floor, asked)


def test_what_is_far_too_long_is_not_remembered() -> None:
    """A source may send ids of a megabyte, each another one; none of them may stay."""
    before = _number.cache_info().misses
    assert [None] * 3 == [number(str(first) * 100_000) for first in range(3)]
    assert before == _number.cache_info().misses
