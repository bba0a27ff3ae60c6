"""Proves the ledger's state machine: every pair of its table, and the moves in detail."""

import msgspec
import pytest

from fencepost_policies.disposition import Action
from fencepost_policies.ledger import TABLE, Signal, signal, step
from fencepost_policies.moves import conflict_key
from fencepost_policies.plan import (
    CERTAIN,
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
    Verified,
)
from fencepost_schemas.limits import ATTEMPTS_MAX, NOTE_CHARS_MAX
from fencepost_schemas.question import QuestionKind, Ruling
from fencepost_schemas.row import Effect, Row, State
from fencepost_schemas.standing import Standing

NOW = 1_000_000
LEASE, TIMEOUT = 30_000, 60_000
START = Start("claim-new", "worker-2", LEASE, TIMEOUT)
ARRIVED = Arrived(
    action=Action.RUN,
    start=START,
    handler="charge",
    namespace="crm",
    key="k:task-1",
    fingerprint="f1",
    effect=Effect.ONCE,
    standing=Standing.RESUMED,
    source="crm",
    generation="0001-aaaaaaaa",
    position="7",
)
ELSEWHERE = msgspec.structs.replace(ARRIVED, generation="0009-zzzzzzzz", position="1")
FINISHED = Finished("claim-old", Outcome.APPLIED, result_digest="r", error="why", retry_ms=500)
ANSWERED = Answered(Ruling.APPLIED, "eve", 1, START, "f1")

_ROW = Row(
    state=State.STARTED,
    handler="charge",
    namespace="crm",
    key="k:task-1",
    fingerprint="f1",
    effect=Effect.ONCE,
    standing=Standing.RESUMED,
    source="crm",
    generation="0001-aaaaaaaa",
    position="7",
    first_seen_ms=NOW - 500_000,
    changed_ms=NOW - 400_000,
)
_LEFT = {"claim": "claim-old", "owner": "worker-1", "attempt": 1}
ROWS: dict[State | None, Row | None] = {
    None: None,
    State.CLAIMED: msgspec.structs.replace(
        _ROW, state=State.CLAIMED, **_LEFT, lease_until_ms=NOW, quarantine_until_ms=NOW + 100
    ),
    State.STARTED: msgspec.structs.replace(
        _ROW, **_LEFT, lease_until_ms=NOW + 100, quarantine_until_ms=NOW + 200
    ),
    State.RETRY_WAIT: msgspec.structs.replace(_ROW, state=State.RETRY_WAIT, **_LEFT, due_ms=NOW),
    State.IN_DOUBT: msgspec.structs.replace(
        _ROW, state=State.IN_DOUBT, **_LEFT, quarantine_until_ms=NOW
    ),
    State.PENDING: msgspec.structs.replace(_ROW, state=State.PENDING),
    State.REFUSED: msgspec.structs.replace(_ROW, state=State.REFUSED),
    State.APPLIED: msgspec.structs.replace(_ROW, state=State.APPLIED, **_LEFT),
    State.REJECTED: msgspec.structs.replace(_ROW, state=State.REJECTED, **_LEFT),
    State.DENIED: msgspec.structs.replace(_ROW, state=State.DENIED),
    State.CONFLICT: msgspec.structs.replace(_ROW, state=State.CONFLICT),
}
TERMINAL = (State.APPLIED, State.REJECTED, State.DENIED, State.CONFLICT)


def changed(row: Row | None, **changes: object) -> Row:
    assert row is not None
    return msgspec.structs.replace(row, **changes)


def arrived(**changes: object) -> Arrived:
    return msgspec.structs.replace(ARRIVED, **changes)


def finished(outcome: Outcome, **changes: object) -> Finished:
    return msgspec.structs.replace(FINISHED, outcome=outcome, **changes)


def answered(ruling: Ruling, row: Row | None) -> Answered:
    return Answered(ruling, "eve", row.attempt if row is not None else 0, START, "f1")


# --- the table, written down a second time ------------------------------------------------------
class Expect(msgspec.Struct, frozen=True):
    """What a plan comes to: the state that it writes, and what else it does."""

    write: State | None = None
    run: bool = False
    publish: tuple[Notice, ...] = ()
    settle: Settlement = Settlement.ACK
    verify: bool = False
    read_clock: bool = False


