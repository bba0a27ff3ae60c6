"""The moves for a key that is known in other words: a reconciler and the source tell the same work.

What a reconciler fetches elsewhere reads otherwise than what the stream brings, so the bytes cannot
be compared. Whoever came first is applied, and the other is settled with it.
"""

from fencepost_policies.plan import Arrived, Given, Notice, Plan, Settlement
from fencepost_schemas.row import Row

FIRST_AGAIN_MS = 1_000
"""Before another look at a row that somebody else's telling should have moved on by now."""


def wait_for_first(row: Row | None, given: Given, now_ms: int) -> Plan:
    """Another telling of this work is under way, and whoever brought that sees it through."""
    assert row is not None
    assert isinstance(given, Arrived)
    until_ms = max(row.lease_until_ms, row.due_ms, now_ms + FIRST_AGAIN_MS)
    delay_ms = min(until_ms - now_ms, given.start.terms.parked_over_ms)
    return Plan(settle=Settlement.LATER, delay_ms=max(1, delay_ms))


def bury_beside(row: Row | None, given: Given, now_ms: int) -> Plan:
    """What a reconciler told was rejected: what the source tells is not lost with it."""
    assert row is not None
    assert isinstance(given, Arrived)
    if row.gap and not given.gap:
        return Plan(publish=(Notice.BURY,), settle=Settlement.ACK)
    return Plan(settle=Settlement.ACK, note="already decided")
