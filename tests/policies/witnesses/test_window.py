"""Proves what a declared replay window testifies to."""

import pytest

from fencepost_policies.control import Control
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


def said(witness: WindowWitness, opening: Opening, *frames: Frame) -> list[tuple[Finding, Reason]]:
    facts = [*witness.opened(opening), *(f for frame in frames for f in witness.noticed(frame))]
    facts += witness.arrived(Frame(data="{}", last_event_id="6", id_seen=True))
    return [(fact.finding, fact.reason) for fact in facts]


AT_5 = Cursor("crm", "0001-aaaaaaaa", Standing.GENESIS, "l", "o", position=Position("5"))
ASKED = Opening(200, {}, asked="5")
HELLO = Control(("hello",))


@pytest.mark.parametrize(
    ("greetings", "expected"),
    [
        (['{"oldest":6}'], COVERS),
        (['{"oldest":7}'], EXCEEDED),
        (["{}", '{"oldest":"1"}', '{"oldest":9}'], COVERS),
        (['{"oldest":"all"}'], ABSENT),
        ([], ABSENT),
    ],
)
def test_the_floor_in_a_greeting(greetings: list[str], expected: tuple[Finding, Reason]) -> None:
    """The first one that names it; without any, the window is said to be absent at the event."""
    witness = WindowWitness(AT_5, INTEGER, control=HELLO, floor="/oldest")
    frames = [Frame(event="hello", data=data) for data in greetings]
    assert [expected] == said(witness, ASKED, *frames)


@pytest.mark.parametrize(
    ("newest", "expected"), [("5", COVERS), ("105", COVERS), ("106", EXCEEDED), ('"x"', ABSENT)]
)
def test_so_many_events(newest: str, expected: tuple[Finding, Reason]) -> None:
    """A hundred are held: with 105 as the newest, the oldest is 6, the very next one."""
    witness = WindowWitness(AT_5, INTEGER, control=HELLO, newest="/newest", count=100)
    assert [expected] == said(witness, ASKED, Frame(event="hello", data=f'{{"newest":{newest}}}'))


@pytest.mark.parametrize(
    ("away_s", "expected"),
    [
        (59.0, COVERS),
        (60.0, COVERS),
        (60.1, (Finding.SILENT, Reason.WINDOW_OUTLASTED)),
        (None, ABSENT),
    ],
)
def test_for_so_long(away_s: float | None, expected: tuple[Finding, Reason]) -> None:
    """Held for a minute: who was away for less has missed nothing; beyond, nobody knows."""
    witness = WindowWitness(AT_5, OPAQUE, age_s=60.0)
    assert [expected] == said(witness, Opening(200, {}, "5", away_s=away_s))


@pytest.mark.parametrize(("floor", "expected"), [("5", COVERS), ("6", EXCEEDED), ("1", COVERS)])
def test_what_is_asked_for_has_to_be_there(floor: str, expected: tuple[Finding, Reason]) -> None:
    """Where the source begins with the id that it is asked for, that one must be held, too."""
    witness = WindowWitness(AT_5, INTEGER, header="x-floor", inclusive=True)
    assert [expected] == said(witness, Opening(200, {"x-floor": floor}, "5"))
