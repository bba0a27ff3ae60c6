"""Proves what a handler's terms change: its barrier, its receiver's memory, its checker, its waits.

Rows are not made up here: each comes from steps that a worker would take.
"""

import msgspec
import pytest

from fencepost_policies.disposition import Action
from fencepost_policies.ledger import Signal, signal, step
from fencepost_policies.moves import CHECKER
from fencepost_policies.plan import (
    Answered,
    Arrived,
    AtBarrier,
    Finished,
    Given,
    Notice,
    Outcome,
    Plan,
    Renewing,
    Settlement,
    Start,
    Terms,
    Verified,
)
from fencepost_schemas.limits import PARKED_OVER_MS
from fencepost_schemas.question import Ruling
from fencepost_schemas.row import Effect, Row, State
from fencepost_schemas.standing import Standing

T = 1_000_000
LEASE, TIMEOUT = 30, 60
QUARANTINE = LEASE + TIMEOUT
SINK = 1_000
PLAIN = Terms()
BARRIER = Terms(barrier=True)
CHECKED = Terms(verifiable=True)
KEYED = Terms(sink_ms=SINK)
KEYED_BARRIER = Terms(sink_ms=SINK, barrier=True)
SILENT = Plan(settle=Settlement.SILENT)
SEAM = {"generation": "0009-zzzzzzzz", "position": "1"}


def arrived(terms: Terms = PLAIN, *, claim: str = "c1", **changes: object) -> Arrived:
    start = Start(claim, "worker-1", LEASE, TIMEOUT, terms)
    event = Arrived(
        action=Action.RUN,
        start=start,
        handler="charge",
        namespace="crm",
        key="k:task-1",
        fingerprint="f1",
        effect=Effect.KEYED if terms.sink_ms else Effect.ONCE,
        standing=Standing.RESUMED,
        source="crm",
        generation="0001-aaaaaaaa",
        position="7",
    )
    return msgspec.structs.replace(event, **changes)


def told(outcome: Outcome, terms: Terms = PLAIN, claim: str = "c1", retry_ms: int = 5) -> Finished:
    return Finished(claim, outcome, error="why", retry_ms=retry_ms, terms=terms)


def checked(happened: bool | None, terms: Terms = CHECKED, claim: str = "c1") -> Verified:
    return Verified(claim, happened, Start("c2", "worker-2", LEASE, TIMEOUT, terms))


def after(*steps: tuple[Given, int], row: Row | None = None) -> Row:
    """Return the row that these steps leave; each has a moment."""
    for given, now in steps:
        plan = step(row, given, now)
        row = plan.write if plan.write is not None else row
    assert row is not None
    return row


def state_of(plan: Plan) -> State | None:
    return plan.write.state if plan.write is not None else None


# --- a barrier ----------------------------------------------------------------------------------
def test_a_handler_with_a_barrier_has_only_claimed() -> None:
    """The claim is the same write as any start, in a state of its own."""
    plain, claimed = after((arrived(), T)), after((arrived(BARRIER), T))
    assert plain == msgspec.structs.replace(claimed, state=State.STARTED)
    assert step(None, arrived(BARRIER), T).run


def test_a_barrier_changes_the_state_and_nothing_else() -> None:
    """Attempt, claim, lease and quarantine are those of the claim; nobody settles yet."""
    claimed = after((arrived(BARRIER), T))
    plan = step(claimed, AtBarrier("c1"), T + 3)
    entered = msgspec.structs.replace(claimed, state=State.STARTED, changed_ms=T + 3)
    assert plan == Plan(write=entered)


@pytest.mark.parametrize("now", [T + LEASE, T + LEASE + 1, T + 10**9])
def test_nobody_passes_the_barrier_past_the_lease(now: int) -> None:
    """Else the effect could begin behind the quarantine, where a checker or a person looks."""
    claimed = after((arrived(BARRIER), T))
    assert step(claimed, AtBarrier("c1"), T + LEASE - 1).write is not None
    assert step(claimed, AtBarrier("c1"), now) == SILENT


