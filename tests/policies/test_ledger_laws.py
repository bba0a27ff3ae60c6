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
    AtBarrier,
    Finished,
    Given,
    Notice,
    Outcome,
    Plan,
    Reading,
    Renewing,
    Settlement,
    Start,
    Terms,
    Verified,
)
from fencepost_schemas.limits import ATTEMPTS_MAX
from fencepost_schemas.question import QuestionKind, Ruling
from fencepost_schemas.row import Effect, Row, State
from fencepost_schemas.standing import Standing

ANY = settings(deadline=None, max_examples=200)

NOW = 1_000_000
LEASE, TIMEOUT = 3, 6
PARKED_OVER = 5

times = st.integers(NOW - 10, NOW + 10)
terms = st.builds(
    Terms,
    attempts_max=st.sampled_from([1, ATTEMPTS_MAX]),
    barrier=st.booleans(),
    verifiable=st.booleans(),
    sink_ms=st.sampled_from([0, 12]),
    parked_over_ms=st.just(PARKED_OVER),
    asks_when_spent=st.booleans(),
)
starts = st.builds(
    Start,
    claim=st.just("claim-new"),
    owner=st.just("worker-2"),
    lease_ms=st.just(LEASE),
    timeout_ms=st.just(TIMEOUT),
    terms=terms,
)
claims = st.sampled_from(["claim-old", "claim-old", "claim-new"])
effects = st.sampled_from(Effect)
generations = st.sampled_from(["0001-aaaaaaaa", "0009-zzzzzzzz"])
RUNNING = (State.CLAIMED, State.STARTED)
ATTEMPTS_LEAST = dict.fromkeys((*RUNNING, State.RETRY_WAIT, State.IN_DOUBT), 1)
ATTEMPTS_MOST = {State.PENDING: 0, State.CONFLICT: 0}


@st.composite
def rows(
    draw: st.DrawFn,
    states: tuple[State | None, ...] = (None, *State),
    effects: st.SearchStrategy[Effect] = effects,
) -> Row | None:
    """Draw a row that is valid for its state, or none."""
    state = draw(st.sampled_from(states))
    if state is None:
        return None
    least, most = ATTEMPTS_LEAST.get(state, 0), ATTEMPTS_MOST.get(state, ATTEMPTS_MAX + 1)
    attempt = draw(st.integers(least, most))
    sink_attempt = draw(st.integers(0, attempt))
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
        attempt=attempt,
        claim="claim-old",
        owner="worker-1",
        sink_until_ms=draw(st.integers(NOW, NOW + 30)) if sink_attempt else 0,
        sink_attempt=sink_attempt,
        gap=draw(st.sampled_from(["", "", "gap-x"])),
    )
    if state in RUNNING:
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
        start=starts,
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
        gap=st.sampled_from(["", "", "gap-x"]),
        undecodable=st.sampled_from(["", "", "no such field"]),
    )


renewals = st.builds(Renewing, claims, st.just(LEASE))
readings = st.builds(Reading, fresh=st.booleans(), stood_ms=st.sampled_from([0, 5, 1_000]))
givens = st.one_of(
    arrivals(),
    st.builds(
        Finished,
        claim=claims,
        outcome=st.sampled_from(Outcome),
        error=st.just("why"),
        retry_ms=st.integers(0, 10),
        terms=terms,
    ),
    st.builds(AtBarrier, claims),
    renewals,
    st.builds(Verified, claims, st.sampled_from([True, False, None]), starts),
    st.builds(
        Answered,
        st.sampled_from(sorted({*QuestionKind.DOUBT.rulings, *QuestionKind.REFUSAL.rulings})),
        st.just("eve"),
        st.integers(0, ATTEMPTS_MAX + 1),
        starts,
        st.sampled_from(["f1", "f1", "f1", "f2"]),
    ),
)


@ANY
@given(rows(), givens, times, readings)
def test_step_is_total(row: Row | None, given_: Given, now: int, reading: Reading) -> None:
    """Every row meets every given in a pair that the table has: there is no unplanned moment."""
    assert (row.state if row is not None else None, signal(row, given_, now, reading)) in TABLE
    step(row, given_, now, reading)


@ANY
@given(rows(), givens, times, readings)
def test_a_doubtful_clock_only_delays(
    row: Row | None, given_: Given, now: int, reading: Reading
) -> None:
    """A plan is the one of a certain clock, or it reads the clock, or it waits, and no more."""
    plan = step(row, given_, now, reading)
    if plan == step(row, given_, now):
        return
    waits = Plan(settle=Settlement.LATER, delay_ms=plan.delay_ms)
    assert plan == (waits if reading.fresh else Plan(read_clock=True))


