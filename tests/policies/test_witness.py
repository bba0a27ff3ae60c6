"""Proves when a hearing has heard enough, and that it keeps what was said, in order."""

import pytest

from fencepost_policies.dialects.plain import Dialect
from fencepost_policies.witness import Opening, contradiction
from fencepost_schemas.cursor import Cursor, Position
from fencepost_schemas.evidence import Facet, Fact, Finding
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Frame
from fencepost_schemas.standing import Standing

DIALECT = Dialect(
    scheme="integer", generation_header="x-epoch", window_header="x-floor", reset_events=("reset",)
)
AT_5 = Cursor("crm", "0001-aaaaaaaa", Standing.GENESIS, "l", "o", position=Position("5"), token="a")
FRESH = Cursor("crm", "0001-aaaaaaaa", Standing.GENESIS, "l", "o", fresh=True)
GOOD = {"x-epoch": "a", "x-floor": "1"}


def event(event_id: str | None, kind: str = "message") -> Frame:
    return Frame(event=kind, data="{}", last_event_id=event_id or "", id_seen=event_id is not None)


PRIMING = Frame(data=None, last_event_id="6", id_seen=True)
COMMENT = Frame(comments=(" ping",))


@pytest.mark.parametrize(
    ("cursor", "headers", "frames", "expected"),
    [
        (AT_5, GOOD, [], False),
        (AT_5, GOOD, [PRIMING, COMMENT], False),
        (AT_5, GOOD, [event(None)], False),
        (AT_5, GOOD, [event(None), event("6")], True),
        (AT_5, GOOD, [event("6")], True),
        (AT_5, GOOD, [event("4")], True),
        (AT_5, GOOD, [event("x")], True),
        (AT_5, {}, [event("6")], True),
        (AT_5, {}, [event(None)], False),
        (AT_5, {"x-epoch": "b"}, [], False),
        (AT_5, {"x-epoch": "b"}, [event(None)], True),
        (AT_5, GOOD, [event(None, "reset")], True),
        (AT_5, {"x-epoch": "a", "x-floor": "99"}, [event(None)], False),
        (FRESH, {}, [], False),
        (FRESH, {}, [PRIMING], False),
        (FRESH, {}, [event(None)], True),
        (None, {}, [], False),
        (None, {}, [event(None)], True),
    ],
)
def test_a_hearing_is_ready_when_waiting_cannot_help(
    cursor: Cursor | None, headers: dict[str, str], frames: list[Frame], expected: bool
) -> None:
    """It takes an event, and then a contradiction, a word on the position, or no past at all."""
    heard = DIALECT.hearing(cursor)
    heard.opened(Opening(200, headers, asked="5"))
    for frame in frames:
        heard.arrived(frame)
    assert expected is heard.ready()


def test_a_cursor_without_a_position_does_not_wait_for_one() -> None:
    """Nothing was asked for, so the first event settles that nothing will be proven."""
    heard = DIALECT.hearing(
        Cursor("crm", "0001-aaaaaaaa", Standing.GENESIS, "l", "o", position=None)
    )
    heard.opened(Opening(200, GOOD))
    heard.arrived(event(None))
    assert heard.ready()


def test_the_facts_are_kept_in_the_order_in_which_they_were_stated() -> None:
    """The record tells the connection's story, and each call returns its own part of it."""
    heard = DIALECT.hearing(AT_5)
    at_opening = heard.opened(Opening(200, GOOD, asked="5"))
    at_first = heard.arrived(event("6"))
    at_second = heard.arrived(event("3"))
    assert [Reason.GENERATION_EQUAL, Reason.WINDOW_COVERS] == [fact.reason for fact in at_opening]
    assert [Reason.ORDER_AFTER] == [fact.reason for fact in at_first]
    assert [Reason.ORDER_NOT_AFTER] == [fact.reason for fact in at_second]
    assert (*at_opening, *at_first, *at_second) == heard.evidence().facts


@pytest.mark.parametrize(
    ("cursor", "genesis"), [(None, False), (AT_5, False), (FRESH, True)], ids=["none", "at", "new"]
)
def test_the_evidence_names_the_cursor_and_whether_it_is_fresh(
    cursor: Cursor | None, genesis: bool
) -> None:
    """A missing cursor is never taken for a beginning."""
    evidence = DIALECT.hearing(cursor).evidence()
    assert cursor is evidence.requested
    assert genesis is evidence.genesis


def test_only_events_are_counted() -> None:
    """Comments and blocks that dispatch nothing are no events."""
    heard = DIALECT.hearing(AT_5)
    for frame in (COMMENT, PRIMING, event("6"), event(None)):
        heard.arrived(frame)
    expected = 2
    assert expected == heard.events


@pytest.mark.parametrize("facet", Facet)
@pytest.mark.parametrize("finding", Finding)
def test_a_contradiction_is_of_identity_or_position(facet: Facet, finding: Finding) -> None:
    """A loss in an otherwise proven stream is no contradiction of the stream itself."""
    fact = Fact(facet, finding, "w", Reason.NOTHING_SHOWN)
    expected = finding is Finding.CONTRADICTS and facet is not Facet.COMPLETENESS
    assert expected is contradiction([fact])
    assert contradiction([]) is False
