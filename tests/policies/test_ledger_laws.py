"""Proves what holds of the ledger's state machine over all rows, all givens and all moments."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost_policies.disposition import Action
from fencepost_policies.ledger import TABLE, Signal, signal, step
from fencepost_policies.moves import conflict_key
from fencepost_policies.plan import (
    Answered,
    Arrived,
    Finished,
    Given,
    Notice,
    Outcome,
    Settlement,
    Start,
)
from fencepost_schemas.limits import ATTEMPTS_MAX
from fencepost_schemas.question import QuestionKind, Ruling
from fencepost_schemas.row import Effect, Row, State
from fencepost_schemas.standing import Standing

ANY = settings(deadline=None, max_examples=200)

NOW = 1_000_000
LEASE, TIMEOUT = 30_000, 60_000
START = Start("claim-new", "worker-2", LEASE, TIMEOUT)

times = st.integers(NOW - 10, NOW + 10)
effects = st.sampled_from(Effect)
generations = st.sampled_from(["0001-aaaaaaaa", "0009-zzzzzzzz"])
ATTEMPTS_LEAST = {State.STARTED: 1, State.RETRY_WAIT: 1, State.IN_DOUBT: 1}
ATTEMPTS_MOST = {State.PENDING: 0, State.CONFLICT: 0}


@st.composite
def rows(draw: st.DrawFn) -> Row | None:
    """Draw a row that is valid for its state, or none."""
    state = draw(st.sampled_from([None, *State]))
    if state is None:
        return None
    least, most = ATTEMPTS_LEAST.get(state, 0), ATTEMPTS_MOST.get(state, ATTEMPTS_MAX + 1)
    row = Row(
        state=state,
        handler="charge",
        namespace="crm",
        key="k:task-1",
        fingerprint="f1",
        effect=draw(effects),
        standing=Standing.RESUMED,
        source="crm",
        generation=draw(generations),
        position="7",
        first_seen_ms=NOW - 500_000,
        changed_ms=NOW - 400_000,
        attempt=draw(st.integers(least, most)),
        claim="claim-old",
        owner="worker-1",
    )
    if state is State.STARTED:
        lease = draw(times)
        return msgspec.structs.replace(
            row, lease_until_ms=lease, quarantine_until_ms=lease + TIMEOUT
        )
    if state is State.RETRY_WAIT:
        return msgspec.structs.replace(row, due_ms=draw(times))
    if state is State.IN_DOUBT:
        return msgspec.structs.replace(row, quarantine_until_ms=draw(times))
    return row


def arrivals() -> st.SearchStrategy[Arrived]:
    return st.builds(
        Arrived,
        action=st.sampled_from(Action),
        start=st.just(START),
        handler=st.just("charge"),
        namespace=st.just("crm"),
        key=st.just("k:task-1"),
        fingerprint=st.sampled_from(["f1", "f1", "f1", "f2"]),
        effect=effects,
        standing=st.sampled_from(Standing),
        source=st.just("crm"),
        generation=generations,
        position=st.just("7"),
        withheld=st.sampled_from(["", "", "too_large"]),
        undecodable=st.sampled_from(["", "", "no such field"]),
    )


givens = st.one_of(
    arrivals(),
    st.builds(
        Finished,
        claim=st.sampled_from(["claim-old", "claim-new"]),
        outcome=st.sampled_from(Outcome),
        error=st.just("why"),
        retry_ms=st.integers(0, 1_000),
    ),
    st.builds(
        Answered,
        st.sampled_from(sorted({*QuestionKind.DOUBT.rulings, *QuestionKind.REFUSAL.rulings})),
        st.just("eve"),
        st.integers(0, ATTEMPTS_MAX + 1),
        st.just(START),
    ),
)


@ANY
@given(rows(), givens, times)
def test_step_is_total(row: Row | None, given_: Given, now: int) -> None:
    """Every row meets every given in a pair that the table has: there is no unplanned moment."""
    assert (row.state if row is not None else None, signal(row, given_, now)) in TABLE
    step(row, given_, now)


@ANY
@given(rows(), givens, times)
def test_attempts_grow_by_one_run_each(row: Row | None, given_: Given, now: int) -> None:
    """A run is attempt n+1 under a lease and a fresh claim; nothing else moves the number."""
    plan = step(row, given_, now)
    before = row.attempt if row is not None else 0
    if plan.run:
        assert plan.write is not None and not isinstance(given_, Finished)
        expected = (State.STARTED, before + 1, "claim-new", "worker-2", now + LEASE)
        written = plan.write
        assert expected == (
            written.state, written.attempt, written.claim, written.owner, written.lease_until_ms,
        )  # fmt: skip
        assert ((), Settlement.SILENT) == (plan.publish, plan.settle)
    elif plan.write is not None and plan.write.state is not State.CONFLICT:
        assert before == plan.write.attempt
        assert plan.write.state is not State.STARTED


@ANY
@given(rows(), givens, times)
def test_a_terminal_row_is_never_written_again(row: Row | None, given_: Given, now: int) -> None:
    """What was decided stays; a conflict is written under another key only."""
    plan = step(row, given_, now)
    if plan.write is None:
        return
    if plan.write.state is State.CONFLICT:
        assert isinstance(given_, Arrived)
        assert conflict_key(given_.key, given_.fingerprint) == plan.write.key != given_.key
    else:
        assert row is None or not row.state.terminal


@ANY
@given(rows(), givens, times)
def test_a_row_never_changes_what_it_is_about(row: Row | None, given_: Given, now: int) -> None:
    """Handler, namespace, key, payload and first sight stay through every move."""
    plan = step(row, given_, now)
    if row is None or plan.write is None or plan.write.state is State.CONFLICT:
        return
    for field in ("handler", "namespace", "key", "fingerprint", "first_seen_ms", "version"):
        assert getattr(row, field) == getattr(plan.write, field)
    assert now == plan.write.changed_ms


@ANY
@given(rows(), givens, times)
def test_an_ack_leaves_nothing_unfinished(row: Row | None, given_: Given, now: int) -> None:
    """After an ack the row is decided or parked, or the event's bytes are held at the desk.

    Two acks are of something that carries no work: the announcement of a generation that a person
    discarded while another one's is at work, and an answer that its row does not wait for.
    """
    plan = step(row, given_, now)
    if plan.settle is not Settlement.ACK:
        return
    after = plan.write if plan.write is not None else row
    assert after is not None
    if after.state.terminal or after.state.parked or Notice.HOLD in plan.publish:
        return
    word = signal(row, given_, now)
    assert word in (Signal.DISCARDED_ELSEWHERE, Signal.OVERTAKEN)


@ANY
@given(rows(), givens, times)
def test_a_question_can_be_answered(row: Row | None, given_: Given, now: int) -> None:
    """What is asked is asked of a row that waits for it: no person answers into the void."""
    plan = step(row, given_, now)
    after = plan.write if plan.write is not None else row
    if Notice.ASK_DOUBT in plan.publish:
        assert after is not None and after.state is State.IN_DOUBT
    if Notice.ASK_REFUSAL in plan.publish:
        assert after is not None and after.state is State.REFUSED


@ANY
@given(rows(), givens, times)
def test_nothing_runs_that_may_not(row: Row | None, given_: Given, now: int) -> None:
    """A run takes a permitted, readable event that is here, or a person's word to try again."""
    if not step(row, given_, now).run:
        return
    if isinstance(given_, Arrived):
        assert given_.action in (Action.RUN, Action.RUN_ONE_ATTEMPT)
        assert not given_.withheld and not given_.undecodable
    else:
        assert isinstance(given_, Answered) and given_.ruling is Ruling.RETRY