@ANY
@given(rows((*RUNNING, State.IN_DOUBT)), givens, times)
def test_nothing_of_another_worker_is_ended_by_a_clock_that_was_not_read(
    row: Row | None, given_: Given, now: int
) -> None:
    """Whoever did not write the claim takes no step that its owner would have to undo."""
    assert row is not None
    if isinstance(given_, Finished | AtBarrier | Renewing | Verified):
        return
    plan = step(row, given_, now, Reading(fresh=False, stood_ms=1 << 62))
    assert not plan.run and not plan.verify
    if plan.write is not None and row.state in RUNNING:
        assert plan.write.state is State.CONFLICT


@ANY
@given(rows(), givens, times)
def test_attempts_grow_by_one_run_each(row: Row | None, given_: Given, now: int) -> None:
    """A run is attempt n+1 under a lease and a fresh claim; nothing else moves the number."""
    plan = step(row, given_, now)
    before = row.attempt if row is not None else 0
    if plan.run:
        assert plan.write is not None and isinstance(given_, Arrived | Answered | Verified)
        state = State.CLAIMED if given_.start.terms.barrier else State.STARTED
        expected = (state, before + 1, "claim-new", "worker-2", now + LEASE)
        written = plan.write
        assert expected == (
            written.state, written.attempt, written.claim, written.owner, written.lease_until_ms,
        )  # fmt: skip
        assert ((), Settlement.SILENT) == (plan.publish, plan.settle)
    elif plan.write is not None and plan.write.state is not State.CONFLICT:
        assert before == plan.write.attempt
        if plan.write.state in RUNNING:
            assert row is not None and (row.claim, row.owner) == (
                plan.write.claim, plan.write.owner,
            )  # fmt: skip
            assert row.state in RUNNING


@ANY
@given(rows(RUNNING), renewals, times)
def test_a_renewal_changes_the_lease_and_what_hangs_on_it(
    row: Row | None, given_: Renewing, now: int
) -> None:
    """It never ends, begins or moves anything else; and it never makes a lease shorter lived."""
    plan = step(row, given_, now)
    assert plan == Plan(write=plan.write)
    if plan.write is None:
        return
    assert row is not None and row.claim == given_.claim and row.state in RUNNING
    assert now < row.lease_until_ms and plan.write.lease_until_ms == now + LEASE
    put_back = msgspec.structs.replace(
        plan.write,
        lease_until_ms=row.lease_until_ms,
        quarantine_until_ms=row.quarantine_until_ms,
    )
    assert put_back == row
    moved = [written.quarantine_until_ms - written.lease_until_ms for written in (row, plan.write)]
    assert [TIMEOUT, TIMEOUT] == moved


@ANY
@given(rows(), givens, times)
def test_whoever_is_fenced_says_nothing(row: Row | None, given_: Given, now: int) -> None:
    """A claim that is not the row's neither writes nor settles, runs, asks or publishes."""
    if not isinstance(given_, Finished | AtBarrier | Renewing | Verified):
        return
    fenced = row is None or row.state not in RUNNING or row.claim != given_.claim
    if not fenced and isinstance(given_, AtBarrier | Renewing):
        assert row is not None
        fenced = now >= row.lease_until_ms
    assert fenced is (signal(row, given_, now) is Signal.FENCED)
    if fenced:
        assert step(row, given_, now) == Plan(settle=Settlement.SILENT)


@ANY
@given(rows((State.CLAIMED,)), givens, times)
def test_only_a_barrier_lets_a_claim_begin(row: Row | None, given_: Given, now: int) -> None:
    """From CLAIMED to STARTED leads the barrier within the lease, and a start without one."""
    written = step(row, given_, now).write
    if row is None or written is None or row.state is not State.CLAIMED:
        return
    if written.state is State.STARTED and written.attempt == row.attempt:
        assert isinstance(given_, AtBarrier) and now < row.lease_until_ms


@ANY
@given(rows((State.STARTED,)), givens | arrivals(), st.integers(NOW, NOW + 30))
def test_a_checker_is_asked_of_what_may_run_and_has_begun(
    row: Row | None, given_: Given, now: int
) -> None:
    """Its word may begin a run, so it is asked only where one is allowed and nobody is at work."""
    plan = step(row, given_, now)
    if not plan.verify:
        return
    assert ((), Settlement.SILENT, False) == (plan.publish, plan.settle, plan.run)
    assert row is not None and row.state is State.STARTED and row.effect is not Effect.IDEMPOTENT
    if isinstance(given_, Finished):
        assert given_.terms.verifiable and given_.outcome is Outcome.UNKNOWN
        return
    assert isinstance(given_, Arrived | Answered) and given_.start.terms.verifiable
    assert now >= row.quarantine_until_ms
    if isinstance(given_, Arrived):
        assert given_.action in (Action.RUN, Action.RUN_ONE_ATTEMPT)
        assert not given_.withheld and not given_.undecodable
    # Whatever is written keeps the row where the checker's word will look for it.
    after = plan.write or row
    assert (row.state, row.claim, row.attempt) == (after.state, after.claim, after.attempt)