RUN = Expect(State.STARTED, run=True, settle=Settlement.SILENT)
LATER = Expect(settle=Settlement.LATER)
READ_CLOCK = Expect(settle=Settlement.SILENT, read_clock=True)
SILENT = Expect(settle=Settlement.SILENT)
SKIP = Expect()
HOLD = Expect(publish=(Notice.HOLD,))
ASK = Expect(publish=(Notice.ASK_DOUBT,))
DOUBT = Expect(State.IN_DOUBT, publish=(Notice.ASK_DOUBT,))
BURY = Expect(State.REJECTED, publish=(Notice.BURY,))
BURY_AGAIN = Expect(publish=(Notice.BURY,))
CONFLICT = Expect(State.CONFLICT, publish=(Notice.BURY,))
DENY = Expect(State.DENIED)
APPLY = Expect(State.APPLIED)
RETRY = Expect(State.RETRY_WAIT, settle=Settlement.LATER)
VERIFIED = (Signal.VERIFIED_DONE, Signal.VERIFIED_UNDONE, Signal.VERIFIED_NOTHING)
ARRIVALS = (
    Signal.MAY_RUN, Signal.MUST_ASK, Signal.MUST_REFUSE, Signal.DENIED, Signal.UNDECODABLE,
)  # fmt: skip

MAY_STILL_ACT = (State.CLAIMED, State.STARTED, State.IN_DOUBT)
IN_WORK = (State.CLAIMED, State.STARTED, State.RETRY_WAIT)

EXPECTED: dict[tuple[State | None, Signal], Expect] = {
    (None, Signal.MAY_RUN): RUN,
    (None, Signal.MUST_ASK): Expect(State.PENDING, publish=(Notice.HOLD,)),
    (None, Signal.MUST_REFUSE): Expect(State.REFUSED, publish=(Notice.HOLD,)),
    (None, Signal.DENIED): DENY,
    (None, Signal.UNDECODABLE): BURY,
    (None, Signal.FENCED): SILENT,
    (State.CLAIMED, Signal.LEASE_RUNS): LATER,
    (State.CLAIMED, Signal.MAY_RUN): RUN,
    (State.CLAIMED, Signal.MUST_ASK): HOLD,
    (State.CLAIMED, Signal.MUST_REFUSE): HOLD,
    (State.CLAIMED, Signal.DENIED): DENY,
    (State.CLAIMED, Signal.UNDECODABLE): BURY,
    (State.CLAIMED, Signal.AT_BARRIER): Expect(State.STARTED, settle=Settlement.SILENT),
    (State.CLAIMED, Signal.RENEWING): Expect(State.CLAIMED, settle=Settlement.SILENT),
    (State.CLAIMED, Signal.APPLIED): APPLY,
    (State.CLAIMED, Signal.REJECTED): BURY,
    (State.CLAIMED, Signal.NOT_APPLIED): RETRY,
    (State.CLAIMED, Signal.UNKNOWN): RETRY,
    **{(State.CLAIMED, word): SILENT for word in VERIFIED},
    (State.CLAIMED, Signal.OVERTAKEN): SKIP,
    (State.STARTED, Signal.LEASE_RUNS): LATER,
    (State.STARTED, Signal.LEASE_OVER): DOUBT,
    (State.STARTED, Signal.APPLIED): APPLY,
    (State.STARTED, Signal.REJECTED): BURY,
    (State.STARTED, Signal.NOT_APPLIED): RETRY,
    (State.STARTED, Signal.UNKNOWN): DOUBT,
    (State.STARTED, Signal.AT_BARRIER): SILENT,
    (State.STARTED, Signal.RENEWING): Expect(State.STARTED, settle=Settlement.SILENT),
    (State.STARTED, Signal.VERIFIED_DONE): APPLY,
    (State.STARTED, Signal.VERIFIED_UNDONE): RUN,
    (State.STARTED, Signal.VERIFIED_NOTHING): DOUBT,
    (State.RETRY_WAIT, Signal.NOT_DUE): LATER,
    (State.RETRY_WAIT, Signal.MAY_RUN): RUN,
    (State.RETRY_WAIT, Signal.MUST_ASK): HOLD,
    (State.RETRY_WAIT, Signal.MUST_REFUSE): HOLD,
    (State.RETRY_WAIT, Signal.DENIED): DENY,
    (State.RETRY_WAIT, Signal.UNDECODABLE): BURY,
    (State.PENDING, Signal.MAY_RUN): RUN,
    (State.PENDING, Signal.MUST_ASK): HOLD,
    (State.PENDING, Signal.MUST_REFUSE): HOLD,
    (State.PENDING, Signal.DENIED): DENY,
    (State.PENDING, Signal.UNDECODABLE): BURY,
    (State.REFUSED, Signal.MAY_RUN): RUN,
    (State.REFUSED, Signal.MUST_ASK): HOLD,
    (State.REFUSED, Signal.MUST_REFUSE): HOLD,
    (State.REFUSED, Signal.DENIED): DENY,
    (State.REFUSED, Signal.UNDECODABLE): BURY,
    (State.REFUSED, Signal.RULED_APPLIED): APPLY,
    (State.REFUSED, Signal.RULED_DISCARD): DENY,
    (State.REFUSED, Signal.RULED_RETRY): SKIP,
    (State.REFUSED, Signal.QUARANTINED): SKIP,
    (State.REFUSED, Signal.OVERTAKEN): SKIP,
    **{(State.IN_DOUBT, word): ASK for word in ARRIVALS},
    (State.IN_DOUBT, Signal.RULED_APPLIED): APPLY,
    (State.IN_DOUBT, Signal.RULED_RETRY): RUN,
    (State.IN_DOUBT, Signal.RULED_DISCARD): DENY,
    (State.IN_DOUBT, Signal.QUARANTINED): LATER,
    (State.IN_DOUBT, Signal.OVERTAKEN): ASK,
    **{(state, word): SKIP for state in TERMINAL for word in (*ARRIVALS, Signal.OVERTAKEN)},
    **{(State.REJECTED, word): BURY_AGAIN for word in ARRIVALS},
    (State.REJECTED, Signal.RULED_RETRY): RUN,
    (State.REJECTED, Signal.QUARANTINED): LATER,
    (None, Signal.OVERTAKEN): SKIP,
    (State.STARTED, Signal.OVERTAKEN): SKIP,
    (State.RETRY_WAIT, Signal.OVERTAKEN): SKIP,
    (State.PENDING, Signal.OVERTAKEN): SKIP,
    **{(state, Signal.OTHER_EVENT): SKIP for state in State},
    **{(state, Signal.CLOCK_NOT_READ): READ_CLOCK for state in MAY_STILL_ACT},
    **{(state, Signal.CLOCK_NOT_PROVEN): LATER for state in MAY_STILL_ACT},
    (State.REJECTED, Signal.CLOCK_NOT_READ): READ_CLOCK,
    **{(state, Signal.OTHER_PAYLOAD): CONFLICT for state in State},
    **{(state, Signal.KNOWN_BY_KEY): SKIP for state in State},
    **{(state, Signal.KNOWN_BY_KEY): LATER for state in IN_WORK},
    **{(state, Signal.DISCARDED_ELSEWHERE): SKIP for state in State},
    **{(state, Signal.FENCED): SILENT for state in State},
}


