"""The ledger's state machine: a row, what happened, and the time give a Plan.

Two rules live here. First, whatever concerns a row's state is decided in this file, in `moves`
and in `waits`, and nowhere else. Second, nothing is done here: a Plan is carried out by the pool,
top to bottom (write, run, publish, settle), and a crash between any two lines is answered by `step`
at the redelivery.

`signal` reads what happened as one word; TABLE says which move answers that word in that state;
the moves build the plans. An absent row is never read as absent: the first plan inserts, and the
broker refuses the insert where a row stands.
"""

from collections.abc import Callable
from enum import StrEnum

from fencepost_policies import moves, waits
from fencepost_policies.disposition import Action
from fencepost_policies.plan import (
    CERTAIN,
    Answered,
    Arrived,
    AtBarrier,
    Finished,
    Given,
    Outcome,
    Plan,
    Reading,
    Renewing,
    Start,
    Verified,
)
from fencepost_schemas.question import Ruling
from fencepost_schemas.row import Row, State


class Signal(StrEnum):
    MAY_RUN = "may_run"
    MUST_ASK = "must_ask"
    MUST_REFUSE = "must_refuse"
    DENIED = "denied"
    DISCARDED_ELSEWHERE = "discarded_elsewhere"
    UNDECODABLE = "undecodable"
    OTHER_PAYLOAD = "other_payload"
    KNOWN_BY_KEY = "known_by_key"
    """Other bytes, where a reconciler tells of what the source tells otherwise."""
    LEASE_RUNS = "lease_runs"
    LEASE_OVER = "lease_over"
    NOT_DUE = "not_due"
    APPLIED = "applied"
    REJECTED = "rejected"
    NOT_APPLIED = "not_applied"
    UNKNOWN = "unknown"
    FENCED = "fenced"
    AT_BARRIER = "at_barrier"
    RENEWING = "renewing"
    VERIFIED_DONE = "verified_done"
    VERIFIED_UNDONE = "verified_undone"
    VERIFIED_NOTHING = "verified_nothing"
    RULED_APPLIED = "ruled_applied"
    RULED_RETRY = "ruled_retry"
    RULED_DISCARD = "ruled_discard"
    OTHER_EVENT = "other_event"
    """An answer that comes with other bytes than the row's."""
    QUARANTINED = "quarantined"
    OVERTAKEN = "overtaken"
    CLOCK_NOT_READ = "clock_not_read"
    """Another worker's time seems to be over, by a clock that was read some time ago."""
    CLOCK_NOT_PROVEN = "clock_not_proven"
    """That time is over by a clock which this worker has not seen stand for long enough."""


_BY_ACTION = {
    Action.RUN: Signal.MAY_RUN,
    Action.RUN_ONE_ATTEMPT: Signal.MAY_RUN,
    Action.ASK: Signal.MUST_ASK,
    Action.REFUSE: Signal.MUST_REFUSE,
    Action.DENY: Signal.DENIED,
}
_BY_OUTCOME = {
    Outcome.APPLIED: Signal.APPLIED,
    Outcome.REJECTED: Signal.REJECTED,
    Outcome.NOT_APPLIED: Signal.NOT_APPLIED,
    Outcome.UNKNOWN: Signal.UNKNOWN,
}
_BY_RULING = {
    Ruling.APPLIED: Signal.RULED_APPLIED,
    Ruling.RETRY: Signal.RULED_RETRY,
    Ruling.DISCARD: Signal.RULED_DISCARD,
}


def signal(row: Row | None, given: Given, now_ms: int, reading: Reading = CERTAIN) -> Signal:
    """Return the one word for what happened to this row."""
    if isinstance(given, Arrived):
        return _signal_of_arrival(row, given, now_ms, reading)
    if isinstance(given, Answered):
        return _signal_of_answer(row, given, now_ms, reading)
    return _signal_of_claim(row, given, now_ms)


_RUNNING = (State.CLAIMED, State.STARTED)


