"""What a verdict's record says of gaps, and the work that each is."""

import msgspec

from fencepost_policies.disposition import Action, dispose
from fencepost_policies.gaps import GAP, gap_event, gaps_in
from fencepost_policies.keys import key_for
from fencepost_schemas.event import event_of, headers_of
from fencepost_schemas.question import Ruling
from fencepost_schemas.row import Effect
from fencepost_schemas.standing import Standing
from fencepost_schemas.verdict import EpochRecord, Gap, Verdict, gap_id

FIRST, SECOND = "0001-aaaaaaaa", "0002-bbbbbbbb"
SEAM = Gap(FIRST, "5", SECOND, "9")
JOIN = Gap(FIRST, "2", FIRST, "4", exact=True)


def record(gap: Gap | None = SEAM, join_gap: Gap | None = None) -> EpochRecord:
    return EpochRecord(
        source="crm",
        generation=SECOND,
        parent=FIRST,
        verdict=Verdict(Standing.UNVERIFIABLE, ()),
        standing=Standing.UNVERIFIABLE,
        gap=gap,
        ledger="l",
        bridge="b",
        at_ms=1,
        join_gap=join_gap,
    )


def test_both_gaps_of_a_record_are_found() -> None:
    assert [SEAM, JOIN] == gaps_in(record(join_gap=JOIN))
    assert [JOIN] == gaps_in(record(None, JOIN))
    assert [] == gaps_in(record(None))


def test_nothing_is_fetched_where_nothing_can_be_missing() -> None:
    assert [] == gaps_in(record(msgspec.structs.replace(SEAM, empty=True)))


def test_a_gap_is_an_event_that_carries_itself() -> None:
    """Its row is found by the gap's id, in the namespace of its source."""
    event = gap_event(record(), SEAM, "then")
    carried = event_of(headers_of(event), event.payload)
    assert SEAM == msgspec.json.decode(carried.payload, type=Gap)
    key = key_for(carried, tainted=False, generation=SECOND, own=carried.key)
    assert (f"k:{gap_id('crm', SEAM)}", True) == (key.text, key.usable)
    assert ("crm", "crm", GAP) == (carried.source, carried.namespace, carried.type)


def test_a_gap_is_not_in_doubt_with_the_generation_behind_it() -> None:
    """Whatever is ruled on that one: its own events are another matter."""
    event = gap_event(record(), SEAM, "then")
    for ruling in (None, *Ruling):
        assert Action.RUN is dispose(event.standing, ruling, usable=True, effect=Effect.IDEMPOTENT)
