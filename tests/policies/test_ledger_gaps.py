"""A key that is known in other words, where one of the two came from a reconciler."""

from typing import Any

import msgspec
import pytest

from fencepost_policies.disposition import Action
from fencepost_policies.ledger import Signal, signal, step
from fencepost_policies.plan import Arrived, Finished, Notice, Outcome, Settlement, Start, Terms
from fencepost_schemas.row import Effect, Row, State
from fencepost_schemas.standing import Standing

NOW, LEASE = 1_000_000, 3_000
START = Start("c2", "worker-2", LEASE, 6_000, Terms(parked_over_ms=30_000))


def arrival(fingerprint: str = "f2", gap: str = "") -> Arrived:
    return Arrived(
        action=Action.RUN,
        start=START,
        handler="charge",
        namespace="crm",
        key="k:task-1",
        fingerprint=fingerprint,
        effect=Effect.ONCE,
        standing=Standing.RESUMED,
        source="crm",
        generation="0001-aaaaaaaa",
        position="7",
        gap=gap,
    )


def standing_row(state: State, gap: str = "", **changes: Any) -> Row:
    row = step(None, arrival("f1", gap), NOW).write
    assert row is not None
    return msgspec.structs.replace(row, state=state, **changes)


@pytest.mark.parametrize(
    ("row_gap", "given_gap", "word"),
    [
        ("", "", Signal.OTHER_PAYLOAD),
        ("gap-x", "", Signal.KNOWN_BY_KEY),
        ("", "gap-x", Signal.KNOWN_BY_KEY),
        ("gap-x", "gap-y", Signal.KNOWN_BY_KEY),
    ],
)
def test_a_conflict_is_one_of_the_source_with_itself(
    row_gap: str, given_gap: str, word: Signal
) -> None:
    """What a reconciler fetches reads otherwise; that is no sign of a key used twice."""
    row = standing_row(State.APPLIED, row_gap)
    assert word is signal(row, arrival(gap=given_gap), NOW)


def test_the_row_remembers_who_brought_its_bytes() -> None:
    """Also when the source then brings the same: what it holds was fetched."""
    row = standing_row(State.RETRY_WAIT, "gap-x")
    assert "gap-x" == row.gap
    again = step(row, arrival("f1"), NOW + 1).write
    assert again is not None
    assert (State.STARTED, "gap-x") == (again.state, again.gap)


@pytest.mark.parametrize("state", [one for one in State if one.terminal or one.parked])
def test_what_is_decided_or_waits_for_a_person_is_left_as_it_is(state: State) -> None:
    plan = step(standing_row(state), arrival(gap="gap-x"), NOW)
    assert (None, False, Settlement.ACK) == (plan.write, plan.run, plan.settle)


@pytest.mark.parametrize(
    ("state", "changes", "delay_ms"),
    [
        (State.STARTED, {"lease_until_ms": NOW + 2_000}, 2_000),
        (State.CLAIMED, {"lease_until_ms": NOW + 2_000}, 2_000),
        (State.STARTED, {"lease_until_ms": NOW - 5}, 1_000),
        (State.RETRY_WAIT, {"lease_until_ms": 0, "due_ms": NOW + 4_000}, 4_000),
        (State.RETRY_WAIT, {"lease_until_ms": 0, "due_ms": NOW + 900_000}, 30_000),
    ],
)
def test_what_is_under_way_is_waited_for(
    state: State, changes: dict[str, Any], delay_ms: int
) -> None:
    """It is acked once it is decided: until then nobody knows that it will be."""
    plan = step(standing_row(state, **changes), arrival(gap="gap-x"), NOW)
    assert (None, False, Settlement.LATER) == (plan.write, plan.run, plan.settle)
    assert delay_ms == plan.delay_ms


def test_what_the_source_tells_lies_beside_a_rejected_telling() -> None:
    """A reconciler that fetches nonsense does not lose what the stream brings; not vice versa."""
    of_the_source = step(standing_row(State.REJECTED, "gap-x"), arrival(), NOW)
    assert (Notice.BURY,) == of_the_source.publish
    for row_gap in ("", "gap-x"):
        fetched = step(standing_row(State.REJECTED, row_gap), arrival(gap="gap-y"), NOW)
        assert ((), Settlement.ACK) == (fetched.publish, fetched.settle)


# --- a reconciler's last attempt ----------------------------------------------------------------
@pytest.mark.parametrize("outcome", [Outcome.NOT_APPLIED, Outcome.UNKNOWN])
def test_a_last_attempt_that_fails_is_asked_about_where_that_was_wanted(outcome: Outcome) -> None:
    """Nobody looks among the dead for what may be missing."""
    row = standing_row(State.STARTED, lease_until_ms=NOW + 10)
    row = msgspec.structs.replace(row, effect=Effect.IDEMPOTENT, attempt=2)
    for asks, state in ((True, State.IN_DOUBT), (False, State.REJECTED)):
        terms = Terms(attempts_max=2, asks_when_spent=asks)
        plan = step(row, Finished(row.claim, outcome, error="why", terms=terms), NOW)
        assert plan.write is not None
        assert (state, "why") == (plan.write.state, plan.write.error)


def test_a_last_attempt_that_never_came_back_is_asked_about() -> None:
    row = standing_row(State.STARTED, lease_until_ms=NOW - 1)
    row = msgspec.structs.replace(row, effect=Effect.IDEMPOTENT, attempt=2)
    terms = Terms(attempts_max=2, asks_when_spent=True)
    given = msgspec.structs.replace(
        arrival("f1"), start=msgspec.structs.replace(START, terms=terms)
    )
    plan = step(row, given, NOW)
    assert plan.write is not None
    assert (State.IN_DOUBT, (Notice.ASK_DOUBT,)) == (plan.write.state, plan.publish)