@ANY
@given(
    rows((State.CLAIMED, State.STARTED, State.RETRY_WAIT, State.REFUSED), st.just(Effect.KEYED)),
    givens | arrivals(),
    st.integers(NOW, NOW + 30),
)
def test_a_forgotten_key_is_not_run_again(row: Row | None, given_: Given, now: int) -> None:
    """A keyed effect that may have happened is begun only where the receiver outlives the run.

    A person or a checker may say that it did not happen; an attempt that did not get past its
    barrier has not.
    """
    if row is None or not row.sink_until_ms:
        return
    plan = step(row, given_, now)
    if not plan.run or isinstance(given_, Verified) or row.state is State.IN_DOUBT:
        return
    assert plan.write is not None
    if row.state is State.CLAIMED and row.sink_attempt == row.attempt:
        return
    assert now + LEASE + TIMEOUT < row.sink_until_ms
    kept = (row.sink_until_ms, row.sink_attempt)
    assert kept == (plan.write.sink_until_ms, plan.write.sink_attempt)


@ANY
@given(rows(), givens, times)
def test_a_terminal_row_is_never_written_again(row: Row | None, given_: Given, now: int) -> None:
    """What was decided stays, unless a person has what was rejected tried once more.

    A conflict is written under another key only.
    """
    plan = step(row, given_, now)
    if plan.write is None:
        return
    if plan.write.state is State.CONFLICT:
        assert isinstance(given_, Arrived)
        assert conflict_key(given_.key, given_.fingerprint) == plan.write.key != given_.key
    elif row is not None and row.state is State.REJECTED:
        assert isinstance(given_, Answered)
        assert (given_.ruling, given_.attempt) == (Ruling.RETRY, row.attempt)
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
    expected = row.changed_ms if isinstance(given_, Renewing) else now
    assert expected == plan.write.changed_ms


@ANY
@given(rows(), givens, times)
def test_an_ack_leaves_nothing_unfinished(row: Row | None, given_: Given, now: int) -> None:
    """After an ack the row is decided or parked, or the event's bytes are kept elsewhere.

    Held at the desk, that is, or parked among the retries, where it waits for its next attempt.

    Three acks are of something that carries no work: the announcement of a generation that a person
    discarded while another one's is at work, an answer that its row does not wait for, and one that
    came with other bytes than the row's.
    """
    plan = step(row, given_, now)
    if plan.settle is not Settlement.ACK:
        return
    after = plan.write if plan.write is not None else row
    word = signal(row, given_, now)
    if after is None:
        # An answer about a row that is gone.
        assert word is Signal.OVERTAKEN
        return
    if after.state.terminal or after.state.parked or Notice.HOLD in plan.publish:
        return
    if Notice.PARK in plan.publish:
        assert after.state is State.RETRY_WAIT and after.due_ms > now + PARKED_OVER
        return
    assert word in (Signal.DISCARDED_ELSEWHERE, Signal.OVERTAKEN, Signal.OTHER_EVENT)


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
    """A run takes a permitted, readable event that is here, or the word that nothing happened."""
    if not step(row, given_, now).run:
        return
    if isinstance(given_, Arrived):
        assert given_.action in (Action.RUN, Action.RUN_ONE_ATTEMPT)
        assert not given_.withheld and not given_.undecodable
    elif isinstance(given_, Verified):
        assert given_.happened is False
    else:
        assert isinstance(given_, Answered) and given_.ruling is Ruling.RETRY


@ANY
@given(rows(), givens, times)
def test_once_is_run_again_only_with_leave(row: Row | None, given_: Given, now: int) -> None:
    """After a start, an effect of `once` needs a proof that nothing happened, or somebody's word.

    And what was begun as `once`, by whoever's declaration, stays it.
    """
    plan = step(row, given_, now)
    if plan.write is None or not plan.run:
        return
    if row is not None and row.effect is Effect.ONCE:
        assert plan.write.effect is Effect.ONCE
        if row.state is State.STARTED:
            assert isinstance(given_, Verified) and given_.happened is False
        elif row.state in (State.IN_DOUBT, State.REJECTED):
            assert isinstance(given_, Answered)
        else:
            assert row.state in (State.PENDING, State.REFUSED, State.CLAIMED, State.RETRY_WAIT)
    if isinstance(given_, Arrived):
        once = given_.action is Action.RUN_ONE_ATTEMPT
        declared = Effect.ONCE if once else given_.effect
        least = max(declared, row.effect if row is not None else declared, key=_strictness)
        assert least is plan.write.effect


def _strictness(effect: Effect) -> int:
    return effect.strictness


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


@ANY
@given(rows(), givens, times)
def test_an_answer_runs_no_other_bytes_than_the_rows(
    row: Row | None, given_: Given, now: int
) -> None:
    """Whoever writes a question could otherwise have any handler run on what it invents."""
    if isinstance(given_, Answered) and step(row, given_, now).run:
        assert row is not None and row.fingerprint == given_.fingerprint
