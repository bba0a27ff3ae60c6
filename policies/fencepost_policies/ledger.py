"""The ledger's state machine: a row, what happened, and the time give a Plan.

Two rules live here. First, whatever concerns a row's state is decided in this file and nowhere
else. Second, this file does nothing: a Plan is carried out by the pool, top to bottom (write, run,
publish, settle), and a crash between any two lines is answered by `step` at the redelivery.

`signal` reads what happened as one word; TABLE says which move answers that word in that state;
the moves build the plans. An absent row is never read as absent: the first plan inserts, and the
broker refuses the insert where a row stands.
"""

from collections.abc import Callable
from enum import StrEnum

import msgspec

from fencepost_policies.disposition import Action
from fencepost_schemas.limits import ATTEMPTS_MAX, NOTE_CHARS_MAX
from fencepost_schemas.question import Ruling
from fencepost_schemas.row import Effect, Row, State
from fencepost_schemas.standing import Standing


# --- what happened ------------------------------------------------------------------------------
class Start(msgspec.Struct, frozen=True):
    """A worker's offer to run: `claim` is a fresh random name, times are milliseconds."""

    claim: str
    owner: str
    lease_ms: int
    timeout_ms: int


class Arrived(msgspec.Struct, frozen=True):
    """An event has come for a handler, or a ruling has come for an event that was held."""

    action: Action
    start: Start
    handler: str
    namespace: str
    key: str
    fingerprint: str
    effect: Effect
    standing: Standing
    source: str
    generation: str
    position: str
    withheld: str = ""
    undecodable: str = ""
    actor: str = ""


class Outcome(StrEnum):
    APPLIED = "applied"
    REJECTED = "rejected"
    NOT_APPLIED = "not_applied"
    """The handler proves that there was no effect."""
    UNKNOWN = "unknown"


class Finished(msgspec.Struct, frozen=True):
    """A handler has ended. `retry_ms` is the wait that was drawn in case it may run again."""

    claim: str
    outcome: Outcome
    result_digest: str = ""
    error: str = ""
    retry_ms: int = 0


class Answered(msgspec.Struct, frozen=True):
    """A person or a checker has ruled on a doubt or a refusal of this row."""

    ruling: Ruling
    actor: str
    attempt: int
    start: Start


Given = Arrived | Finished | Answered


# --- what is to be done -------------------------------------------------------------------------
class Notice(StrEnum):
    """What is published besides the row; the pool knows how each looks."""

    HOLD = "hold"
    """Keep the event's bytes at the desk, under the question of its seam."""
    ASK_DOUBT = "ask_doubt"
    ASK_REFUSAL = "ask_refusal"
    BURY = "bury"
    """Publish the event to the dead."""


class Settlement(StrEnum):
    ACK = "ack"
    LATER = "later"
    """Ask the broker to deliver again after `delay_ms`."""
    SILENT = "silent"
    """Neither ack nor nak: another worker owns the row, and its word counts."""


class Plan(msgspec.Struct, frozen=True):
    """What to do, in the order of the fields. With `run`, the outcome comes back to `step`."""

    write: Row | None = None
    run: bool = False
    publish: tuple[Notice, ...] = ()
    settle: Settlement = Settlement.SILENT
    delay_ms: int = 0
    note: str = ""


# --- one word for what happened -----------------------------------------------------------------
class Signal(StrEnum):
    MAY_RUN = "may_run"
    MUST_ASK = "must_ask"
    MUST_REFUSE = "must_refuse"
    DENIED = "denied"
    DISCARDED_ELSEWHERE = "discarded_elsewhere"
    UNDECODABLE = "undecodable"
    OTHER_PAYLOAD = "other_payload"
    LEASE_RUNS = "lease_runs"
    LEASE_OVER = "lease_over"
    NOT_DUE = "not_due"
    APPLIED = "applied"
    REJECTED = "rejected"
    NOT_APPLIED = "not_applied"
    UNKNOWN = "unknown"
    FENCED = "fenced"
    RULED_APPLIED = "ruled_applied"
    RULED_RETRY = "ruled_retry"
    RULED_DISCARD = "ruled_discard"
    QUARANTINED = "quarantined"
    OVERTAKEN = "overtaken"


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


def signal(row: Row | None, given: Given, now_ms: int) -> Signal:
    """Return the one word for what happened to this row."""
    if isinstance(given, Finished):
        live = row is not None and row.state is State.STARTED and row.claim == given.claim
        return _BY_OUTCOME[given.outcome] if live else Signal.FENCED
    if isinstance(given, Answered):
        return _signal_of_answer(row, given, now_ms)
    return _signal_of_arrival(row, given, now_ms)