def test_a_late_barrier_cannot_make_a_checker_wrong() -> None:
    """A worker that was frozen in front of its barrier wakes behind its quarantine.

    If it were let through, the checker that is asked at the redelivery would not see an effect
    that is on its way, and a second run would be started: `once`, twice.
    """
    terms = Terms(barrier=True, verifiable=True)
    late = T + QUARANTINE
    row = after((arrived(terms), T), (AtBarrier("c1"), late))
    plan = step(row, arrived(terms, claim="c2"), late)
    assert (row.state, plan.run, plan.verify) == (State.CLAIMED, True, False)
    assert step(plan.write, AtBarrier("c1"), late + 1) == SILENT


def test_a_barrier_that_is_told_twice_is_silent() -> None:
    """Nothing is written, so the lease that was renewed meanwhile stays."""
    entered = after((arrived(BARRIER), T), (AtBarrier("c1"), T + 1))
    assert step(entered, AtBarrier("c1"), T + 2) == SILENT


@pytest.mark.parametrize("effect", Effect)
def test_a_worker_lost_before_its_barrier_is_replaced(effect: Effect) -> None:
    """Nothing can have happened, so even `once` runs again without a question."""
    claimed = after((arrived(BARRIER, effect=effect), T))
    again = arrived(BARRIER, claim="c2", effect=effect)
    assert step(claimed, again, T + LEASE - 1).settle is Settlement.LATER
    plan = step(claimed, again, T + LEASE)
    assert plan.write is not None and plan.run
    expected = (State.CLAIMED, 2, "c2", T + 2 * LEASE)
    assert expected == (
        plan.write.state, plan.write.attempt, plan.write.claim, plan.write.lease_until_ms,
    )  # fmt: skip


@pytest.mark.parametrize("attempts_max", [1, 2, 7])
def test_a_claim_is_taken_over_up_to_the_bound_on_attempts(attempts_max: int) -> None:
    """An event that kills every worker before the barrier is poison as well."""
    terms = Terms(barrier=True, attempts_max=attempts_max)
    row, now = None, T
    for attempt in range(1, attempts_max + 1):
        row = after((arrived(terms), now), row=row)
        assert (attempt, State.CLAIMED) == (row.attempt, row.state)
        now = row.lease_until_ms
    plan = step(row, arrived(terms), now)
    assert (state_of(plan), plan.publish, plan.settle) == (
        State.REJECTED, (Notice.BURY,), Settlement.ACK,
    )  # fmt: skip
    assert f"{attempts_max} attempts were claimed" in plan.note


def test_what_takes_a_claim_over_brings_its_generation_along() -> None:
    """A ruling on the older generation no longer reaches the row."""
    claimed = after((arrived(BARRIER), T))
    row = after((arrived(BARRIER, claim="c2", **SEAM), T + LEASE), row=claimed)
    assert ("0009-zzzzzzzz", "1") == (row.generation, row.position)
    plan = step(row, arrived(BARRIER, action=Action.DENY), T + 2 * LEASE)
    assert (None, Settlement.ACK) == (plan.write, plan.settle)


@pytest.mark.parametrize("outcome", [Outcome.NOT_APPLIED, Outcome.UNKNOWN])
def test_any_failure_before_the_barrier_is_a_retry(outcome: Outcome) -> None:
    """`once` and all: what has not begun cannot have happened. Behind it, only a proof is."""
    claimed = after((arrived(BARRIER), T))
    assert state_of(step(claimed, told(outcome, BARRIER), T + 1)) is State.RETRY_WAIT
    entered = after((AtBarrier("c1"), T + 1), row=claimed)
    expected = State.RETRY_WAIT if outcome is Outcome.NOT_APPLIED else State.IN_DOUBT
    assert state_of(step(entered, told(outcome, BARRIER), T + 2)) is expected