READINGS = {
    Signal.CLOCK_NOT_READ: Reading(fresh=False, stood_ms=CERTAIN.stood_ms),
    Signal.CLOCK_NOT_PROVEN: Reading(fresh=True, stood_ms=0),
}


WITHIN_LEASE = (Signal.LEASE_RUNS, Signal.AT_BARRIER, Signal.RENEWING)


def case(state: State | None, word: Signal) -> tuple[Row | None, Given, int]:
    """Return a row in this state, something that happens to it, and when: together, this word."""
    row = ROWS[state]
    given: dict[Signal, Given] = {
        Signal.MAY_RUN: ARRIVED,
        Signal.MUST_ASK: arrived(action=Action.ASK),
        Signal.MUST_REFUSE: arrived(action=Action.REFUSE),
        Signal.DENIED: arrived(action=Action.DENY),
        Signal.DISCARDED_ELSEWHERE: msgspec.structs.replace(ELSEWHERE, action=Action.DENY),
        Signal.UNDECODABLE: arrived(undecodable="no such field"),
        Signal.OTHER_PAYLOAD: arrived(fingerprint="f2"),
        Signal.KNOWN_BY_KEY: arrived(fingerprint="f2", gap="gap-x"),
        Signal.LEASE_RUNS: ARRIVED,
        Signal.LEASE_OVER: ARRIVED,
        Signal.NOT_DUE: ARRIVED,
        Signal.APPLIED: finished(Outcome.APPLIED),
        Signal.REJECTED: finished(Outcome.REJECTED),
        Signal.NOT_APPLIED: finished(Outcome.NOT_APPLIED),
        Signal.UNKNOWN: finished(Outcome.UNKNOWN),
        Signal.AT_BARRIER: AtBarrier("claim-old"),
        Signal.RENEWING: Renewing("claim-old", LEASE),
        Signal.VERIFIED_DONE: Verified("claim-old", True, START),
        Signal.VERIFIED_UNDONE: Verified("claim-old", False, START),
        Signal.VERIFIED_NOTHING: Verified("claim-old", None, START),
        Signal.FENCED: finished(Outcome.APPLIED, claim="claim-of-another"),
        Signal.RULED_APPLIED: answered(Ruling.APPLIED, row),
        Signal.RULED_RETRY: answered(Ruling.RETRY, row),
        Signal.RULED_DISCARD: answered(Ruling.DISCARD, row),
        Signal.QUARANTINED: answered(Ruling.RETRY, row),
        Signal.OVERTAKEN: Answered(Ruling.DISCARD, "eve", 77, START, "f1"),
        Signal.OTHER_EVENT: Answered(Ruling.RETRY, "eve", 1, START, "f2"),
        **dict.fromkeys(READINGS, ARRIVED if state in IN_WORK else answered(Ruling.RETRY, row)),
    }
    now = NOW
    if state is State.CLAIMED and word in WITHIN_LEASE:
        now = NOW - 1
    elif word in (Signal.LEASE_OVER, Signal.DISCARDED_ELSEWHERE, *VERIFIED, *READINGS):
        now = NOW + 100
    elif word is Signal.NOT_DUE:
        now = NOW - 1
    elif word is Signal.RULED_RETRY:
        now = NOW + 200
    elif word is Signal.QUARANTINED:
        row = changed(row, quarantine_until_ms=NOW + 1)
    if word is Signal.CLOCK_NOT_READ and state is State.REJECTED:
        row = changed(row, quarantine_until_ms=NOW)
    return row, given[word], now


