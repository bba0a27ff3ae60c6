"""Proves what the order of ids testifies to, at the first event and in mid-stream."""

import pytest

from fencepost_policies.overlap import digest_of
from fencepost_policies.schemes.integer import Integer
from fencepost_policies.schemes.named import SCHEMES
from fencepost_policies.schemes.opaque import Opaque
from fencepost_policies.schemes.scheme import Scheme
from fencepost_policies.witness import Opening
from fencepost_policies.witnesses.order import OrderWitness
from fencepost_schemas.cursor import Cursor, Mark, Position
from fencepost_schemas.evidence import Facet, Fact, Finding
from fencepost_schemas.limits import RECENT_IDS_MAX
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


REUSED = (Finding.CONTRADICTS, Reason.ID_REUSED)


@pytest.mark.parametrize(
    ("scheme", "frames", "expected", "repeats"),
    [
        ("integer", [frame("6"), frame("6")], [MISSING], [False, True]),
        ("integer", [frame("6"), frame("6", "x")], [MISSING, REUSED], [False, False]),
        ("integer", [frame("6"), frame("6"), frame("6")], [MISSING], [False, True, True]),
        ("integer", [frame("6"), frame("6"), frame("7")], [MISSING], [False, True, False]),
        ("integer", [frame("6"), frame(None), frame("6")], [MISSING, NOT_AFTER], [False] * 3),
        ("integer", [frame("6"), frame("5", "x")], [MISSING, NOT_AFTER], [False, False]),
        ("integer", [frame("6"), frame("7"), frame("6", "x")], [MISSING, NOT_AFTER], [False] * 3),
        ("integer", [frame("6"), frame("06")], [MISSING, NOT_AFTER], [False, False]),
        ("opaque", [frame("a"), frame("a")], [MISSING], [False, False]),
        ("opaque", [frame("a"), frame("a", "x")], [MISSING], [False, False]),
        ("opaque", [frame("a"), frame("b"), frame("a")], [MISSING, NOT_AFTER], [False] * 3),
        ("opaque", [frame("a"), frame("b"), frame("a", "x")], [MISSING, REUSED], [False] * 3),
        ("timestamp", [frame("6"), frame("6", "x"), frame("6.0")], [MISSING], [False] * 3),
        ("timestamp", [frame("6"), frame("5")], [MISSING, NOT_AFTER], [False, False]),
        ("vector", [frame("a:1,b:2"), frame("a:2,b:1")], [MISSING, NOT_AFTER], [False, False]),
        ("vector", [frame("a:1"), frame("b:1"), frame("a:2")], [MISSING], [False] * 3),
        ("ms-seq", [frame("6-0"), frame("6-0")], [MISSING], [False, True]),
    ],
)
def test_the_same_id_again(
    scheme: str, frames: list[Frame], expected: list[Word], repeats: list[bool]
) -> None:
    """The very same event at once is a repeat. Other bytes under its id are another event in its
    place, and an id that comes back later is behind; where ids may be shared it is neither.
    """
    witness = OrderWitness(None, SCHEMES[scheme])
    facts: list[Fact] = []
    repeated: list[bool] = []
    for each in frames:
        facts += witness.arrived(each)
        repeated.append(witness.repeat)
    assert expected == words(facts)
    assert repeats == repeated


def test_two_writers_may_cross_within_a_second() -> None:
    """But an id that comes back is the same id, and one that is far behind is behind."""
    early, late = "0190000000000000", "0190000003e70000"
    ids = [f"{stamp[:8]}-{stamp[8:12]}-7000-8000-{tail:012x}"
           for stamp, tail in ((early, 1), (late, 2), (early, 3), (late, 2))]  # fmt: skip
    witness = OrderWitness(None, SCHEMES["uuidv7"])
    facts = [fact for each in ids[:3] for fact in witness.arrived(frame(each))]
    assert [MISSING] == words(facts)
    assert [NOT_AFTER] == words(list(witness.arrived(frame(ids[3]))))
    long_ago = "018f0000-0000-7000-8000-000000000000"
    assert [NOT_AFTER] == words(list(witness.arrived(frame(long_ago))))


EQUAL = (Finding.PROVES, Reason.RESUME_POINT_EQUAL)
RING = (Mark(Position("5"), digest_of(frame("5", '{"k":1,"at":9}'), ("/at",))),)


@pytest.mark.parametrize(
    ("ring", "first", "expected", "repeat"),
    [
        (RING, frame("5", '{"k":1,"at":12}'), [EQUAL], True),
        (RING, frame("5", '{"k":2,"at":9}'), [REUSED], False),
        ((), frame("5"), [TAIL], False),
        (RING, frame("6"), [AFTER], False),
        (RING, frame("4"), [NOT_AFTER], False),
    ],
)
def test_a_source_that_begins_with_what_it_is_asked_for(
    ring: tuple[Mark, ...], first: Frame, expected: list[Word], repeat: bool
) -> None:
    """It has to be the event that we have, but for what is volatile, and is not published again."""
    cursor = Cursor(
        "crm", "0001-aaaaaaaa", Standing.GENESIS, "l", "o", position=Position("5"), ring=ring
    )
    witness = OrderWitness(cursor, INTEGER, inclusive=True, volatile=("/at",))
    assert expected == words(list(witness.arrived(first)))
    assert repeat is witness.repeat
    assert list(witness.arrived(frame("7"))) == []
    assert not witness.repeat


def test_what_is_remembered_is_bounded() -> None:
    """In number, and each in length: ids and payloads of strangers are not kept."""
    witness = OrderWitness(None, OPAQUE)
    for number in range(RECENT_IDS_MAX + 10):
        list(witness.arrived(frame(f"{number}-" + "x" * 10_000, "y" * 10_000)))
    kept = witness._recent
    assert len(kept) == RECENT_IDS_MAX
    assert max(map(len, kept)) < 100
