"""The move for a key that is known in other words: a reconciler and the source tell the same work.

What a reconciler fetches elsewhere reads otherwise than what the stream brings, so the bytes cannot
be compared. Whoever came first is applied, and the other is settled with it, or waits for it (`waits`).
"""

from fencepost_policies.plan import Arrived, Given, Notice, Plan, Settlement
from fencepost_schemas.row import Row


def bury_beside(row: Row | None, given: Given, now_ms: int) -> Plan:
    """What a reconciler told was rejected: what the source tells is not lost with it."""
    assert row is not None
    assert isinstance(given, Arrived)
    if row.gap and not given.gap:
        return Plan(publish=(Notice.BURY,), settle=Settlement.ACK)
    return Plan(settle=Settlement.ACK, note="already decided")
