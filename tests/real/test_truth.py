"""The comparison with a server's log bites: what is lost, twice, or in too wide a gap fails it."""

import pytest

from fencepost_schemas.event import ClassifiedEvent
from fencepost_schemas.reason import Reason
from fencepost_schemas.standing import Standing
from fencepost_schemas.verdict import EpochRecord, Gap, Verdict
from kit.pool import FIRST, SECOND, event
from real.truth import check

EMITTED = ["a", "b", "c", "d"]
BEFORE = [event("a", "1"), event("b", "2")]
BEHIND = event("d", "9", generation=SECOND)


def record(kind: Standing, gap: Gap | None = None) -> EpochRecord:
    return EpochRecord(
        source="orders",
        generation=SECOND,
        parent=FIRST,
        verdict=Verdict(kind, (Reason.OVERLAP_MISSED,)),
        standing=kind,
        gap=gap,
        ledger="l",
        bridge="b",
        at_ms=0,
    )


GAP = record(Standing.REORIGINATED, Gap(FIRST, "2", SECOND, "9"))
WIDE = record(Standing.REORIGINATED, Gap(FIRST, "1", SECOND, "9"))
OPEN = record(Standing.REORIGINATED, Gap(FIRST, "2", SECOND, ""))


@pytest.mark.parametrize("seam", [GAP, OPEN], ids=["to a position", "to where a generation begins"])
def test_a_gap_holds_what_was_missed(seam: EpochRecord) -> None:
    check(EMITTED, [*BEFORE, BEHIND], [seam])


def test_a_gap_may_end_at_a_word_on_the_stream_itself() -> None:
    """It has no key, and is none of the events that were emitted: what is behind it is not lost."""
    word = event(None, "9", generation=SECOND)
    events = [*BEFORE, word, event("d", "10", generation=SECOND)]
    check(EMITTED, events, [GAP])
    with pytest.raises(AssertionError):
        check(EMITTED, [*BEFORE, word], [record(Standing.RESUMED)])


@pytest.mark.parametrize(
    ("events", "seam"),
    [
        ([*BEFORE, BEHIND], record(Standing.RESUMED)),
        ([*BEFORE, BEHIND], WIDE),
        ([*BEFORE, BEHIND], record(Standing.UNVERIFIABLE)),
        ([*BEFORE, event("b", "3"), BEHIND], GAP),
        ([*BEFORE, event("x", "3"), BEHIND], GAP),
        ([BEFORE[1], BEHIND], GAP),
    ],
    ids=["lost", "a gap too wide", "no gap", "twice", "never emitted", "lost before the gap"],
)
def test_it_bites(events: list[ClassifiedEvent], seam: EpochRecord) -> None:
    with pytest.raises(AssertionError):
        check(EMITTED, events, [seam])