def summary(plan: Plan) -> Expect:
    write = plan.write.state if plan.write is not None else None
    return Expect(write, plan.run, plan.publish, plan.settle, plan.verify, plan.read_clock)


def test_every_pair_of_the_table_is_written_down_here() -> None:
    """Nobody adds a transition, or takes one away, without saying what is expected of it."""
    assert set(EXPECTED) == set(TABLE)


def _name(pair: tuple[State | None, Signal]) -> str:
    return f"{pair[0] or 'absent'}-{pair[1]}"


@pytest.mark.parametrize("pair", EXPECTED, ids=_name)
def test_what_a_pair_comes_to(pair: tuple[State | None, Signal]) -> None:
    """The row and the given are read as this word, and the plan is the expected one."""
    row, given_, now = case(*pair)
    reading = READINGS.get(pair[1], CERTAIN)
    assert pair[1] is signal(row, given_, now, reading)
    assert EXPECTED[pair] == summary(step(row, given_, now, reading))


# --- single moves, in detail --------------------------------------------------------------------
def test_a_start_is_a_claim_in_one_write() -> None:
    """The row carries attempt, claim, owner, lease and quarantine before anything runs."""
    plan = step(None, ARRIVED, NOW)
    expected = msgspec.structs.replace(
        _ROW,
        first_seen_ms=NOW,
        changed_ms=NOW,
        attempt=1,
        claim="claim-new",
        owner="worker-2",
        lease_until_ms=NOW + LEASE,
        quarantine_until_ms=NOW + TIMEOUT + LEASE,
    )
    assert expected == plan.write


def test_one_attempt_makes_any_effect_a_once() -> None:
    """In an unverifiable lineage even a repeatable effect is not repeated."""
    plan = step(None, arrived(action=Action.RUN_ONE_ATTEMPT, effect=Effect.IDEMPOTENT), NOW)
    assert plan.write is not None and plan.write.effect is Effect.ONCE
    assert summary(step(plan.write, ARRIVED, NOW + LEASE)) == DOUBT


@pytest.mark.parametrize("state", [State.RETRY_WAIT, State.PENDING, State.REFUSED])
def test_a_handler_that_became_once_is_treated_as_once(state: State) -> None:
    """A row from before the change does not lend its old promise to the new code."""
    row = changed(ROWS[state], effect=Effect.IDEMPOTENT)
    plan = step(row, arrived(effect=Effect.ONCE), NOW)
    assert plan.write is not None and plan.run
    assert plan.write.effect is Effect.ONCE


