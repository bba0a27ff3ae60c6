"""The moves of the ledger: each builds the plan that answers one word in one state.

A move gets the row as it stands (None where it is absent), what was given, and the broker's time.
"""

import msgspec

from fencepost_policies.disposition import Action
from fencepost_policies.plan import (
    Answered,
    Arrived,
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
from fencepost_policies.waits import wait_out_quarantine
from fencepost_schemas.limits import NOTE_CHARS_MAX
from fencepost_schemas.row import Effect, Row, State

CHECKER = "verify"
"""Who says so where a handler's own checker decided."""


def start(row: Row | None, given: Given, now_ms: int) -> Plan:
    """Take the row in one write: attempt n+1, under a lease.

    A handler with a barrier has only claimed then; any other may have begun.
    """
    assert isinstance(given, Arrived | Answered | Verified)
    begun = row if row is not None else _fresh(given, State.STARTED, now_ms)
    if isinstance(given, Arrived):
        begun = _brought_by(begun, given)
    if isinstance(given, Verified) or begun.state in (State.IN_DOUBT, State.REJECTED):
        # A checker or a person says that no attempt so far reached the receiver.
        begun = _unknown_to_the_receiver(begun)
    offer = given.start
    if offer.terms.sink_ms and not begun.sink_until_ms:
        # The receiver knows the key from the first attempt on, so that one counts.
        begun = msgspec.structs.replace(
            begun, sink_until_ms=now_ms + offer.terms.sink_ms, sink_attempt=begun.attempt + 1
        )
    taken = msgspec.structs.replace(
        begun,
        state=State.CLAIMED if offer.terms.barrier else State.STARTED,
        attempt=begun.attempt + 1,
        claim=offer.claim,
        owner=offer.owner,
        lease_until_ms=now_ms + offer.lease_ms,
        quarantine_until_ms=now_ms + offer.timeout_ms + offer.lease_ms,
        due_ms=0,
        error="",
        changed_ms=now_ms,
        actor=_actor(given) or begun.actor,
    )
    return Plan(write=taken, run=True)


def start_again(row: Row | None, given: Given, now_ms: int) -> Plan:
    """Start once more after a wait, unless the receiver may have forgotten the key meanwhile."""
    assert row is not None
    assert isinstance(given, Arrived | Answered)
    if row.sink_until_ms and not _harmless(row, given.start, now_ms):
        return _doubt(row, now_ms, "the receiver may have forgotten the key before the retry came")
    return start(row, given, now_ms)


def take_over(row: Row | None, given: Given, now_ms: int) -> Plan:
    """Take a row whose worker never came to its barrier: that attempt did nothing."""
    assert row is not None
    assert isinstance(given, Arrived | Answered)
    if row.attempt >= given.start.terms.attempts_max:
        error = f"{row.attempt} attempts were claimed and none came to its end"
        return _give_up(row, given.start.terms, now_ms, error)
    return start_again(_without_this_attempt(row), given, now_ms)


def enter(row: Row | None, given: Given, now_ms: int) -> Plan:
    """Let a handler through its barrier."""
    assert row is not None
    return Plan(write=msgspec.structs.replace(row, state=State.STARTED, changed_ms=now_ms))


def renew(row: Row | None, given: Given, now_ms: int) -> Plan:
    """Begin the lease anew; the quarantine behind it moves along.

    The owner of a lease judges it by the clock that it was written by, and writes it by today's.
    """
    assert row is not None
    assert isinstance(given, Renewing)
    behind_ms = row.quarantine_until_ms - row.lease_until_ms
    lease_until_ms = now_ms + given.moved_ms + given.lease_ms
    renewed = msgspec.structs.replace(
        row, lease_until_ms=lease_until_ms, quarantine_until_ms=lease_until_ms + behind_ms
    )
    return Plan(write=renewed)


def _without_this_attempt(row: Row) -> Row:
    """Return the row of a keyed effect after an attempt that never reached the receiver.

    The receiver's memory counts from an earlier attempt, which may have reached it, or not yet.
    """
    return _unknown_to_the_receiver(row) if row.sink_attempt == row.attempt else row


def _unknown_to_the_receiver(row: Row) -> Row:
    return msgspec.structs.replace(row, sink_until_ms=0, sink_attempt=0)


def release(row: Row, now_ms: int) -> Plan:
    """End the lease of a worker that a person knows to be dead; its quarantine stays."""
    return Plan(write=msgspec.structs.replace(row, lease_until_ms=now_ms, changed_ms=now_ms))


def _actor(given: Given) -> str:
    return given.actor if isinstance(given, Arrived | Answered) else ""


def _brought_by(row: Row, given: Arrived) -> Row:
    """Return the row as the arrival that starts it has it.

    It belongs to the generation that brought the event now, so that a ruling on an older one no
    longer reaches it. The stricter effect counts, for what may have been started cannot be run
    again because the code was changed.
    """
    declared = Effect.ONCE if given.action is Action.RUN_ONE_ATTEMPT else given.effect
    return msgspec.structs.replace(
        row,
        effect=declared if declared.strictness > row.effect.strictness else row.effect,
        source=given.source,
        generation=given.generation,
        position=given.position,
        standing=given.standing,
    )


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
        gap=given.gap,
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


def park_pending(row: Row | None, given: Given, now_ms: int) -> Plan:
    write = _fresh(given, State.PENDING, now_ms) if row is None else None
    return Plan(write=write, publish=(Notice.HOLD,), settle=Settlement.ACK)


def park_refused(row: Row | None, given: Given, now_ms: int) -> Plan:
    assert isinstance(given, Arrived)
    error = given.withheld or "no usable key in a doubtful lineage"
    refused = None
    if row is None:
        refused = _to(_fresh(given, State.REFUSED, now_ms), State.REFUSED, now_ms, error=error)
    elif given.withheld and row.state is not State.REFUSED:
        # A question about a row is only answered if the row waits for it.
        refused = _to(row, State.REFUSED, now_ms, error=error)
    notice = Notice.ASK_REFUSAL if given.withheld else Notice.HOLD
    return Plan(write=refused, publish=(notice,), settle=Settlement.ACK, note=error)


def deny(row: Row | None, given: Given, now_ms: int) -> Plan:
    assert isinstance(given, Arrived | Answered)
    standing = row if row is not None else _fresh(given, State.DENIED, now_ms)
    return Plan(write=_to(standing, State.DENIED, now_ms, actor=given.actor), settle=Settlement.ACK)


def bury_undecodable(row: Row | None, given: Given, now_ms: int) -> Plan:
    assert isinstance(given, Arrived)
    buried = row if row is not None else _fresh(given, State.REJECTED, now_ms)
    rejected = _to(buried, State.REJECTED, now_ms, error=given.undecodable)
    return Plan(write=rejected, publish=(Notice.BURY,), settle=Settlement.ACK)


def skip(row: Row | None, given: Given, now_ms: int) -> Plan:
    return Plan(settle=Settlement.ACK, note="already decided")


def bury_again(row: Row | None, given: Given, now_ms: int) -> Plan:
    """See to it that what was rejected lies among the dead, if this is what was rejected.

    A worker may have died between the row and the burial; a second copy does no harm.
    """
    assert row is not None
    if isinstance(given, Arrived):
        same = (row.generation, row.position) == (given.generation, given.position)
    else:
        same = isinstance(given, Answered) and row.attempt > given.attempt
    return Plan(publish=(Notice.BURY,) if same else (), settle=Settlement.ACK, note=row.error)


def bury_beside(row: Row | None, given: Given, now_ms: int) -> Plan:
    """The key is known in other words, and those were rejected.

    Where a reconciler fetched them, what the source itself tells must not be lost with them.
    """
    assert row is not None
    assert isinstance(given, Arrived)
    if row.gap and not given.gap:
        return Plan(publish=(Notice.BURY,), settle=Settlement.ACK)
    return skip(row, given, now_ms)


def conflict(row: Row | None, given: Given, now_ms: int) -> Plan:
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


def recover(row: Row | None, given: Given, now_ms: int) -> Plan:
    """A worker started and never came back: run again where that is harmless, else ask."""
    assert row is not None
    assert isinstance(given, Arrived | Answered)
    terms = given.start.terms
    if not _harmless(row, given.start, now_ms) or not _may_run(given):
        if terms.verifiable and _may_run(given):
            return _verify(row, given, now_ms)
        error = f"attempt {row.attempt} started and its worker did not come back"
        return _doubt(row, now_ms, error)
    if row.attempt >= terms.attempts_max:
        error = f"{row.attempt} attempts started and none came back"
        return _give_up(row, terms, now_ms, error)
    return start(row, given, now_ms)


def _verify(row: Row, given: Arrived | Answered, now_ms: int) -> Plan:
    """Ask the checker, once the old worker cannot be at it unseen any more."""
    if now_ms < row.quarantine_until_ms:
        return wait_out_quarantine(row, given, now_ms)
    # What the checker says may begin a run, and that run is on behalf of who brings it now.
    brought = _brought_by(row, given) if isinstance(given, Arrived) else row
    if brought == row:
        return Plan(verify=True)
    return Plan(write=msgspec.structs.replace(brought, changed_ms=now_ms), verify=True)


def _harmless(row: Row, offer: Start, now_ms: int) -> bool:
    """Return True if running once more does no harm, whatever became of the last attempt."""
    if row.effect is Effect.KEYED:
        return now_ms + offer.timeout_ms + offer.lease_ms < row.sink_until_ms
    return row.effect is Effect.IDEMPOTENT


def _may_run(given: Given) -> bool:
    """Return True unless this arrival is one that may not run by itself."""
    if isinstance(given, Arrived):
        permitted = given.action in (Action.RUN, Action.RUN_ONE_ATTEMPT)
        return permitted and not given.withheld and not given.undecodable
    return True


def _doubt(row: Row, now_ms: int, error: str) -> Plan:
    write = _to(row, State.IN_DOUBT, now_ms, error=error)
    return Plan(write=write, publish=(Notice.ASK_DOUBT,), settle=Settlement.ACK, note=error)


def _give_up(row: Row, terms: Terms, now_ms: int, error: str) -> Plan:
    """There are no more attempts: to a person where that was wanted, to the dead otherwise."""
    return (_doubt if terms.asks_when_spent else _bury)(row, now_ms, error)


def _bury(row: Row, now_ms: int, error: str) -> Plan:
    rejected = _to(row, State.REJECTED, now_ms, error=error)
    return Plan(write=rejected, publish=(Notice.BURY,), settle=Settlement.ACK, note=error)


def ask_again(row: Row | None, given: Given, now_ms: int) -> Plan:
    return Plan(publish=(Notice.ASK_DOUBT,), settle=Settlement.ACK)


def commit(row: Row | None, given: Given, now_ms: int) -> Plan:
    assert row is not None
    assert isinstance(given, Finished)
    applied = _to(row, State.APPLIED, now_ms)
    write = msgspec.structs.replace(applied, result_digest=given.result_digest)
    return Plan(write=write, settle=Settlement.ACK)


def reject(row: Row | None, given: Given, now_ms: int) -> Plan:
    assert row is not None
    assert isinstance(given, Finished)
    return _bury(row, now_ms, given.error)


def retry(row: Row | None, given: Given, now_ms: int) -> Plan:
    assert row is not None
    assert isinstance(given, Finished)
    if row.attempt >= given.terms.attempts_max:
        return _give_up(row, given.terms, now_ms, given.error)
    waiting = _to(row, State.RETRY_WAIT, now_ms, error=given.error)
    if given.outcome is Outcome.NOT_APPLIED or row.state is State.CLAIMED:
        waiting = _without_this_attempt(waiting)
    waiting = msgspec.structs.replace(waiting, due_ms=now_ms + given.retry_ms)
    if given.retry_ms > given.terms.parked_over_ms:
        return Plan(write=waiting, publish=(Notice.PARK,), settle=Settlement.ACK, note=given.error)
    return Plan(write=waiting, settle=Settlement.LATER, delay_ms=given.retry_ms, note=given.error)


def unknown(row: Row | None, given: Given, now_ms: int) -> Plan:
    """The handler failed and cannot say whether it happened."""
    assert row is not None
    assert isinstance(given, Finished)
    due_ms = now_ms + given.retry_ms
    known = row.effect is Effect.KEYED and due_ms < row.sink_until_ms
    if row.effect is Effect.IDEMPOTENT or known:
        return retry(row, given, now_ms)
    if given.terms.verifiable:
        # What was sent may still land after the handler gave up, and a checker that looked too
        # soon would not see it. So the lease ends here, and the checker's turn comes behind the
        # quarantine.
        ended = msgspec.structs.replace(
            row, lease_until_ms=now_ms, changed_ms=now_ms, error=given.error[:NOTE_CHARS_MAX]
        )
        delay_ms = max(1, row.quarantine_until_ms - now_ms)
        return Plan(write=ended, settle=Settlement.LATER, delay_ms=delay_ms, note=given.error)
    return _doubt(row, now_ms, given.error)


def verified_undone(row: Row | None, given: Given, now_ms: int) -> Plan:
    """The checker says that it did not happen: run again, unless that was tried often enough."""
    assert row is not None
    assert isinstance(given, Verified)
    if row.attempt >= given.start.terms.attempts_max:
        error = f"{row.attempt} attempts, and none of them had an effect"
        return _give_up(row, given.start.terms, now_ms, error)
    return start(row, given, now_ms)


def verified_nothing(row: Row | None, given: Given, now_ms: int) -> Plan:
    """The checker cannot say either."""
    assert row is not None
    assert isinstance(given, Verified)
    return _doubt(row, now_ms, given.error or f"attempt {row.attempt}: its checker cannot say")


def verified_done(row: Row | None, given: Given, now_ms: int) -> Plan:
    assert row is not None
    return Plan(write=_to(row, State.APPLIED, now_ms, actor=CHECKER), settle=Settlement.ACK)


def rule_applied(row: Row | None, given: Given, now_ms: int) -> Plan:
    assert row is not None
    assert isinstance(given, Answered)
    applied = _to(row, State.APPLIED, now_ms, error=row.error, actor=given.actor)
    return Plan(write=applied, settle=Settlement.ACK)


def silent(row: Row | None, given: Given, now_ms: int) -> Plan:
    return Plan(settle=Settlement.SILENT)


def not_its_event(row: Row | None, given: Given, now_ms: int) -> Plan:
    return Plan(settle=Settlement.ACK, note="the answer came with other bytes than the row's")


def moot(row: Row | None, given: Given, now_ms: int) -> Plan:
    """An answer that its row no longer waits for: it has done its work, or was overtaken."""
    return Plan(settle=Settlement.ACK, note="the row no longer waits for this answer")