def _signal_of_claim(
    row: Row | None, given: Finished | AtBarrier | Renewing | Verified, now_ms: int
) -> Signal:
    """A claim that is no longer the row's says nothing that counts.

    Past its lease it may still end, while nobody took over, but neither begin nor go on: behind
    lease and quarantine a checker or a person looks, and what they see has to stay so. Where the
    lease was renewed after all while the checker looked, its attempt is alive.
    """
    if row is None or row.state not in _RUNNING or row.claim != given.claim:
        return Signal.FENCED
    if isinstance(given, Finished):
        return _BY_OUTCOME[given.outcome]
    if isinstance(given, AtBarrier | Renewing) and now_ms >= row.lease_until_ms:
        return Signal.FENCED
    if isinstance(given, AtBarrier):
        return Signal.AT_BARRIER
    if isinstance(given, Renewing):
        return Signal.RENEWING
    if now_ms < row.lease_until_ms:
        return Signal.LEASE_RUNS
    if given.happened is None:
        return Signal.VERIFIED_NOTHING
    return Signal.VERIFIED_DONE if given.happened else Signal.VERIFIED_UNDONE


def _signal_of_answer(row: Row | None, given: Answered, now_ms: int, reading: Reading) -> Signal:
    """An answer carries its work until the row is terminal or parked again, as an event does."""
    if row is None:
        return Signal.OVERTAKEN
    if given.ruling is Ruling.RETRY and row.fingerprint != given.fingerprint:
        return Signal.OTHER_EVENT
    if given.ruling is Ruling.RETRY and row.state in _RUNNING:
        return _held_by_another(row, given.start, now_ms, reading) or Signal.MAY_RUN
    if given.ruling is Ruling.RETRY and row.state is State.RETRY_WAIT:
        return Signal.NOT_DUE if now_ms < row.due_ms else Signal.MAY_RUN
    replayed = row.state is State.REJECTED and given.ruling is Ruling.RETRY
    waits = row.state in (State.IN_DOUBT, State.REFUSED) or replayed
    if row.attempt != given.attempt or not waits:
        return Signal.OVERTAKEN
    if given.ruling is not Ruling.RETRY:
        return _BY_RULING[given.ruling]
    if now_ms < row.quarantine_until_ms:
        return Signal.QUARANTINED
    return _doubt_about_quarantine(row, given.start, reading) or Signal.RULED_RETRY


def _signal_of_arrival(row: Row | None, given: Arrived, now_ms: int, reading: Reading) -> Signal:
    if row is not None and row.fingerprint != given.fingerprint:
        # A reconciler fetches the same work from elsewhere, in other words: its key alone counts.
        return Signal.KNOWN_BY_KEY if row.gap or given.gap else Signal.OTHER_PAYLOAD
    if row is not None and given.action is Action.DENY and row.generation != given.generation:
        return Signal.DISCARDED_ELSEWHERE
    if row is not None and row.state in _RUNNING:
        held = _held_by_another(row, given.start, now_ms, reading)
        if held is not None:
            return held
    if row is not None and row.state is State.RETRY_WAIT and now_ms < row.due_ms:
        return Signal.NOT_DUE
    if given.action is Action.DENY:
        return Signal.DENIED
    if given.withheld:
        return Signal.MUST_REFUSE
    if given.undecodable and given.action in (Action.RUN, Action.RUN_ONE_ATTEMPT):
        return Signal.UNDECODABLE
    return _BY_ACTION[given.action]


def _held_by_another(row: Row, start: Start, now_ms: int, reading: Reading) -> Signal | None:
    """Return what there is to say of an attempt that another worker began.

    None where that worker is gone and its attempt never came to its barrier.
    """
    if now_ms < row.lease_until_ms:
        return Signal.LEASE_RUNS
    over = Signal.LEASE_OVER if row.state is State.STARTED else None
    return _doubt_of_time(_takes_over_ms(start), reading) or over


def _takes_over_ms(start: Start) -> int:
    """Return how long a clock has to have stood before a lease is over by it.

    A lease that was written by another clock is over by its owner's own reckoning once it is as old
    as a lease, and the owner wrote the last one before it read the new clock. Before a checker is
    asked, what the attempt sent must have arrived as well.
    """
    on_its_way_ms = start.timeout_ms if start.terms.verifiable else 0
    return start.lease_ms + start.reading_ms + on_its_way_ms