@pytest.mark.parametrize(
    ("attempt", "expected"),
    [(1, RUN), (ATTEMPTS_MAX - 1, RUN), (ATTEMPTS_MAX, BURY), (ATTEMPTS_MAX + 1, BURY)],
)
def test_a_lost_worker_of_an_idempotent_effect(attempt: int, expected: Expect) -> None:
    """It is run again, up to the bound on attempts; then the event is poison."""
    row = changed(ROWS[State.STARTED], effect=Effect.IDEMPOTENT, attempt=attempt)
    assert expected == summary(step(row, ARRIVED, NOW + 100))


@pytest.mark.parametrize(
    "given_",
    [
        arrived(action=Action.ASK),
        arrived(action=Action.REFUSE),
        arrived(action=Action.DENY),
        arrived(undecodable="no such field"),
        arrived(withheld="too_large"),
        msgspec.structs.replace(ELSEWHERE, action=Action.DENY),
    ],
    ids=["ask", "refuse", "deny", "undecodable", "withheld", "deny elsewhere"],
)
def test_a_lost_worker_is_no_licence_for_what_may_not_run(given_: Arrived) -> None:
    """A lease that ran out does not turn a refusal, or bytes nobody can read, into a run."""
    row = changed(ROWS[State.STARTED], effect=Effect.IDEMPOTENT)
    assert not step(row, given_, NOW + 100).run


@pytest.mark.parametrize("outcome", [Outcome.NOT_APPLIED, Outcome.UNKNOWN])
@pytest.mark.parametrize(
    ("attempt", "state"),
    [(1, State.RETRY_WAIT), (ATTEMPTS_MAX - 1, State.RETRY_WAIT), (ATTEMPTS_MAX, State.REJECTED)],
)
def test_a_failed_idempotent_attempt(outcome: Outcome, attempt: int, state: State) -> None:
    """It waits for its next attempt; the last one is buried."""
    row = changed(ROWS[State.STARTED], effect=Effect.IDEMPOTENT, attempt=attempt)
    plan = step(row, finished(outcome), NOW)
    assert plan.write is not None
    assert (state, attempt, "why") == (plan.write.state, plan.write.attempt, plan.write.error)


def test_a_retry_waits_as_long_as_was_drawn() -> None:
    """Row and delivery wait for the same moment."""
    plan = step(ROWS[State.STARTED], finished(Outcome.NOT_APPLIED), NOW)
    assert plan.write is not None
    assert (NOW + 500, 500) == (plan.write.due_ms, plan.delay_ms)


@pytest.mark.parametrize(
    ("state", "word", "delay_ms"),
    [
        (State.STARTED, Signal.LEASE_RUNS, 100),
        (State.RETRY_WAIT, Signal.NOT_DUE, 1),
        (State.IN_DOUBT, Signal.QUARANTINED, 1),
    ],
)
def test_a_delivery_comes_back_when_it_can_be_answered(
    state: State, word: Signal, delay_ms: int
) -> None:
    """Not before: that would be a busy loop. Not never."""
    assert delay_ms == step(*case(state, word)).delay_ms


def test_a_commit_keeps_the_digest_of_the_result() -> None:
    """What was done can be compared later; the error of an earlier attempt is gone."""
    row = changed(ROWS[State.STARTED], error="earlier")
    plan = step(row, FINISHED, NOW)
    assert plan.write is not None
    assert ("r", "", 0) == (plan.write.result_digest, plan.write.error, plan.write.lease_until_ms)


def test_a_finish_after_the_lease_counts_while_nobody_took_over() -> None:
    """The compare-and-set decides, not the clock."""
    expected = APPLY
    assert expected == summary(step(ROWS[State.STARTED], FINISHED, NOW + 10**9))


FENCED: list[Given] = [
    *[finished(outcome, claim="claim-of-another") for outcome in Outcome],
    *[Verified("claim-of-another", happened, START) for happened in (True, False, None)],
    AtBarrier("claim-of-another"),
    Renewing("claim-of-another", LEASE),
]