@ANY
@given(rows(), givens, times)
def test_once_is_run_again_only_with_leave(row: Row | None, given_: Given, now: int) -> None:
    """After a start, an effect of `once` needs a proof that nothing happened, or a person's word.

    And what was begun as `once`, by whoever's declaration, stays it.
    """
    plan = step(row, given_, now)
    if plan.write is None or not plan.run:
        return
    if row is not None and row.effect is Effect.ONCE:
        assert plan.write.effect is Effect.ONCE
        assert row.state in (State.PENDING, State.REFUSED, State.RETRY_WAIT, State.IN_DOUBT)
        assert row.state is not State.IN_DOUBT or isinstance(given_, Answered)
    if isinstance(given_, Arrived):
        worst = given_.effect is Effect.ONCE or given_.action is Action.RUN_ONE_ATTEMPT
        assert not worst or plan.write.effect is Effect.ONCE


@ANY
@given(rows(), givens, times)
def test_a_plan_that_waits_says_how_long(row: Row | None, given_: Given, now: int) -> None:
    """Only a later delivery has a delay, and it lies ahead."""
    plan = step(row, given_, now)
    if plan.settle is Settlement.LATER:
        assert plan.delay_ms >= (0 if isinstance(given_, Finished) else 1)
    else:
        expected = 0
        assert expected == plan.delay_ms
