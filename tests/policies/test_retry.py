"""Proves that the bounds of a wait are bounds: ordered, growing, and never past the longest."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost_policies.retry import RETRY_AFTER_S_MAX, WaitBounds, asked_bounds, wait_bounds

durations = st.floats(min_value=0.001, max_value=1e6)


@settings(deadline=None)
@given(st.integers(1, 10_000), durations, durations)
def test_the_bounds_are_in_order(attempt: int, first_s: float, longest_s: float) -> None:
    """0 < least <= most <= longest, at any attempt, however large."""
    bounds = wait_bounds(attempt, first_s=first_s, longest_s=longest_s)
    assert 0 < bounds.least_s <= bounds.most_s <= longest_s


@settings(deadline=None)
@given(st.integers(1, 100), durations, durations)
def test_the_upper_bound_never_shrinks(attempt: int, first_s: float, longest_s: float) -> None:
    """A later attempt waits as long or longer."""
    now = wait_bounds(attempt, first_s=first_s, longest_s=longest_s)
    then = wait_bounds(attempt + 1, first_s=first_s, longest_s=longest_s)
    assert now.most_s <= then.most_s


@pytest.mark.parametrize(
    ("attempt", "most_s"), [(1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (5, 10.0), (1_000, 10.0)]
)
def test_the_upper_bound_doubles_up_to_the_longest(attempt: int, most_s: float) -> None:
    """The documented growth, in numbers."""
    expected = WaitBounds(least_s=0.5, most_s=most_s)
    assert expected == wait_bounds(attempt, first_s=1.0, longest_s=10.0)


@pytest.mark.parametrize("attempt", [0, -1])
def test_there_is_no_attempt_before_the_first(attempt: int) -> None:
    """Attempts are counted from one."""
    with pytest.raises(AssertionError):
        wait_bounds(attempt, first_s=1.0, longest_s=10.0)


@pytest.mark.parametrize(
    ("retry_s", "after_s", "asked_s"),
    [
        (0.0, 0.0, 0.0),
        (3.0, 0.0, 3.0),
        (3.0, 5.0, 5.0),
        (1e9, 0.0, 60.0),
        (0.0, 120.0, 120.0),
        (0.0, 1e9, RETRY_AFTER_S_MAX),
    ],
)
def test_what_a_source_asks_for_is_the_least_and_chance_is_on_top(
    retry_s: float, after_s: float, asked_s: float
) -> None:
    """`retry: 0` still gets our floor, and nobody comes back at the very second it was told."""
    bounds = asked_bounds(WaitBounds(0.25, 2.0), retry_s=retry_s, after_s=after_s, longest_s=60.0)
    assert WaitBounds(asked_s + 0.25, asked_s + 2.0) == bounds
