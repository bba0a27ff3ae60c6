"""Proves when a hearing has heard enough, and that it keeps what was said, in order."""

import pytest

from fencepost_policies.dialects.plain import Dialect
from fencepost_policies.judge import judge
from fencepost_policies.witness import Hearing, Opening, contradiction
from fencepost_schemas.cursor import Cursor, Position
from fencepost_schemas.evidence import Evidence, Facet, Fact, Finding
from fencepost_schemas.limits import FACT_CHARS_MAX, FACTS_MAX
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


NEWS = Dialect(
    scheme="integer-dense",
    generation_header="x-epoch",
    control_events=("hello",),
    generation_control="/epoch",
    reset_comments=("gone",),
    overlap="off",
)


def judged() -> Hearing:
    """Return the hearing of a connection that was resumed, at its first event."""
    heard = NEWS.hearing(AT_5)
    heard.opened(Opening(200, {"x-epoch": "a"}, asked="5"))
    facts = heard.arrived(event("6"))
    assert judge(heard.evidence()).kind is Standing.RESUMED
    assert heard.reopened(facts, AT_5, event=True) is None
    return heard


def reopened(heard: Hearing, frame: Frame) -> Evidence | None:
    if frame.data is None or NEWS.counts(frame):
        return heard.reopened(heard.arrived(frame), AT_5, event=frame.data is not None)
    return heard.reopened(heard.noticed(frame), AT_5, event=False)


def test_a_greeting_is_no_event() -> None:
    """It is heard by those to whom it says something, and is nothing that is owed or in order."""
    heard = NEWS.hearing(AT_5)
    heard.opened(Opening(200, {"x-epoch": "a"}, asked="5"))
    facts = heard.noticed(Frame("hello", '{"epoch":"b"}', "1", id_seen=True))
    assert [Reason.GENERATION_CHANGED] == [fact.reason for fact in facts]
    assert (0, False) == (heard.events, heard.ready())


def test_a_hole_in_mid_stream_is_judged_with_what_proved_the_identity() -> None:
    """It is still the same connection, so the loss is one in a proven generation."""
    heard = judged()
    assert reopened(heard, event("7")) is None
    evidence = reopened(heard, event("9"))
    assert evidence is not None
    verdict = judge(evidence)
    assert (Standing.REORIGINATED, (Reason.DENSE_HOLE,)) == (verdict.kind, verdict.reasons)
    assert not heard.unsettled


def test_a_reset_waits_for_the_event_that_a_generation_begins_with() -> None:
    """A comment has no place that a gap could end at; what it said is not forgotten until then."""
    heard = judged()
    assert reopened(heard, Frame(comments=("gone",))) is None
    assert reopened(heard, COMMENT) is None
    assert [Reason.RESET_COMMENT] == [fact.reason for fact in heard.unsettled]
    evidence = reopened(heard, event("7"))
    assert evidence is not None
    assert (Reason.RESET_COMMENT,) == judge(evidence).reasons
    assert not heard.unsettled


def test_a_greeting_in_mid_stream_turns_the_next_event() -> None:
    """The source names another generation before it brings anything of it."""
    heard = judged()
    assert reopened(heard, Frame("hello", '{"epoch":"b"}')) is None
    evidence = reopened(heard, event("7"))
    assert evidence is not None
    assert (Reason.GENERATION_CHANGED,) == judge(evidence).reasons


def test_a_repeat_is_not_published_again() -> None:
    """The flag is of the last frame alone."""
    heard = judged()
    repeats = []
    for frame in (event("7"), event("7"), COMMENT, event("8"), Frame("hello", "{}")):
        assert reopened(heard, frame) is None
        repeats.append(heard.repeat)
    assert [False, True, False, False, False] == repeats


def test_what_a_hearing_keeps_is_bounded() -> None:
    """A source may say the same for ever, and at any length."""
    heard = judged()
    for number in range(FACTS_MAX * 3):
        reopened(heard, Frame(comments=(f"gone {number} " + "x" * 10_000,)))
        heard.arrived(event("1" + "0" * 3_000))
    assert len(heard.facts) < FACTS_MAX + len(Reason)
    assert len(heard.unsettled) <= FACTS_MAX
    reopened(heard, Frame("hello", '{"epoch":"b"}'))
    assert Reason.GENERATION_CHANGED in {fact.reason for fact in heard.facts}
    shown = [len(fact.expected + fact.observed) for fact in heard.facts]
    assert max(shown) <= 2 * FACT_CHARS_MAX
