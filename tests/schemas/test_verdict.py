"""Proves that the record of a verdict survives its bytes, with every fact that was heard."""

import msgspec

from fencepost_schemas.evidence import Facet, Fact, Finding
from fencepost_schemas.reason import Reason
from fencepost_schemas.standing import Standing
from fencepost_schemas.verdict import EpochRecord, Gap, Verdict, gap_id


def test_an_epoch_record_comes_back_from_its_bytes() -> None:
    """Verdict, facts, reasons and gap are what they were when they were written."""
    fact = Fact(
        Facet.COMPLETENESS, Finding.CONTRADICTS, "window", Reason.WINDOW_EXCEEDED, "all", "from 9"
    )
    record = EpochRecord(
        source="crm",
        generation="0002-aaaaaaaa",
        parent="0001-aaaaaaaa",
        verdict=Verdict(Standing.REORIGINATED, (Reason.WINDOW_EXCEEDED,), (fact,)),
        standing=Standing.REORIGINATED,
        gap=Gap("0001-aaaaaaaa", "5", "0002-aaaaaaaa", "9", exact=True),
        ledger="l",
        bridge="b",
        at_ms=1,
    )
    assert record == msgspec.json.decode(msgspec.json.encode(record), type=EpochRecord)


def test_a_gap_claims_nothing_by_default() -> None:
    """That a loss is bounded, or that there is none, must be said."""
    gap = Gap("0001-aaaaaaaa", "5", "0002-aaaaaaaa", "")
    assert (False, False) == (gap.exact, gap.empty)


def test_a_gap_has_one_id_whoever_reads_its_record() -> None:
    """It is a function of the source and of both ends, and of nothing that may be said later."""
    gap = Gap("0001-aaaaaaaa", "5", "0002-aaaaaaaa", "9")
    same = msgspec.json.decode(msgspec.json.encode(gap), type=Gap)
    exact = msgspec.structs.replace(gap, exact=True)
    assert gap_id("crm", gap) == gap_id("crm", same) == gap_id("crm", exact)
    others = [
        gap_id("erp", gap),
        gap_id("crm", msgspec.structs.replace(gap, after_position="6")),
        gap_id("crm", msgspec.structs.replace(gap, before_position="8")),
        gap_id("crm", msgspec.structs.replace(gap, after_generation="0001-bbbbbbbb")),
        gap_id("crm", msgspec.structs.replace(gap, before_generation="0002-bbbbbbbb")),
    ]
    assert 6 == len({gap_id("crm", gap), *others})
