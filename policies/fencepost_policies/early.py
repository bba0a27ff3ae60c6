"""Whether it is proven that events are gone before any event has come.

A generation begins with an event, and so does its verdict's record. A source may be quiet for hours
behind a break, and headers, a status or a comment of it may have proven at once that what we asked
for is gone. Somebody wants to know that before the next event comes.
"""

from fencepost_policies.judge import judge
from fencepost_schemas.cursor import Cursor, KnownLoss
from fencepost_schemas.evidence import Evidence
from fencepost_schemas.reason import Reason
from fencepost_schemas.standing import Standing
from fencepost_schemas.verdict import EpochRecord, Gap, Verdict

NOTHING_LOST_YET = frozenset({Reason.NO_RESUMPTION, Reason.REBASELINED, Reason.SNAPSHOT_SENT})
"""Why a connection is another stream each time, though nothing shows that it lost anything."""


def loss_proven(evidence: Evidence, now_ms: int) -> KnownLoss | None:
    """Return what is proven to be gone by what was said so far, None where nothing is.

    It is what the judge would say of the same facts: another stream, for a reason that tells of a
    loss.
    """
    cursor = evidence.requested
    if cursor is None or cursor.position is None:
        return None
    verdict = judge(evidence)
    reasons = tuple(reason for reason in verdict.reasons if reason not in NOTHING_LOST_YET)
    if verdict.kind is not Standing.REORIGINATED or not reasons:
        return None
    return KnownLoss(reasons, now_ms, sum(fact.missing for fact in verdict.facts))


def is_news(cursor: Cursor, loss: KnownLoss) -> bool:
    """Return True unless the same is written down already."""
    known = cursor.loss
    return known is None or (known.reasons, known.missing) != (loss.reasons, loss.missing)


def early_record(cursor: Cursor, loss: KnownLoss, verdict: Verdict, bridge: str) -> EpochRecord:
    """Return the record of a loss whose end is not known: everything behind what we have."""
    return EpochRecord(
        source=cursor.source,
        generation=cursor.generation,
        parent=cursor.generation,
        verdict=verdict,
        standing=cursor.standing,
        gap=Gap(
            after_generation=cursor.generation,
            after_position=str(cursor.position) if cursor.position is not None else "",
            before_generation="",
            before_position="",
            missing=loss.missing,
        ),
        ledger=cursor.ledger,
        bridge=bridge,
        at_ms=loss.since_ms,
        early=True,
    )