@pytest.mark.parametrize("late", FENCED, ids=lambda late: type(late).__name__)
@pytest.mark.parametrize("state", [None, *State])
def test_a_fenced_worker_neither_writes_nor_acks_nor_naks(state: State | None, late: Given) -> None:
    """Whatever it brings, another one's word counts."""
    assert signal(ROWS[state], late, NOW - 1) is Signal.FENCED
    assert step(ROWS[state], late, NOW - 1) == Plan(settle=Settlement.SILENT)


@pytest.mark.parametrize("outcome", Outcome)
@pytest.mark.parametrize(
    "state",
    [state for state in State if state not in (State.CLAIMED, State.STARTED)],
)
def test_a_finish_that_is_told_twice_is_fenced(state: State, outcome: Outcome) -> None:
    """The same claim, but its attempt is over: nothing is undone."""
    row = changed(ROWS[state], claim="claim-old")
    assert step(row, finished(outcome), NOW) == Plan(settle=Settlement.SILENT)


def test_a_conflict_is_recorded_beside_the_first_row() -> None:
    """Under a key of its own, the same each time, one for each payload."""
    plan = step(ROWS[State.APPLIED], arrived(fingerprint="f2"), NOW)
    assert plan.write is not None
    assert ("c:k:task-1:f2", "f2") == (plan.write.key, plan.write.fingerprint)
    assert conflict_key("a", "f2") != conflict_key("a", "f3") != conflict_key("b", "f3")


def test_a_conflict_that_comes_again_is_skipped() -> None:
    """The redelivery meets the recorded row of its own payload."""
    given_ = arrived(fingerprint="f2")
    recorded = step(ROWS[State.APPLIED], given_, NOW).write
    assert summary(step(recorded, given_, NOW)) == SKIP


def test_a_withheld_event_is_refused_with_a_question_of_its_own() -> None:
    """There are no bytes to hold, so there is nothing to run after any ruling on the seam."""
    plan = step(None, arrived(withheld="too_large"), NOW)
    expected = Expect(State.REFUSED, publish=(Notice.ASK_REFUSAL,))
    assert expected == summary(plan)
    assert plan.write is not None and plan.write.error == "too_large"


@pytest.mark.parametrize("state", [State.PENDING, State.CLAIMED, State.RETRY_WAIT])
def test_a_withheld_event_that_meets_its_row_leaves_it_refused(state: State) -> None:
    """The refusal is asked of this row, so the row must wait for the answer."""
    plan = step(ROWS[state], arrived(withheld="too_large"), NOW)
    assert plan.publish == (Notice.ASK_REFUSAL,)
    assert plan.write is not None and plan.write.state is State.REFUSED
    answer = answered(Ruling.DISCARD, plan.write)
    assert summary(step(plan.write, answer, NOW)) == DENY


def test_an_error_is_kept_within_its_bound() -> None:
    """A traceback of any size does not make a row of any size."""
    for given_ in (
        finished(Outcome.REJECTED, error="x" * 10**5),
        finished(Outcome.UNKNOWN, error="x" * 10**5),
        finished(Outcome.NOT_APPLIED, error="x" * 10**5),
    ):
        plan = step(ROWS[State.STARTED], given_, NOW)
        assert plan.write is not None and len(plan.write.error) == NOTE_CHARS_MAX


def test_the_error_of_a_fresh_row_is_kept_within_its_bound() -> None:
    """Also where the row is written for the first time."""
    plan = step(None, arrived(undecodable="x" * 10**5), NOW)
    assert plan.write is not None and len(plan.write.error) == NOTE_CHARS_MAX


def test_a_discard_never_denies_what_another_generation_brought() -> None:
    """Held under one seam, begun by another generation's announcement, then the seam discarded.

    The row waits for its next attempt on behalf of the other one, so the discard passes by.
    """
    held = step(None, arrived(action=Action.ASK), NOW).write
    begun = step(held, ELSEWHERE, NOW).write
    waiting = step(begun, finished(Outcome.NOT_APPLIED, claim="claim-new"), NOW).write
    assert waiting is not None and waiting.state is State.RETRY_WAIT
    plan = step(waiting, arrived(action=Action.DENY), NOW + 10**6)
    assert plan.write is None


def test_a_discard_denies_what_its_own_generation_brought() -> None:
    """The held event of the discarded seam is denied, and says by whom."""
    plan = step(ROWS[State.PENDING], arrived(action=Action.DENY, actor="eve"), NOW)
    assert plan.write is not None
    assert (State.DENIED, "eve") == (plan.write.state, plan.write.actor)


