"""The moves of the ledger that only wait: the event is asked for again later."""

from fencepost_policies.plan import (
    Answered,
    Arrived,
    Given,
    Notice,
    Plan,
    Settlement,
    Verified,
)
from fencepost_schemas.row import Row

FIRST_AGAIN_MS = 1_000
"""Before another look at a row that somebody else's telling should have moved on by now."""
CLOCK_AGAIN_MS = 1_000
"""Before another look at a row that cannot be judged yet, for want of a clock that has stood."""


def wait_for_lease(row: Row | None, given: Given, now_ms: int) -> Plan:
    """Wait for the lease's end; look again before that where it is further off than a lease lasts.

    Then the broker's clock was set back since the lease was written, and its owner writes it anew.
    """
    assert row is not None
    assert isinstance(given, Arrived | Answered | Verified)
    left_ms = min(row.lease_until_ms - now_ms, given.start.lease_ms)
    return Plan(settle=Settlement.LATER, delay_ms=max(1, left_ms))


def wait_until_due(row: Row | None, given: Given, now_ms: int) -> Plan:
    assert row is not None
    assert isinstance(given, Arrived | Answered)
    delay_ms = max(1, row.due_ms - now_ms)
    if delay_ms > given.start.terms.parked_over_ms:
        return Plan(publish=(Notice.PARK,), settle=Settlement.ACK)
    return Plan(settle=Settlement.LATER, delay_ms=delay_ms)


def wait_out_quarantine(row: Row | None, given: Given, now_ms: int) -> Plan:
    assert row is not None
    return Plan(settle=Settlement.LATER, delay_ms=max(1, row.quarantine_until_ms - now_ms))


def wait_for_first(row: Row | None, given: Given, now_ms: int) -> Plan:
    """Another telling of this work is under way, and whoever brought that sees it through."""
    assert row is not None
    assert isinstance(given, Arrived)
    until_ms = max(row.lease_until_ms, row.due_ms, now_ms + FIRST_AGAIN_MS)
    delay_ms = min(until_ms - now_ms, given.start.terms.parked_over_ms)
    return Plan(settle=Settlement.LATER, delay_ms=max(1, delay_ms))


def read_clock(row: Row | None, given: Given, now_ms: int) -> Plan:
    """Another worker's time seems to be over: ask the broker before that is concluded."""
    return Plan(read_clock=True)


def wait_for_clock(row: Row | None, given: Given, now_ms: int) -> Plan:
    """The clock was moved, or this worker has only begun to see it: look again soon."""
    return Plan(settle=Settlement.LATER, delay_ms=CLOCK_AGAIN_MS)