def _signal_of_answer(row: Row | None, given: Answered, now_ms: int) -> Signal:
    """An answer carries its work until the row is terminal or parked again, as an event does."""
    if row is None:
        return Signal.FENCED
    if row.state is State.STARTED:
        return Signal.LEASE_RUNS if now_ms < row.lease_until_ms else Signal.LEASE_OVER
    if row.state is State.RETRY_WAIT:
        return Signal.NOT_DUE if now_ms < row.due_ms else Signal.MAY_RUN
    if row.attempt != given.attempt or row.state not in (State.IN_DOUBT, State.REFUSED):
        return Signal.OVERTAKEN
    if given.ruling is Ruling.RETRY and now_ms < row.quarantine_until_ms:
        return Signal.QUARANTINED
    return _BY_RULING[given.ruling]


def _signal_of_arrival(row: Row | None, given: Arrived, now_ms: int) -> Signal:
    if row is not None and row.fingerprint != given.fingerprint:
        return Signal.OTHER_PAYLOAD
    if row is not None and row.state is State.STARTED:
        return Signal.LEASE_RUNS if now_ms < row.lease_until_ms else Signal.LEASE_OVER
    if row is not None and row.state is State.RETRY_WAIT and now_ms < row.due_ms:
        return Signal.NOT_DUE
    if given.action is Action.DENY:
        # A ruling discards one generation's announcement, never the task another one brought.
        theirs = row is not None and row.generation != given.generation
        return Signal.DISCARDED_ELSEWHERE if theirs else Signal.DENIED
    if given.withheld:
        return Signal.MUST_REFUSE
    if given.undecodable and given.action in (Action.RUN, Action.RUN_ONE_ATTEMPT):
        return Signal.UNDECODABLE
    return _BY_ACTION[given.action]


# --- the moves ----------------------------------------------------------------------------------
def _start(row: Row | None, given: Given, now_ms: int) -> Plan:
    """Claim and start in one write: attempt n+1, under a lease."""
    assert isinstance(given, Arrived | Answered)
    begun = row if row is not None else _fresh(given, State.STARTED, now_ms)
    effect = begun.effect
    if isinstance(given, Arrived) and given.action is Action.RUN_ONE_ATTEMPT:
        effect = Effect.ONCE
    started = msgspec.structs.replace(
        begun,
        state=State.STARTED,
        effect=effect,
        attempt=begun.attempt + 1,
        claim=given.start.claim,
        owner=given.start.owner,
        lease_until_ms=now_ms + given.start.lease_ms,
        quarantine_until_ms=now_ms + given.start.timeout_ms + given.start.lease_ms,
        due_ms=0,
        error="",
        changed_ms=now_ms,
        actor=given.actor or begun.actor,
    )
    return Plan(write=started, run=True)


def _fresh(given: Given, state: State, now_ms: int) -> Row:
    assert isinstance(given, Arrived), "only an arrival can meet an absent row"
    return Row(
        state=state,
        handler=given.handler,
        namespace=given.namespace,
        key=given.key,
        fingerprint=given.fingerprint,
        effect=given.effect,
        standing=given.standing,
        source=given.source,
        generation=given.generation,
        position=given.position,
        first_seen_ms=now_ms,
        changed_ms=now_ms,
        actor=given.actor,
    )


def _to(row: Row, state: State, now_ms: int, *, error: str = "", actor: str = "") -> Row:
    return msgspec.structs.replace(
        row,
        state=state,
        changed_ms=now_ms,
        error=error[:NOTE_CHARS_MAX],
        actor=actor or row.actor,
        lease_until_ms=0,
        due_ms=0,
    )


def _park_pending(row: Row | None, given: Given, now_ms: int) -> Plan:
    write = _fresh(given, State.PENDING, now_ms) if row is None else None
    return Plan(write=write, publish=(Notice.HOLD,), settle=Settlement.ACK)


def _park_refused(row: Row | None, given: Given, now_ms: int) -> Plan:
    assert isinstance(given, Arrived)
    notice = Notice.ASK_REFUSAL if given.withheld else Notice.HOLD
    error = given.withheld or "no usable key in a doubtful lineage"
    write = _fresh(given, State.REFUSED, now_ms) if row is None else None
    if write is not None:
        write = msgspec.structs.replace(write, error=error)
    return Plan(write=write, publish=(notice,), settle=Settlement.ACK, note=error)