def test_only_what_was_rejected_is_buried_again() -> None:
    """A worker may have died before the burial; another announcement of the key is no news."""
    rejected = ROWS[State.REJECTED]
    assert (Notice.BURY,) == step(rejected, ARRIVED, NOW).publish
    assert () == step(rejected, ELSEWHERE, NOW).publish
    assert () == step(rejected, arrived(position="another"), NOW).publish


# --- an answer is the carrier of its work -------------------------------------------------------
OVERTAKEN: list[tuple[str, Row, Expect]] = [
    ("claimed", changed(ROWS[State.CLAIMED], attempt=2, lease_until_ms=NOW + 1), LATER),
    ("claimed, lost", changed(ROWS[State.CLAIMED], attempt=2, lease_until_ms=NOW), RUN),
    ("lease runs", changed(ROWS[State.STARTED], attempt=2, lease_until_ms=NOW + 1), LATER),
    ("once, lost", changed(ROWS[State.STARTED], attempt=2, lease_until_ms=NOW), DOUBT),
    (
        "idempotent, lost",
        changed(ROWS[State.STARTED], attempt=2, lease_until_ms=NOW, effect=Effect.IDEMPOTENT),
        RUN,
    ),
    ("not due", changed(ROWS[State.RETRY_WAIT], attempt=2, due_ms=NOW + 1), LATER),
    ("due", changed(ROWS[State.RETRY_WAIT], attempt=2, due_ms=NOW), RUN),
    ("in doubt again", changed(ROWS[State.IN_DOUBT], attempt=2), ASK),
    ("applied", changed(ROWS[State.APPLIED], attempt=2), SKIP),
    ("rejected", changed(ROWS[State.REJECTED], attempt=2), BURY_AGAIN),
    ("denied", changed(ROWS[State.DENIED], attempt=2), SKIP),
]


@pytest.mark.parametrize(
    ("row", "expected"),
    [(row, expected) for _, row, expected in OVERTAKEN],
    ids=[name for name, _, _ in OVERTAKEN],
)
def test_a_retry_that_comes_again_carries_its_work_on(row: Row, expected: Expect) -> None:
    """The answer to attempt 1 began attempt 2 and is delivered again: a crash, or a wait.

    The event was acked when it was parked, so this answer is all that can bring the row forward;
    and once the row is decided or parked it must be settled, or it comes back for ever.
    """
    again = Answered(Ruling.RETRY, "eve", 1, START, "f1")
    assert expected == summary(step(row, again, NOW))


@pytest.mark.parametrize("ruling", [Ruling.APPLIED, Ruling.DISCARD])
@pytest.mark.parametrize("row", [row for _, row, _ in OVERTAKEN], ids=[n for n, _, _ in OVERTAKEN])
def test_an_answer_that_says_stop_never_begins_a_run(row: Row, ruling: Ruling) -> None:
    """Only "it did not happen: run it again" carries work; the other rulings end it."""
    plan = step(row, Answered(ruling, "eve", 1, START, "f1"), NOW)
    assert (None, False) == (plan.write, plan.run)


@pytest.mark.parametrize("ruling", QuestionKind.DOUBT.rulings)
@pytest.mark.parametrize("attempt", [0, 2, 77])
@pytest.mark.parametrize("state", [State.IN_DOUBT, State.REFUSED])
def test_an_answer_speaks_of_one_attempt(state: State, attempt: int, ruling: Ruling) -> None:
    """An answer to another attempt decides nothing: that one was another question."""
    row = changed(ROWS[state], attempt=1)
    plan = step(row, Answered(ruling, "eve", attempt, START, "f1"), NOW)
    assert (None, False) == (plan.write, plan.run)


@pytest.mark.parametrize("word", Signal)
def test_every_word_can_reach_some_state(word: Signal) -> None:
    """No signal is dead."""
    assert any(word is known for _, known in TABLE)


@pytest.mark.parametrize("state", State)
def test_every_state_that_is_not_terminal_has_a_way_on(state: State) -> None:
    """From each state some word leads to a write; from a terminal one only to a conflict.

    What was rejected goes on at a person's word, and at no other.
    """
    writes = {
        expected.write
        for (at, word), expected in EXPECTED.items()
        if at is state and expected.write is not None and word is not Signal.RULED_RETRY
    } | ({State.STARTED} if state is State.IN_DOUBT else set())
    assert state.terminal is (writes == {State.CONFLICT})