def test_a_worker_lost_behind_its_barrier_leaves_a_doubt() -> None:
    """The barrier narrows the doubt; it cannot take it away."""
    row = after((arrived(BARRIER), T), (AtBarrier("c1"), T + 1))
    assert state_of(step(row, arrived(BARRIER, claim="c2"), T + LEASE)) is State.IN_DOUBT


# --- a renewal ----------------------------------------------------------------------------------
@pytest.mark.parametrize("terms", [PLAIN, BARRIER], ids=["started", "claimed"])
def test_a_renewal_moves_lease_and_quarantine_and_nothing_else(terms: Terms) -> None:
    """The quarantine stays as far behind the lease as it was; it does not settle anything."""
    row = after((arrived(terms), T))
    plan = step(row, Renewing("c1", 50), T + 20)
    moved = msgspec.structs.replace(
        row, lease_until_ms=T + 70, quarantine_until_ms=T + 70 + TIMEOUT
    )
    assert plan == Plan(write=moved)


def test_a_renewed_lease_keeps_others_away() -> None:
    """A delivery that comes when the first lease would have ended waits for the second."""
    row = after((arrived(), T), (Renewing("c1", LEASE), T + 20))
    plan = step(row, arrived(claim="c2"), T + LEASE)
    assert (Settlement.LATER, 20) == (plan.settle, plan.delay_ms)


@pytest.mark.parametrize("terms", [PLAIN, BARRIER], ids=["started", "claimed"])
def test_a_lease_that_is_over_is_not_renewed(terms: Terms) -> None:
    """Whoever could not renew in time stops its handler: a checker may be asked any moment."""
    row = after((arrived(terms), T))
    assert step(row, Renewing("c1", LEASE), T + LEASE - 1).write is not None
    assert step(row, Renewing("c1", LEASE), T + LEASE) == SILENT


def test_a_late_renewal_cannot_go_under_a_checkers_word() -> None:
    """The checker is asked behind the quarantine; the frozen worker wakes and wants to go on.

    The checker's "it did not happen" would start a second run beside it.
    """
    row = after((arrived(CHECKED), T))
    late = T + QUARANTINE
    assert step(row, arrived(CHECKED, claim="c2"), late).verify
    assert step(row, Renewing("c1", LEASE), late + 1) == SILENT
    plan = step(row, checked(False), late + 2)
    assert plan.run and step(plan.write, told(Outcome.APPLIED), late + 3) == SILENT


# --- a receiver that knows the key --------------------------------------------------------------
def keyed(*steps: tuple[Given, int]) -> Row:
    return after((arrived(KEYED), T), *steps)


def test_the_receivers_memory_counts_from_the_first_attempt() -> None:
    """A later attempt with the same key does not make it begin anew."""
    row = keyed((told(Outcome.UNKNOWN, KEYED), T + 10), (arrived(KEYED, claim="c2"), T + 15))
    assert (2, T + SINK, 1) == (row.attempt, row.sink_until_ms, row.sink_attempt)


def test_other_effects_have_no_receiver_that_remembers() -> None:
    """Without a retention nothing is written down."""
    row = after((arrived(PLAIN), T))
    assert (0, 0) == (row.sink_until_ms, row.sink_attempt)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (T + LEASE, State.STARTED),
        (T + SINK - QUARANTINE - 1, State.STARTED),
        (T + SINK - QUARANTINE, State.IN_DOUBT),
        (T + SINK, State.IN_DOUBT),
    ],
)
def test_a_lost_worker_of_a_keyed_effect(now: int, expected: State) -> None:
    """It runs again as long as that run must end before the receiver forgets; then it asks."""
    assert state_of(step(keyed(), arrived(KEYED, claim="c2"), now)) is expected


@pytest.mark.parametrize(
    ("retry_ms", "expected"),
    [(5, State.RETRY_WAIT), (SINK - 11, State.RETRY_WAIT), (SINK - 10, State.IN_DOUBT)],
)
def test_an_unknown_end_of_a_keyed_effect(retry_ms: int, expected: State) -> None:
    """It is tried again within the receiver's memory, and asked about where that would end."""
    plan = step(keyed(), told(Outcome.UNKNOWN, KEYED, retry_ms=retry_ms), T + 10)
    assert state_of(plan) is expected


