"""When a connection is resumed anew, and when it is better left in peace."""

from fencepost_policies.overlap import Ask, Cover
from fencepost_policies.renewal import Due, Watch, age_bounds, provable
from fencepost_schemas.cursor import Mark, Position

ASK = Ask(Position("7"))
OWED = Ask(Position("7"), (Mark(Position("8"), "d"),))
COVER = Ask(Position("7"), (), Cover((Mark(Position("7"), "d"),), "8", {"8": "d"}))


def test_a_connection_grows_old() -> None:
    watch = Watch(age_s=10.0, quiet_s=0.0, now_s=100.0)
    assert (None, 110.0) == (watch.due(109.9), watch.due_at_s)
    watch.heard(109.0)
    assert Due.AGE is watch.due(110.0)
    watch.looked(110.0)
    assert (None, 120.0) == (watch.due(119.9), watch.due_at_s)


def test_a_silence_is_looked_behind_once() -> None:
    watch = Watch(age_s=0.0, quiet_s=5.0, now_s=0.0)
    watch.heard(3.0)
    assert (None, Due.QUIET) == (watch.due(7.9), watch.due(8.0))
    watch.looked(8.0)
    assert watch.due(1e9) is None
    watch.heard(20.0)
    assert (None, Due.QUIET) == (watch.due(24.9), watch.due(25.0))


def test_a_silence_that_was_looked_behind_goes_on_in_the_next_connection() -> None:
    watch = Watch(age_s=0.0, quiet_s=5.0, now_s=0.0, looked=True)
    assert watch.due(1e9) is None
    watch.heard(10.0)
    assert Due.QUIET is watch.due(15.0)


def test_a_limit_of_nothing_is_never() -> None:
    watch = Watch(age_s=0.0, quiet_s=0.0, now_s=0.0)
    watch.heard(1.0)
    assert watch.due(1e12) is None


def test_the_age_is_a_bound_and_not_the_same_for_all() -> None:
    bounds = age_bounds(900.0)
    assert (675.0, 900.0) == (bounds.least_s, bounds.most_s)


def test_only_what_may_prove_something_is_worth_a_resume() -> None:
    """The position alone, of a source that never honoured one, is what makes doubt."""
    assert not provable((), proven=True)
    assert not provable((ASK,), proven=False)
    assert provable((ASK,), proven=True)
    assert provable((OWED,), proven=False)
    assert provable((COVER,), proven=False)
