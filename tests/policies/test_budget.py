"""Proves that one host is not connected to more often than its budget, and nobody starves."""

from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost_policies.budget import Budget, spend


def test_a_thousand_at_once_are_spread_out() -> None:
    """The burst goes at once, the others at the rate, each at a time of its own."""
    budget: Budget | None = None
    waits = []
    for _ in range(1_000):
        budget, wait_s = spend(budget, 100.0, per_s=20.0, burst=40)
        waits.append(wait_s)
    assert [0.0] * 40 == waits[:40]
    assert [round((number + 1) / 20.0, 6) for number in range(960)] == [
        round(wait_s, 6) for wait_s in waits[40:]
    ]


def test_a_quiet_host_is_full_again() -> None:
    """What was not used is kept up to the burst, and no further."""
    budget: Budget | None = None
    for _ in range(5):
        budget, _ = spend(budget, 0.0, per_s=1.0, burst=2)
    waits = []
    for _ in range(3):
        budget, wait_s = spend(budget, 1_000.0, per_s=1.0, burst=2)
        waits.append(wait_s)
    assert [0.0, 0.0, 1.0] == waits


def test_a_clock_that_stands_or_falls_back_gives_nothing() -> None:
    """The budget is not filled by a time that did not pass."""
    _, wait_s = spend(Budget(0.0, 10.0), 5.0, per_s=10.0, burst=5)
    assert 0.1 == wait_s


@settings(deadline=None)
@given(
    st.lists(st.floats(0.0, 0.5), min_size=1, max_size=200),
    st.floats(0.5, 100.0),
    st.integers(1, 50),
)
def test_no_second_sees_more_than_its_share(pauses: list[float], per_s: float, burst: int) -> None:
    """In any stretch of time there are at most the burst and what the rate allows."""
    budget: Budget | None = None
    now_s, starts = 0.0, []
    for pause_s in pauses:
        now_s += pause_s
        budget, wait_s = spend(budget, now_s, per_s=per_s, burst=burst)
        starts.append(now_s + wait_s)
    assert starts == sorted(starts)
    for first in range(len(starts)):
        for last in range(first, len(starts)):
            allowed = burst + (starts[last] - starts[first]) * per_s
            assert last - first + 1 <= allowed + 1e-6
