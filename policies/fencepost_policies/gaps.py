"""Which gaps a verdict's record holds, and the work that each of them is for a reconciler."""

import msgspec

from fencepost_schemas.event import ClassifiedEvent, KeyScope, fingerprint_of
from fencepost_schemas.standing import Standing
from fencepost_schemas.verdict import EpochRecord, Gap, gap_id

GAP = "fencepost.gap"
"""The type of the event that a gap is to its reconciler. No handler takes it by type."""


def gaps_in(record: EpochRecord) -> list[Gap]:
    """Return what may be missing by this record: at its seam, and at the join before it."""
    return [gap for gap in (record.gap, record.join_gap) if gap is not None and not gap.empty]


def gap_event(record: EpochRecord, gap: Gap, time: str) -> ClassifiedEvent:
    """Return the gap as an event of its source, with the gap's id for a key.

    It is our own word, so nothing about it is in doubt, whatever the generation behind it.
    """
    payload = msgspec.json.encode(gap)
    return ClassifiedEvent(
        source=record.source,
        generation=record.generation,
        standing=Standing.GENESIS,
        verdict=record.verdict.kind,
        type=GAP,
        position=f"{gap.after_position}..{gap.before_position}",
        fingerprint=fingerprint_of(payload),
        time=time,
        payload=payload,
        key=gap_id(record.source, gap),
        key_scope=KeyScope.DURABLE,
        namespace=record.source,
        size=len(payload),
    )