@pytest.mark.parametrize(
    ("now", "expected"),
    [(T + SINK - QUARANTINE - 1, State.STARTED), (T + SINK - QUARANTINE, State.IN_DOUBT)],
)
def test_a_retry_that_comes_late_is_measured_again(now: int, expected: State) -> None:
    """It was due in time, but nobody was there to run it."""
    waiting = keyed((told(Outcome.UNKNOWN, KEYED), T + 10))
    plan = step(waiting, arrived(KEYED, claim="c2"), now)
    assert state_of(plan) is expected
    assert plan.publish == ((Notice.ASK_DOUBT,) if expected is State.IN_DOUBT else ())


def test_a_proof_lets_the_memory_begin_with_the_next_attempt() -> None:
    """The receiver never saw the key, so it cannot have forgotten it, however late the retry."""
    waiting = keyed((told(Outcome.NOT_APPLIED, KEYED), T + 10))
    assert (0, 0) == (waiting.sink_until_ms, waiting.sink_attempt)
    late = T + 10 * SINK
    row = after((arrived(KEYED, claim="c2"), late), row=waiting)
    assert (State.STARTED, late + SINK, 2) == (row.state, row.sink_until_ms, row.sink_attempt)


@pytest.mark.parametrize("same_ms", [0, 15])
def test_a_proof_says_nothing_of_an_earlier_attempt(same_ms: int) -> None:
    """Attempt 1 may have reached the receiver; that attempt 2 did not does not take it back.

    Also where both began in the same millisecond.
    """
    waiting = keyed(
        (told(Outcome.UNKNOWN, KEYED, retry_ms=0), T),
        (arrived(KEYED, claim="c2"), T + same_ms),
        (told(Outcome.NOT_APPLIED, KEYED, "c2", retry_ms=0), T + 20),
    )
    assert (2, T + SINK, 1) == (waiting.attempt, waiting.sink_until_ms, waiting.sink_attempt)
    plan = step(waiting, arrived(KEYED, claim="c3"), T + SINK)
    assert state_of(plan) is State.IN_DOUBT


def test_a_proof_behind_a_barrier_counts_as_well() -> None:
    """The row was written at the barrier since; the attempt is still the one that proves it."""
    waiting = after(
        (arrived(KEYED_BARRIER), T),
        (AtBarrier("c1"), T + 3),
        (told(Outcome.NOT_APPLIED, KEYED_BARRIER), T + 9),
    )
    assert (State.RETRY_WAIT, 0) == (waiting.state, waiting.sink_until_ms)


def test_a_claim_that_was_never_entered_does_not_count_for_the_receiver() -> None:
    """However late it is taken over, or tried again: the receiver has not seen the key."""
    claimed = after((arrived(KEYED_BARRIER), T))
    late = T + 10 * SINK
    again = arrived(KEYED_BARRIER, claim="c2")
    failed = after((told(Outcome.UNKNOWN, KEYED_BARRIER), T + 1), row=claimed)
    for row in (claimed, failed):
        plan = step(row, again, late)
        assert plan.write is not None and plan.run
        assert (late + SINK, 2) == (plan.write.sink_until_ms, plan.write.sink_attempt)


def test_taking_a_claim_over_respects_what_an_earlier_attempt_left() -> None:
    """Attempt 1 went through and may have happened; attempt 2 only claimed, and was lost.

    Behind the receiver's memory a third one is no harmless repetition: the effect, twice.
    """
    claimed = after(
        (arrived(KEYED_BARRIER), T),
        (AtBarrier("c1"), T + 1),
        (told(Outcome.UNKNOWN, KEYED_BARRIER), T + 2),
        (arrived(KEYED_BARRIER, claim="c2"), T + 10),
    )
    assert (State.CLAIMED, T + SINK, 1) == (
        claimed.state, claimed.sink_until_ms, claimed.sink_attempt,
    )  # fmt: skip
    again = arrived(KEYED_BARRIER, claim="c3")
    assert step(claimed, again, T + SINK - QUARANTINE - 1).run
    assert state_of(step(claimed, again, T + SINK - QUARANTINE)) is State.IN_DOUBT