def _deny(row: Row | None, given: Given, now_ms: int) -> Plan:
    assert isinstance(given, Arrived | Answered)
    standing = row if row is not None else _fresh(given, State.DENIED, now_ms)
    denied = _to(standing, State.DENIED, now_ms, actor=given.actor)
    return Plan(write=denied, settle=Settlement.ACK)


def _bury_undecodable(row: Row | None, given: Given, now_ms: int) -> Plan:
    assert isinstance(given, Arrived)
    buried = row if row is not None else _fresh(given, State.REJECTED, now_ms)
    rejected = _to(buried, State.REJECTED, now_ms, error=given.undecodable)
    return Plan(write=rejected, publish=(Notice.BURY,), settle=Settlement.ACK)


def _skip(row: Row | None, given: Given, now_ms: int) -> Plan:
    return Plan(settle=Settlement.ACK, note="already decided")


def _conflict(row: Row | None, given: Given, now_ms: int) -> Plan:
    """Record the other payload beside the first row, which is left as it is."""
    assert isinstance(given, Arrived)
    beside = msgspec.structs.replace(given, key=conflict_key(given.key, given.fingerprint))
    conflict = msgspec.structs.replace(
        _fresh(beside, State.CONFLICT, now_ms),
        error="the key was used before with another payload",
    )
    return Plan(write=conflict, publish=(Notice.BURY,), settle=Settlement.ACK)


def conflict_key(key: str, fingerprint: str) -> str:
    """Return the key of the row that records a conflict: one a payload, so that it repeats."""
    return f"c:{key}:{fingerprint}"


def _wait_for_lease(row: Row | None, given: Given, now_ms: int) -> Plan:
    assert row is not None
    return Plan(settle=Settlement.LATER, delay_ms=max(1, row.lease_until_ms - now_ms))


def _wait_until_due(row: Row | None, given: Given, now_ms: int) -> Plan:
    assert row is not None
    return Plan(settle=Settlement.LATER, delay_ms=max(1, row.due_ms - now_ms))


def _wait_out_quarantine(row: Row | None, given: Given, now_ms: int) -> Plan:
    assert row is not None
    return Plan(settle=Settlement.LATER, delay_ms=max(1, row.quarantine_until_ms - now_ms))


def _recover(row: Row | None, given: Given, now_ms: int) -> Plan:
    """A worker started and never came back: run again where that is harmless, else ask."""
    assert row is not None
    if row.effect is Effect.ONCE:
        error = f"attempt {row.attempt} started and its worker did not come back"
        return _doubt(row, now_ms, error)
    if row.attempt >= ATTEMPTS_MAX:
        return _bury(row, now_ms, f"{row.attempt} attempts started and none came back")
    return _start(row, given, now_ms)


def _doubt(row: Row, now_ms: int, error: str) -> Plan:
    doubtful = _to(row, State.IN_DOUBT, now_ms, error=error)
    return Plan(write=doubtful, publish=(Notice.ASK_DOUBT,), settle=Settlement.ACK, note=error)


def _bury(row: Row, now_ms: int, error: str) -> Plan:
    rejected = _to(row, State.REJECTED, now_ms, error=error)
    return Plan(write=rejected, publish=(Notice.BURY,), settle=Settlement.ACK, note=error)


def _ask_again(row: Row | None, given: Given, now_ms: int) -> Plan:
    return Plan(publish=(Notice.ASK_DOUBT,), settle=Settlement.ACK)


def _commit(row: Row | None, given: Given, now_ms: int) -> Plan:
    assert row is not None
    assert isinstance(given, Finished)
    applied = _to(row, State.APPLIED, now_ms)
    applied = msgspec.structs.replace(applied, result_digest=given.result_digest)
    return Plan(write=applied, settle=Settlement.ACK)


def _reject(row: Row | None, given: Given, now_ms: int) -> Plan:
    assert row is not None
    assert isinstance(given, Finished)
    return _bury(row, now_ms, given.error)


def _retry(row: Row | None, given: Given, now_ms: int) -> Plan:
    assert row is not None
    assert isinstance(given, Finished)
    if row.attempt >= ATTEMPTS_MAX:
        return _bury(row, now_ms, given.error)
    waiting = _to(row, State.RETRY_WAIT, now_ms, error=given.error)
    waiting = msgspec.structs.replace(waiting, due_ms=now_ms + given.retry_ms)
    return Plan(write=waiting, settle=Settlement.LATER, delay_ms=given.retry_ms, note=given.error)


def _unknown(row: Row | None, given: Given, now_ms: int) -> Plan:
    """The handler failed and cannot say whether it happened."""
    assert row is not None
    assert isinstance(given, Finished)
    if row.effect is Effect.ONCE:
        return _doubt(row, now_ms, given.error)
    return _retry(row, given, now_ms)


