"""Whether it is proven that events are gone before any event has come.

A generation begins with an event, and so does its verdict's record. A source may be quiet for hours
behind a break, and headers, a status or a comment of it may have proven at once that what we asked
for is gone. Somebody wants to know that before the next event comes.
"""

import msgspec

from fencepost_policies.judge import judge
from fencepost_policies.witness import contradiction
from fencepost_schemas.cursor import Cursor, KnownLoss
from fencepost_schemas.evidence import Evidence, Facet, Fact, Finding
from fencepost_schemas.reason import Reason
from fencepost_schemas.verdict import EpochRecord, Gap

NOTHING_LOST_YET = frozenset(
    {Reason.NO_RESUMPTION, Reason.REBASELINED, Reason.SNAPSHOT_SENT, Reason.POSITION_WITHHELD}
)
"""Why a connection is another stream each time, though nothing shows that it lost anything."""

WHATEVER_WAS_ASKED = frozenset(
    {
        Reason.GENERATION_CHANGED,
        Reason.GENERATION_BEGUN,
        Reason.UPTIME_WENT_BACK,
        Reason.SESSION_CHANGED,
    }
)
"""What a source says of itself. Anything else may be its answer to one of several positions, where
the answer to the next one may be better."""


def loss_proven(evidence: Evidence, now_ms: int, *, last_chance: bool = True) -> KnownLoss | None:
    """Return what is proven to be gone by what was said so far, None where nothing is.

    What contradicts a resume is never taken back by what the same connection says later, so the
    judge will not call it resumed. Without a `last_chance` the source is asked another way next.
    """
    cursor = evidence.requested
    if cursor is None or cursor.position is None or evidence.genesis or cursor.rebaselined:
        return None
    against = [fact for fact in evidence.facts if _tells_of_a_loss(fact, last_chance=last_chance)]
    if not against:
        return None
    reasons = tuple(dict.fromkeys(fact.reason for fact in against))
    return KnownLoss(reasons, now_ms, _missing(evidence))


def _tells_of_a_loss(fact: Fact, *, last_chance: bool) -> bool:
    if fact.finding is not Finding.CONTRADICTS or fact.reason in NOTHING_LOST_YET:
        return False
    return last_chance or fact.reason in WHATEVER_WAS_ASKED


def _missing(evidence: Evidence) -> int:
    """Return how many events are gone at least; 0 where nothing says that ids mean the same."""
    facts = evidence.facts
    same = any(
        fact.facet is Facet.IDENTITY and fact.finding is Finding.PROVES for fact in facts
    ) and not contradiction(facts)
    return max((fact.missing for fact in facts), default=0) if same else 0


def grown(known: KnownLoss | None, loss: KnownLoss) -> KnownLoss | None:
    """Return what is to be written down now; None where nothing new is said.

    Each reason is written down once for one loss. So connections that come and go, and say one
    thing and then another, cause no more writes than there are reasons.
    """
    if known is None:
        return loss
    added = tuple(reason for reason in loss.reasons if reason not in known.reasons)
    if not added:
        return None
    return msgspec.structs.replace(
        known, reasons=known.reasons + added, missing=max(known.missing, loss.missing)
    )


def early_record(cursor: Cursor, evidence: Evidence, bridge: str, at_ms: int) -> EpochRecord:
    """Return the record of a loss whose end is not known: everything behind what we have.

    Its gap is the same whatever was said, so that one loss is one piece of work for a reconciler.
    """
    return EpochRecord(
        source=cursor.source,
        generation=cursor.generation,
        parent=cursor.generation,
        verdict=judge(evidence),
        standing=cursor.standing,
        gap=Gap(
            after_generation=cursor.generation,
            after_position=str(cursor.position) if cursor.position is not None else "",
            before_generation="",
            before_position="",
        ),
        ledger=cursor.ledger,
        bridge=bridge,
        at_ms=at_ms,
        early=True,
    )