def test_a_refusal_in_between_does_not_make_the_receiver_remember() -> None:
    """A copy without its bytes refused the row; one with them comes when the key is forgotten."""
    refused = keyed(
        (told(Outcome.UNKNOWN, KEYED), T + 1),
        (arrived(KEYED, withheld="too_large"), T + 10),
    )
    assert refused.state is State.REFUSED
    assert state_of(step(refused, arrived(KEYED, claim="c2"), T + SINK)) is State.IN_DOUBT


def test_code_that_became_once_does_not_forget_the_receiver() -> None:
    """The keyed attempt may have happened: that a `once` attempt did not says nothing of it."""
    third = arrived(claim="c3", effect=Effect.ONCE)
    waiting = keyed(
        (told(Outcome.UNKNOWN, KEYED), T + 1),
        (arrived(claim="c2", effect=Effect.ONCE), T + 10),
        (told(Outcome.NOT_APPLIED, PLAIN, "c2"), T + 11),
    )
    assert (Effect.ONCE, State.RETRY_WAIT) == (waiting.effect, waiting.state)
    assert state_of(step(waiting, third, T + SINK)) is State.IN_DOUBT


@pytest.mark.parametrize("row_effect", Effect)
@pytest.mark.parametrize("declared", Effect)
def test_the_stricter_effect_counts(row_effect: Effect, declared: Effect) -> None:
    """Whether the row or the code of today is stricter."""
    claimed = after((arrived(BARRIER, effect=row_effect), T))
    row = after((arrived(BARRIER, claim="c2", effect=declared), T + LEASE), row=claimed)
    assert row.effect is max(row_effect, declared, key=lambda effect: effect.strictness)


def test_a_persons_retry_lets_the_memory_begin_anew() -> None:
    """ "It did not happen" is said of every attempt so far."""
    doubt = keyed((arrived(KEYED, claim="c2"), T + SINK))
    assert doubt.state is State.IN_DOUBT
    start = Start("c2", "worker-2", LEASE, TIMEOUT, KEYED)
    now = T + 2 * SINK
    row = after((Answered(Ruling.RETRY, "eve", 1, start, "f1"), now), row=doubt)
    assert (State.STARTED, now + SINK, 2) == (row.state, row.sink_until_ms, row.sink_attempt)


# --- a checker ----------------------------------------------------------------------------------
def test_a_lost_worker_is_asked_about_behind_its_quarantine() -> None:
    """Not before: the old worker may be at it, and the checker would see nothing yet."""
    row = after((arrived(CHECKED), T))
    again = arrived(CHECKED, claim="c2")
    waits = [step(row, again, now) for now in (T + LEASE, T + QUARANTINE - 1)]
    assert [Plan(settle=Settlement.LATER, delay_ms=ms) for ms in (TIMEOUT, 1)] == waits
    assert step(row, again, T + QUARANTINE) == Plan(verify=True)


def test_an_unknown_end_is_asked_about_behind_the_quarantine() -> None:
    """The handler has ended, but what it sent may still land: the lease ends, the wait does not."""
    row = after((arrived(CHECKED), T))
    plan = step(row, told(Outcome.UNKNOWN, CHECKED), T + 1)
    assert plan.write is not None and not plan.verify
    assert (State.STARTED, T + 1, "why") == (
        plan.write.state, plan.write.lease_until_ms, plan.write.error,
    )  # fmt: skip
    assert (Settlement.LATER, row.quarantine_until_ms - T - 1) == (plan.settle, plan.delay_ms)
    assert step(plan.write, arrived(CHECKED, claim="c2"), T + 2).settle is Settlement.LATER
    assert step(plan.write, arrived(CHECKED, claim="c2"), row.quarantine_until_ms).verify


