"""Proves what a declared replay window testifies to."""

import pytest

from fencepost_policies.schemes.integer import Integer
from fencepost_policies.schemes.opaque import Opaque
from fencepost_policies.schemes.scheme import Scheme
from fencepost_policies.witness import Opening
from fencepost_policies.witnesses.window import WindowWitness
from fencepost_schemas.cursor import Cursor, Position
from fencepost_schemas.evidence import Facet, Fact, Finding
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Frame
from fencepost_schemas.standing import Standing

COVERS = (Finding.PROVES, Reason.WINDOW_COVERS)
EXCEEDED = (Finding.CONTRADICTS, Reason.WINDOW_EXCEEDED)
ABSENT = (Finding.SILENT, Reason.WINDOW_ABSENT)
INTEGER, OPAQUE = Integer(), Opaque()


def heard(
    position: Position | None, scheme: Scheme, floor: str | None, header: str = "X-Floor"
) -> Fact:
    cursor = Cursor("crm", "0001-aaaaaaaa", Standing.GENESIS, "l", "o", position=position)
    headers = {} if floor is None else {"x-floor": floor}
    witness = WindowWitness(cursor, scheme, header=header)
    (fact,) = witness.opened(Opening(200, headers, asked="5"))
    assert list(witness.arrived(Frame(data="{}", last_event_id="6", id_seen=True))) == []
    return fact


@pytest.mark.parametrize(
    ("position", "scheme", "floor", "expected"),
    [
        (Position("4118"), INTEGER, "1", COVERS),
        (Position("4118"), INTEGER, "4118", COVERS),
        (Position("4118"), INTEGER, "4119", COVERS),
        (Position("4118"), INTEGER, "4120", EXCEEDED),
        (Position("4118"), INTEGER, "99999", EXCEEDED),
        (Position("4118"), INTEGER, None, ABSENT),
        (Position("4118"), INTEGER, "", ABSENT),
        (Position("4118"), INTEGER, "all", ABSENT),
        (Position("4118"), INTEGER, " 1", ABSENT),
        (Position("x"), INTEGER, "1", ABSENT),
        (Position(""), INTEGER, "1", ABSENT),
        (None, INTEGER, "1", ABSENT),
        (Position("a"), OPAQUE, "a", COVERS),
        (Position("a"), OPAQUE, "b", ABSENT),
        (Position("4118"), OPAQUE, "1", ABSENT),
    ],
)
def test_the_floor_of_the_window(
    position: Position | None, scheme: Scheme, floor: str | None, expected: tuple[Finding, Reason]
) -> None:
    """A floor up to the next id proves, one above it contradicts; an unreadable one is silent."""
    fact = heard(position, scheme, floor)
    assert expected == (fact.finding, fact.reason)


def test_a_header_that_the_dialect_does_not_name_is_not_read() -> None:
    """A dialect without a window never hears one."""
    fact = heard(Position("4118"), INTEGER, "1", header="")
    expected = (Finding.SILENT, Reason.WINDOW_ABSENT)
    assert expected == (fact.finding, fact.reason)


def test_a_fact_speaks_of_completeness_and_shows_the_floor() -> None:
    """People read in the record what was asked for and what was still there."""
    expected = Fact(
        Facet.COMPLETENESS,
        Finding.CONTRADICTS,
        "window",
        Reason.WINDOW_EXCEEDED,
        "all after 4118",
        "from 5000",
    )
    assert expected == heard(Position("4118"), INTEGER, "5000")
