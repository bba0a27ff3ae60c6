"""Proves what the order of ids testifies to, at the first event and in mid-stream."""

import pytest

from fencepost_policies.schemes.integer import Integer
from fencepost_policies.schemes.opaque import Opaque
from fencepost_policies.schemes.scheme import Scheme
from fencepost_policies.witness import Opening
from fencepost_policies.witnesses.order import OrderWitness
from fencepost_schemas.cursor import Cursor, Position
from fencepost_schemas.evidence import Facet, Fact, Finding
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Frame
from fencepost_schemas.standing import Standing

AFTER = (Finding.PROVES, Reason.ORDER_AFTER)
NOT_AFTER = (Finding.CONTRADICTS, Reason.ORDER_NOT_AFTER)
UNKNOWN = (Finding.SILENT, Reason.ORDER_UNKNOWN)
MISSING = (Finding.SILENT, Reason.POSITION_MISSING)
TAIL = (Finding.SILENT, Reason.TAIL_WITHOUT_ID)
Word = tuple[Finding, Reason]
INTEGER, OPAQUE = Integer(), Opaque()


def frame(event_id: str | None, data: str | None = "{}") -> Frame:
    return Frame(data=data, last_event_id=event_id or "", id_seen=event_id is not None)


def heard(position: Position | None, scheme: Scheme, *frames: Frame) -> list[Fact]:
    cursor = Cursor("crm", "0001-aaaaaaaa", Standing.GENESIS, "l", "o", position=position)
    witness = OrderWitness(cursor, scheme)
    facts = list(witness.opened(Opening(200, {}, asked="5")))
    for each in frames:
        facts += witness.arrived(each)
    return facts


def words(facts: list[Fact]) -> list[Word]:
    return [(fact.finding, fact.reason) for fact in facts]


@pytest.mark.parametrize(
    ("position", "ids", "expected"),
    [
        (Position("4118"), ["4119"], [AFTER]),
        (Position("4118"), ["9999"], [AFTER]),
        (Position("9"), ["10"], [AFTER]),
        (Position("4118"), ["4118"], [NOT_AFTER]),
        (Position("4118"), ["13"], [NOT_AFTER]),
        (Position("4118"), ["x"], [UNKNOWN]),
        (Position("x"), ["4119"], [UNKNOWN]),
        (Position("4118", 1), ["4119"], [TAIL]),
        (Position("4118", 1), ["13"], [NOT_AFTER]),
        (Position("4118", 1), ["x"], [UNKNOWN]),
        (Position(""), ["1"], [MISSING]),
        (Position("", 3), ["1"], [MISSING]),
        (None, ["1"], [MISSING]),
        (Position("4118"), [], []),
        (Position("4118"), [None], []),
        (Position("4118"), [""], []),
        (Position("4118"), [None, "4119"], [AFTER]),
        (Position("4118"), [None, "13"], [NOT_AFTER]),
        # in mid-stream
        (Position("4118"), ["4119", "4120", "5000"], [AFTER]),
        (Position("4118"), ["4119", None, "4120"], [AFTER]),
        (Position("4118"), ["4119", "4119"], [AFTER]),
        (Position("4118"), ["4119", None, "4119"], [AFTER, NOT_AFTER]),
        (Position("4118"), ["4119", "0004119"], [AFTER, NOT_AFTER]),
        (Position("4118"), ["4120", "4119"], [AFTER, NOT_AFTER]),
        (Position("4118"), ["4119", "1", "2"], [AFTER, NOT_AFTER]),
        (Position("4118"), ["4119", "", "4119"], [AFTER, NOT_AFTER]),
        (Position("4118"), ["4119", "x"], [AFTER]),
        (None, ["1", "2"], [MISSING]),
        (None, ["2", "1"], [MISSING, NOT_AFTER]),
        (None, ["1", "1"], [MISSING]),
        (None, [None, None], [MISSING]),
    ],
)
def test_the_order_of_numbers(
    position: Position | None, ids: list[str | None], expected: list[Word]
) -> None:
    """Greater proves, less or equal contradicts; nothing asked for or no order is silent."""
    assert expected == words(heard(position, INTEGER, *map(frame, ids)))


def test_an_id_without_an_order_does_not_hide_a_regression() -> None:
    """A counter that starts again behind one foreign id has still started again."""
    facts = heard(Position("8"), INTEGER, frame("9"), frame("x"), frame("3"))
    assert NOT_AFTER in words(facts)


@pytest.mark.parametrize(
    ("position", "ids", "expected"),
    [
        (Position("a"), ["b"], [UNKNOWN]),
        (Position("a"), ["a"], [NOT_AFTER]),
        (Position("a"), ["b", "b", "c"], [UNKNOWN]),
        (Position("a", 2), ["b"], [UNKNOWN]),
        (None, ["a", "a"], [MISSING]),
    ],
)
def test_opaque_ids_prove_nothing(
    position: Position | None, ids: list[str | None], expected: list[Word]
) -> None:
    """Where ids have no order, no sequence of them proves a position."""
    assert expected == words(heard(position, OPAQUE, *map(frame, ids)))


def test_a_frame_that_dispatches_nothing_is_no_testimony() -> None:
    """A block that only moves the cursor shows no event: a server may prime with any id."""
    assert heard(Position("5"), INTEGER, frame("1", None), frame("6", None)) == []


def test_a_fact_speaks_of_position_and_shows_both_ids() -> None:
    """People read the two ids in the record."""
    (fact,) = heard(Position("4118"), INTEGER, frame("13"))
    expected = Fact(
        Facet.POSITION,
        Finding.CONTRADICTS,
        "order",
        Reason.ORDER_NOT_AFTER,
        "after 4118",
        "13",
    )
    assert expected == fact