def test_a_keyed_effect_asks_its_checker_when_the_receiver_forgets() -> None:
    """As long as repeating is harmless nobody needs to be asked."""
    terms = Terms(sink_ms=SINK, verifiable=True)
    row = after((arrived(terms), T))
    assert step(row, arrived(terms, claim="c2"), T + LEASE).run
    assert step(row, arrived(terms, claim="c2"), T + SINK).verify
    ended = step(row, told(Outcome.UNKNOWN, terms, retry_ms=SINK), T + 1).write
    assert ended is not None and ended.state is State.STARTED


def test_a_checker_says_that_it_happened() -> None:
    """The row is applied, and says who said so."""
    row = after((arrived(CHECKED), T))
    plan = step(row, checked(True), T + LEASE)
    assert plan.write is not None and plan.settle is Settlement.ACK
    assert (State.APPLIED, CHECKER) == (plan.write.state, plan.write.actor)


def test_a_checker_says_that_it_did_not_happen() -> None:
    """The next attempt runs at once, and the receiver's memory begins with it."""
    terms = Terms(sink_ms=SINK, verifiable=True)
    row = after((arrived(terms), T))
    plan = step(row, checked(False, terms), T + SINK)
    assert plan.write is not None and plan.run
    expected = (State.STARTED, 2, "c2", T + 2 * SINK, 2)
    assert expected == (
        plan.write.state, plan.write.attempt, plan.write.claim,
        plan.write.sink_until_ms, plan.write.sink_attempt,
    )  # fmt: skip


@pytest.mark.parametrize("attempts_max", [1, 2, 7])
def test_a_checkers_no_is_bounded_by_attempts(attempts_max: int) -> None:
    """What never has an effect, however often it runs, is poison."""
    terms = Terms(verifiable=True, attempts_max=attempts_max)
    row = after((arrived(terms), T))
    for attempt in range(1, attempts_max + 1):
        assert attempt == row.attempt
        plan = step(row, checked(False, terms, row.claim), row.lease_until_ms)
        assert plan.run is (attempt < attempts_max)
        assert plan.write is not None
        row = plan.write
    assert (State.REJECTED, (Notice.BURY,)) == (row.state, plan.publish)


@pytest.mark.parametrize("happened", [True, False, None])
def test_a_checker_that_was_asked_about_an_attempt_that_lives_is_not_heard(
    happened: bool | None,
) -> None:
    """Its owner renewed the lease while the checker looked: the attempt goes on."""
    row = after((arrived(CHECKED), T))
    plan = step(row, checked(happened), T + LEASE - 1)
    assert Plan(settle=Settlement.LATER, delay_ms=1) == plan


@pytest.mark.parametrize("error", ["", "no route to the shop"])
def test_a_checker_that_cannot_say_leaves_it_to_a_person(error: str) -> None:
    """The question says why, if the checker did."""
    row = after((arrived(CHECKED), T))
    given = msgspec.structs.replace(checked(None), error=error)
    plan = step(row, given, T + LEASE)
    assert (state_of(plan), plan.publish, plan.settle) == (
        State.IN_DOUBT, (Notice.ASK_DOUBT,), Settlement.ACK,
    )  # fmt: skip
    assert (error or "attempt 1: its checker cannot say") == plan.note


@pytest.mark.parametrize(
    "changes",
    [
        {"action": Action.ASK},
        {"action": Action.REFUSE},
        {"action": Action.DENY},
        {"withheld": "too_large"},
        {"undecodable": "no such field"},
    ],
    ids=["ask", "refuse", "deny", "withheld", "undecodable"],
)
def test_a_checker_is_no_licence_for_what_may_not_run(changes: dict[str, object]) -> None:
    """Its "it did not happen" would run an event that was discarded, or whose bytes are missing."""
    row = after((arrived(CHECKED), T))
    plan = step(row, arrived(CHECKED, claim="c2", **changes), T + QUARANTINE)
    assert (False, State.IN_DOUBT) == (plan.verify, state_of(plan))


