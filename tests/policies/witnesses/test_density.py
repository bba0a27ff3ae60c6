"""Proves what ids without holes testify to: how much is missing, at the seam and in mid-stream."""

import pytest

from fencepost_policies.judge import judge
from fencepost_policies.lineage import turn
from fencepost_policies.schemes.named import SCHEMES
from fencepost_policies.witness import Opening
from fencepost_policies.witnesses.density import DensityWitness
from fencepost_schemas.cursor import Cursor, Position
from fencepost_schemas.evidence import Evidence, Facet, Fact, Finding
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Frame
from fencepost_schemas.standing import Standing

NEXT = (Finding.PROVES, Reason.DENSE_NEXT, 0)
SAME = Fact(Facet.IDENTITY, Finding.PROVES, "generation", Reason.GENERATION_EQUAL)
AFTER = Fact(Facet.POSITION, Finding.PROVES, "order", Reason.ORDER_AFTER)


def hole(missing: int) -> tuple[Finding, Reason, int]:
    return Finding.CONTRADICTS, Reason.DENSE_HOLE, missing


def at(position: Position | None) -> Cursor:
    return Cursor("crm", "0001-aaaaaaaa", Standing.GENESIS, "l", "o", position=position)


def heard(position: Position | None, scheme: str, *ids: str | None) -> list[Fact]:
    witness = DensityWitness(at(position), SCHEMES[scheme])
    facts = list(witness.opened(Opening(200, {}, asked="5")))
    for each in ids:
        frame = Frame(data="{}", last_event_id=each or "", id_seen=each is not None)
        facts += witness.arrived(frame)
    return facts


@pytest.mark.parametrize(
    ("scheme", "position", "ids", "expected"),
    [
        ("integer-dense", Position("5"), ["6"], [NEXT]),
        ("integer-dense", Position("5"), ["6", "7", "8"], [NEXT]),
        ("integer-dense", Position("5"), ["9"], [hole(3)]),
        ("integer-dense", Position("5"), ["6", "7", "10", "11"], [NEXT, hole(2)]),
        ("integer-dense", Position("5"), ["7", "9"], [hole(1), hole(1)]),
        ("integer-dense", Position("5"), [None, "6"], [NEXT]),
        ("integer-dense", Position("5"), ["6", None, "8"], [NEXT, hole(1)]),
        ("integer-dense", Position("5"), ["x", "6"], [NEXT]),
        ("integer-dense", Position("5"), ["3", "4", "7"], [hole(2)]),
        ("integer-dense", Position("5"), ["5"], []),
        ("integer-dense", Position("5"), ["5", "6", "8"], [NEXT, hole(1)]),
        ("integer-dense", Position("5", 2), ["6"], []),
        ("integer-dense", Position("5", 2), ["8"], [hole(2)]),
        ("integer-dense", Position(""), ["6", "8"], [hole(1)]),
        ("integer-dense", None, ["6", "7"], []),
        ("integer", Position("5"), ["6", "9"], []),
        ("time-tag", Position("10:0"), ["10:1", "11:0"], [NEXT]),
        ("time-tag", Position("10:0"), ["10:3"], [hole(2)]),
        ("time-tag", Position("10:0"), ["11:0", "11:1"], []),
        ("time-tag", Position("10:0"), ["11:2"], [hole(0)]),
        ("opaque", Position("5"), ["6", "9"], []),
    ],
)
def test_holes(
    scheme: str,
    position: Position | None,
    ids: list[str | None],
    expected: list[tuple[Finding, Reason, int]],
) -> None:
    """The next one proves once; each hole is told with its size, where that is exact.

    A proof at the seam is never made of what came later, nor of a tail whose events had no ids.
    """
    facts = heard(position, scheme, *ids)
    assert expected == [(fact.finding, fact.reason, fact.missing) for fact in facts]
    assert {fact.facet for fact in facts} <= {Facet.COMPLETENESS}


def test_a_hole_gives_the_gap_its_size() -> None:
    """In a proven generation it is reoriginated, with an exact gap that says how much it holds."""
    cursor = at(Position("5"))
    facts = heard(Position("5"), "integer-dense", "9")
    verdict = judge(Evidence(cursor, False, (SAME, AFTER, *facts)))
    assert (Standing.REORIGINATED, (Reason.DENSE_HOLE,)) == (verdict.kind, verdict.reasons)
    first = Frame(data="{}", last_event_id="9", id_seen=True)
    gap = turn(cursor, verdict, first, "k7f2abcd", None).gap
    assert gap is not None
    expected = ("5", "9", True, 3)
    assert expected == (gap.after_position, gap.before_position, gap.exact, gap.missing)


def test_a_hole_in_a_generation_that_nobody_proved_has_no_size() -> None:
    """Ids of another log may have any distance from ours."""
    cursor = at(Position("5"))
    verdict = judge(Evidence(cursor, False, (AFTER, *heard(Position("5"), "integer-dense", "9"))))
    assert verdict.kind is Standing.UNVERIFIABLE
    first = Frame(data="{}", last_event_id="9", id_seen=True)
    gap = turn(cursor, verdict, first, "k7f2abcd", None).gap
    assert gap is not None
    assert (False, 0) == (gap.exact, gap.missing)