def _rule_applied(row: Row | None, given: Given, now_ms: int) -> Plan:
    assert row is not None
    assert isinstance(given, Answered)
    applied = _to(row, State.APPLIED, now_ms, error=row.error, actor=given.actor)
    return Plan(write=applied, settle=Settlement.ACK)


def _silent(row: Row | None, given: Given, now_ms: int) -> Plan:
    return Plan(settle=Settlement.SILENT)


def _moot(row: Row | None, given: Given, now_ms: int) -> Plan:
    """An answer that its row no longer waits for: it has done its work, or was overtaken."""
    return Plan(settle=Settlement.ACK, note="the row no longer waits for this answer")


Move = Callable[[Row | None, Given, int], Plan]

_TERMINAL = (State.APPLIED, State.REJECTED, State.DENIED, State.CONFLICT)
_ARRIVALS = (Signal.MAY_RUN, Signal.MUST_ASK, Signal.MUST_REFUSE, Signal.DENIED, Signal.UNDECODABLE)
TABLE: dict[tuple[State | None, Signal], Move] = {
    (None, Signal.MAY_RUN): _start,
    (None, Signal.MUST_ASK): _park_pending,
    (None, Signal.MUST_REFUSE): _park_refused,
    (None, Signal.DENIED): _deny,
    (None, Signal.UNDECODABLE): _bury_undecodable,
    (State.STARTED, Signal.LEASE_RUNS): _wait_for_lease,
    (State.STARTED, Signal.LEASE_OVER): _recover,
    (State.STARTED, Signal.APPLIED): _commit,
    (State.STARTED, Signal.REJECTED): _reject,
    (State.STARTED, Signal.NOT_APPLIED): _retry,
    (State.STARTED, Signal.UNKNOWN): _unknown,
    (State.RETRY_WAIT, Signal.NOT_DUE): _wait_until_due,
    (State.RETRY_WAIT, Signal.MAY_RUN): _start,
    (State.RETRY_WAIT, Signal.MUST_ASK): _park_pending,
    (State.RETRY_WAIT, Signal.MUST_REFUSE): _park_refused,
    (State.RETRY_WAIT, Signal.DENIED): _deny,
    (State.RETRY_WAIT, Signal.UNDECODABLE): _bury_undecodable,
    (State.PENDING, Signal.MAY_RUN): _start,
    (State.PENDING, Signal.MUST_ASK): _park_pending,
    (State.PENDING, Signal.MUST_REFUSE): _park_refused,
    (State.PENDING, Signal.DENIED): _deny,
    (State.PENDING, Signal.UNDECODABLE): _bury_undecodable,
    (State.REFUSED, Signal.MAY_RUN): _start,
    (State.REFUSED, Signal.MUST_ASK): _park_refused,
    (State.REFUSED, Signal.MUST_REFUSE): _park_refused,
    (State.REFUSED, Signal.DENIED): _deny,
    (State.REFUSED, Signal.UNDECODABLE): _bury_undecodable,
    (State.REFUSED, Signal.RULED_APPLIED): _rule_applied,
    (State.REFUSED, Signal.RULED_DISCARD): _deny,
    **{(State.IN_DOUBT, signal): _ask_again for signal in _ARRIVALS},
    (State.IN_DOUBT, Signal.RULED_APPLIED): _rule_applied,
    (State.IN_DOUBT, Signal.RULED_RETRY): _start,
    (State.IN_DOUBT, Signal.RULED_DISCARD): _deny,
    (State.IN_DOUBT, Signal.QUARANTINED): _wait_out_quarantine,
    **{(state, signal): _skip for state in _TERMINAL for signal in _ARRIVALS},
    **{(state, Signal.OTHER_PAYLOAD): _conflict for state in State},
    **{(state, Signal.DISCARDED_ELSEWHERE): _skip for state in State},
    **{(state, Signal.FENCED): _silent for state in (None, *State)},
    **{(state, Signal.OVERTAKEN): _moot for state in State},
    (State.REFUSED, Signal.RULED_RETRY): _moot,
    (State.REFUSED, Signal.QUARANTINED): _moot,
}
"""Every state that a row can be in, and every word that can reach it there."""


def step(row: Row | None, given: Given, now_ms: int) -> Plan:
    """Return what to do about this row now. `now_ms` is the broker's clock.

    Raises KeyError for a pair that TABLE does not have, which is a fault of this program.
    """
    return TABLE[row.state if row is not None else None, signal(row, given, now_ms)](
        row, given, now_ms
    )