def test_whoever_has_the_checker_asked_brings_its_generation_along() -> None:
    """The run that the checker's word begins is on behalf of the later announcement.

    So a discard of the older seam passes by, as it does where a start needs no checker.
    """
    row = after((arrived(CHECKED), T))
    now = T + QUARANTINE
    plan = step(row, arrived(CHECKED, claim="c2", **SEAM), now)
    assert plan.verify and plan.write is not None
    assert ("0009-zzzzzzzz", "1", now) == (
        plan.write.generation, plan.write.position, plan.write.changed_ms,
    )  # fmt: skip
    waiting = after(
        (checked(False), now), (told(Outcome.NOT_APPLIED, CHECKED, "c2"), now), row=plan.write
    )
    assert step(waiting, arrived(CHECKED, action=Action.DENY), now + 10).write is None


# --- a wait -------------------------------------------------------------------------------------
@pytest.mark.parametrize("bound", [PARKED_OVER_MS, 100])
@pytest.mark.parametrize("terms", [PLAIN, BARRIER], ids=["started", "claimed"])
def test_a_long_retry_is_parked_and_a_short_one_waits_with_the_broker(
    terms: Terms, bound: int
) -> None:
    """A delivery that waits for long holds a place that others need; the row is the same."""
    terms = msgspec.structs.replace(terms, parked_over_ms=bound)
    row = after((arrived(terms), T))
    short = step(row, told(Outcome.NOT_APPLIED, terms, retry_ms=bound), T)
    long = step(row, told(Outcome.NOT_APPLIED, terms, retry_ms=bound + 1), T)
    assert ((), Settlement.LATER, bound) == (short.publish, short.settle, short.delay_ms)
    assert ((Notice.PARK,), Settlement.ACK, 0) == (long.publish, long.settle, long.delay_ms)
    assert short.write is not None and long.write is not None
    assert (T + bound, T + bound + 1) == (short.write.due_ms, long.write.due_ms)


@pytest.mark.parametrize("by_answer", [False, True])
def test_a_delivery_that_comes_long_before_the_retry_is_parked_too(by_answer: bool) -> None:
    """Its worker died between the row and the parking; a second parked copy does no harm."""
    start = Start("c2", "worker-2", LEASE, TIMEOUT, Terms(parked_over_ms=100))
    given: Given = (
        Answered(Ruling.RETRY, "eve", 1, start, "f1") if by_answer else arrived(start.terms)
    )
    waiting = after((arrived(), T), (told(Outcome.NOT_APPLIED, retry_ms=500), T))
    assert signal(waiting, given, T) is Signal.NOT_DUE
    assert step(waiting, given, T) == Plan(publish=(Notice.PARK,), settle=Settlement.ACK)
    assert step(waiting, given, T + 400) == Plan(settle=Settlement.LATER, delay_ms=100)
    assert step(waiting, given, T + 500).run


def test_the_last_attempt_is_buried_and_not_parked() -> None:
    """However long its wait would have been."""
    terms = Terms(attempts_max=1)
    row = after((arrived(terms), T))
    plan = step(row, told(Outcome.NOT_APPLIED, terms, retry_ms=10**9), T)
    assert (State.REJECTED, (Notice.BURY,)) == (state_of(plan), plan.publish)


def test_a_lease_that_is_further_off_than_one_lasts_is_looked_at_again_soon() -> None:
    """The broker's clock was set back, and the owner of the lease will write it anew."""
    row = after((arrived(), T))
    for now, delay in ((T, LEASE), (T + 1, LEASE - 1), (T - 3_600_000, LEASE)):
        plan = step(row, arrived(claim="c2"), now)
        assert (Settlement.LATER, delay) == (plan.settle, plan.delay_ms)