def _doubt_about_quarantine(row: Row, start: Start, reading: Reading) -> Signal | None:
    """Nobody holds the row, so its attempt is over; what that sent may still be on its way."""
    if row.state is State.REFUSED or not row.quarantine_until_ms:
        return None
    in_doubt = row.state is State.IN_DOUBT
    return _doubt_of_time(start.timeout_ms if in_doubt else 0, reading)


def _doubt_of_time(needed_ms: int, reading: Reading) -> Signal | None:
    """Return why it cannot be said yet that another worker's time is over; None where it can."""
    if not reading.fresh:
        return Signal.CLOCK_NOT_READ
    return Signal.CLOCK_NOT_PROVEN if reading.stood_ms < needed_ms else None


Move = Callable[[Row | None, Given, int], Plan]

_TERMINAL = (State.APPLIED, State.REJECTED, State.DENIED, State.CONFLICT)
_IN_WORK = (*_RUNNING, State.RETRY_WAIT)
_MAY_STILL_ACT = (*_RUNNING, State.IN_DOUBT)
"""An attempt of another worker may still act, and only time tells that it does not."""
_ARRIVALS = (Signal.MAY_RUN, Signal.MUST_ASK, Signal.MUST_REFUSE, Signal.DENIED, Signal.UNDECODABLE)
_VERIFIED = (Signal.VERIFIED_DONE, Signal.VERIFIED_UNDONE, Signal.VERIFIED_NOTHING)
TABLE: dict[tuple[State | None, Signal], Move] = {
    (None, Signal.MAY_RUN): moves.start,
    (None, Signal.MUST_ASK): moves.park_pending,
    (None, Signal.MUST_REFUSE): moves.park_refused,
    (None, Signal.DENIED): moves.deny,
    (None, Signal.UNDECODABLE): moves.bury_undecodable,
    (State.CLAIMED, Signal.LEASE_RUNS): waits.wait_for_lease,
    (State.CLAIMED, Signal.MAY_RUN): moves.take_over,
    (State.CLAIMED, Signal.MUST_ASK): moves.park_pending,
    (State.CLAIMED, Signal.MUST_REFUSE): moves.park_refused,
    (State.CLAIMED, Signal.DENIED): moves.deny,
    (State.CLAIMED, Signal.UNDECODABLE): moves.bury_undecodable,
    (State.CLAIMED, Signal.AT_BARRIER): moves.enter,
    (State.CLAIMED, Signal.RENEWING): moves.renew,
    (State.CLAIMED, Signal.APPLIED): moves.commit,
    (State.CLAIMED, Signal.REJECTED): moves.reject,
    (State.CLAIMED, Signal.NOT_APPLIED): moves.retry,
    (State.CLAIMED, Signal.UNKNOWN): moves.retry,
    (State.STARTED, Signal.LEASE_RUNS): waits.wait_for_lease,
    (State.STARTED, Signal.LEASE_OVER): moves.recover,
    (State.STARTED, Signal.APPLIED): moves.commit,
    (State.STARTED, Signal.REJECTED): moves.reject,
    (State.STARTED, Signal.NOT_APPLIED): moves.retry,
    (State.STARTED, Signal.UNKNOWN): moves.unknown,
    (State.STARTED, Signal.AT_BARRIER): moves.silent,
    (State.STARTED, Signal.RENEWING): moves.renew,
    (State.STARTED, Signal.VERIFIED_DONE): moves.verified_done,
    (State.STARTED, Signal.VERIFIED_UNDONE): moves.verified_undone,
    (State.STARTED, Signal.VERIFIED_NOTHING): moves.verified_nothing,
    **{(State.CLAIMED, signal): moves.silent for signal in _VERIFIED},
    **{(state, Signal.CLOCK_NOT_READ): waits.read_clock for state in _MAY_STILL_ACT},
    **{(state, Signal.CLOCK_NOT_PROVEN): waits.wait_for_clock for state in _MAY_STILL_ACT},
    (State.RETRY_WAIT, Signal.NOT_DUE): waits.wait_until_due,
    (State.RETRY_WAIT, Signal.MAY_RUN): moves.start_again,
    (State.RETRY_WAIT, Signal.MUST_ASK): moves.park_pending,
    (State.RETRY_WAIT, Signal.MUST_REFUSE): moves.park_refused,
    (State.RETRY_WAIT, Signal.DENIED): moves.deny,
    (State.RETRY_WAIT, Signal.UNDECODABLE): moves.bury_undecodable,
    (State.PENDING, Signal.MAY_RUN): moves.start,
    (State.PENDING, Signal.MUST_ASK): moves.park_pending,
    (State.PENDING, Signal.MUST_REFUSE): moves.park_refused,
    (State.PENDING, Signal.DENIED): moves.deny,
    (State.PENDING, Signal.UNDECODABLE): moves.bury_undecodable,
    (State.REFUSED, Signal.MAY_RUN): moves.start_again,
    (State.REFUSED, Signal.MUST_ASK): moves.park_refused,
    (State.REFUSED, Signal.MUST_REFUSE): moves.park_refused,
    (State.REFUSED, Signal.DENIED): moves.deny,
    (State.REFUSED, Signal.UNDECODABLE): moves.bury_undecodable,
    (State.REFUSED, Signal.RULED_APPLIED): moves.rule_applied,
    (State.REFUSED, Signal.RULED_DISCARD): moves.deny,
    **{(State.IN_DOUBT, signal): moves.ask_again for signal in _ARRIVALS},
    (State.IN_DOUBT, Signal.RULED_APPLIED): moves.rule_applied,
    (State.IN_DOUBT, Signal.RULED_RETRY): moves.start,
    (State.IN_DOUBT, Signal.RULED_DISCARD): moves.deny,
    (State.IN_DOUBT, Signal.QUARANTINED): waits.wait_out_quarantine,
    **{(state, signal): moves.skip for state in _TERMINAL for signal in _ARRIVALS},
    **{(State.REJECTED, signal): moves.bury_again for signal in _ARRIVALS},
    **{(state, Signal.OTHER_PAYLOAD): moves.conflict for state in State},
    **{(state, Signal.KNOWN_BY_KEY): moves.skip for state in State},
    **{(state, Signal.KNOWN_BY_KEY): waits.wait_for_first for state in _IN_WORK},
    (State.REJECTED, Signal.KNOWN_BY_KEY): moves.bury_beside,
    **{(state, Signal.DISCARDED_ELSEWHERE): moves.skip for state in State},
    **{(state, Signal.FENCED): moves.silent for state in (None, *State)},
    **{(state, Signal.OVERTAKEN): moves.moot for state in State},
    **{(state, Signal.OTHER_EVENT): moves.not_its_event for state in State},
    (State.IN_DOUBT, Signal.OVERTAKEN): moves.ask_again,
    (State.REJECTED, Signal.OVERTAKEN): moves.bury_again,
    (State.REJECTED, Signal.RULED_RETRY): moves.start,
    (State.REJECTED, Signal.QUARANTINED): waits.wait_out_quarantine,
    (State.REJECTED, Signal.CLOCK_NOT_READ): waits.read_clock,
    (None, Signal.OVERTAKEN): moves.moot,
    (State.REFUSED, Signal.RULED_RETRY): moves.moot,
    (State.REFUSED, Signal.QUARANTINED): moves.moot,
}
"""Every state that a row can be in, and every word that can reach it there."""


def step(row: Row | None, given: Given, now_ms: int, reading: Reading = CERTAIN) -> Plan:
    """Return what to do about this row now. `now_ms` is the broker's clock, as `reading` knows it.

    Raises KeyError for a pair that TABLE does not have, which is a fault of this program.
    """
    word = signal(row, given, now_ms, reading)
    return TABLE[row.state if row is not None else None, word](row, given, now_ms)
