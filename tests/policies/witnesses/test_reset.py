"""Proves that a source which says "I do not continue" is heard, however it says it."""

import pytest

from fencepost_policies.control import Control
from fencepost_policies.pattern import search_for
from fencepost_policies.witness import Opening
from fencepost_policies.witnesses.reset import REFUSALS, SHOWN_CHARS_MAX, ResetWitness
from fencepost_schemas.cursor import Cursor, Position
from fencepost_schemas.evidence import Facet, Finding
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Frame
from fencepost_schemas.standing import Standing


def witness(position: Position | None = None) -> ResetWitness:
    cursor = Cursor("crm", "0001-aaaaaaaa", Standing.GENESIS, "l", "o", position=position)
    return ResetWitness(cursor, events=frozenset({"reset"}))


@pytest.mark.parametrize("status", [200, 201, 204, 301, 400, 401, 403, 404, 405, 409, 410, 412, 416,
                                    429, 500, 502, 503])  # fmt: skip
@pytest.mark.parametrize("asked", ["", "4118"])
def test_a_refused_position_is_a_reset(status: int, asked: str) -> None:
    """Only in answer to a position, and only a status that speaks of it: 503 says nothing."""
    facts = list(witness().opened(Opening(status, {}, asked=asked)))
    expected = [Reason.RESET_STATUS] if asked and status in REFUSALS else []
    assert expected == [fact.reason for fact in facts]


def test_the_refusals_are_the_documented_ones() -> None:
    """A status that a busy server sends in passing must not cut a lineage."""
    expected = {400, 404, 409, 410, 412, 416}
    assert expected == REFUSALS


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (Frame(event="reset", data=""), [Reason.RESET_EVENT]),
        (Frame(event="reset", data="{}"), [Reason.RESET_EVENT]),
        (Frame(event="Reset", data=""), []),
        (Frame(event="message", data="reset"), []),
        (Frame(comments=(" reset",)), []),
    ],
)
def test_a_reset_event_is_a_reset(frame: Frame, expected: list[Reason]) -> None:
    """The event types that the dialect names, to the letter."""
    assert expected == [fact.reason for fact in witness(Position("5")).arrived(frame)]


def ids(*values: str | None) -> list[Frame]:
    return [
        Frame(data="{}", last_event_id=value or "", id_seen=value is not None) for value in values
    ]


@pytest.mark.parametrize(
    ("position", "frames", "expected"),
    [
        (Position("5"), ids(""), 1),
        (Position("5"), ids("6", ""), 1),
        (Position("5"), ids("", ""), 1),
        (Position("5"), ids("", "6", ""), 2),
        (Position("5"), ids(None, "6"), 0),
        (Position("5"), [Frame(data=None, last_event_id="", id_seen=True)], 1),
        (Position(""), ids(""), 0),
        (Position(""), ids("1", ""), 1),
        (None, ids(""), 0),
        (None, ids(None, None), 0),
        (None, ids("1", ""), 1),
    ],
)
def test_an_id_taken_back_is_a_reset(
    position: Position | None, frames: list[Frame], expected: int
) -> None:
    """An empty id after one means "forget it"; where there was none it means nothing."""
    heard = witness(position)
    reasons = [fact.reason for frame in frames for fact in heard.arrived(frame)]
    assert [Reason.RESET_EMPTY_ID] * expected == reasons


def test_a_reset_contradicts_identity() -> None:
    """Whatever the form, it is the strongest word there is, and no witness of anything else."""
    speaker = witness(Position("5"))
    facts = [
        *speaker.opened(Opening(410, {}, asked="5")),
        *speaker.arrived(Frame(event="reset", data="", last_event_id="", id_seen=True)),
    ]
    expected = {(Facet.IDENTITY, Finding.CONTRADICTS, "reset")}
    assert expected == {(fact.facet, fact.finding, fact.witness) for fact in facts}
    assert len(facts) == 3


def test_no_reset_is_no_testimony() -> None:
    """The absence of a discontinuity signal is not evidence of continuity."""
    speaker = witness(Position("5"))
    assert list(speaker.opened(Opening(200, {}, asked="5"))) == []
    assert [fact for frame in ids("6", "7", None) for fact in speaker.arrived(frame)] == []


def reasons(frame: Frame) -> list[Reason]:
    speaker = ResetWitness(
        None,
        comments=(search_for("^:?410:"), search_for("lagged")),
        codes=frozenset({"cursor_expired", "410"}),
        pointer="/object/code",
        coded=Control(("error", "message")),
    )
    return [fact.reason for fact in speaker.noticed(frame)]


@pytest.mark.parametrize(
    ("comments", "expected"),
    [
        ((":410: 410 Gone",), 1),
        (("410: 410 Gone",), 1),
        ((" 410: 410 Gone",), 0),
        (("you lagged 3 events",), 1),
        ((" ping", "lagged"), 1),
        (("x" * 10**6 + "lagged",), 0),
        ((), 0),
    ],
)
def test_a_reset_comment(comments: tuple[str, ...], expected: int) -> None:
    """Some servers say it nowhere else; only the beginning of a comment is looked at."""
    assert [Reason.RESET_COMMENT] * expected == reasons(Frame(comments=comments))


@pytest.mark.parametrize(
    ("event", "data", "expected"),
    [
        ("error", '{"object":{"code":"cursor_expired"}}', 1),
        ("error", '{"object":{"code":410}}', 1),
        ("error", '{"object":{"code":"rate_limited"}}', 0),
        ("task", '{"object":{"code":410}}', 0),
        ("error", '{"object":410}', 0),
        ("error", "410", 0),
        ("error", "", 0),
    ],
)
def test_a_reset_code(event: str, data: str, expected: int) -> None:
    """A text or a number, in the events that the dialect names."""
    assert [Reason.RESET_CODE] * expected == reasons(Frame(event=event, data=data))


def test_a_record_shows_little_of_a_comment() -> None:
    """It comes from a stranger."""
    speaker = ResetWitness(None, comments=(search_for("gone"),))
    (fact,) = speaker.noticed(Frame(comments=("gone" * 1_000,)))
    assert len(fact.observed) == SHOWN_CHARS_MAX
