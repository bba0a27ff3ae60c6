"""Proves what a source's own word on where it goes on testifies to."""

import pytest

from fencepost_policies.control import Control
from fencepost_policies.schemes.named import SCHEMES
from fencepost_policies.witness import Opening
from fencepost_policies.witnesses.resume_point import ResumePointWitness
from fencepost_schemas.cursor import Cursor, Position
from fencepost_schemas.evidence import Facet, Fact, Finding
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Frame
from fencepost_schemas.standing import Standing

BOTH = {Facet.POSITION, Facet.COMPLETENESS}
PROVES, AGAINST, SILENT = Finding.PROVES, Finding.CONTRADICTS, Finding.SILENT


def heard(
    opening: Opening, *greetings: str, scheme: str = "integer", position: Position | None = None
) -> list[Fact]:
    cursor = Cursor(
        "crm",
        "0001-aaaaaaaa",
        Standing.GENESIS,
        "l",
        "o",
        position=position or Position(opening.asked),
    )
    witness = ResumePointWitness(
        cursor,
        SCHEMES[scheme],
        Control(("hello",)),
        echo="Mercure-Last-Event-ID",
        status="SSE-Stream-Status",
        point="/at",
        recovered="/recovered",
    )
    facts = list(witness.opened(opening))
    for greeting in greetings:
        facts += witness.noticed(Frame(event="hello", data=greeting))
    return [fact for fact in facts if fact.reason is not Reason.RESUME_POINT_UNCLEAR]


def words(facts: list[Fact]) -> set[tuple[Finding, Reason]]:
    return {(fact.finding, fact.reason) for fact in facts}


@pytest.mark.parametrize(
    ("echo", "expected"),
    [
        ("urn:a", (PROVES, Reason.RESUME_POINT_EQUAL)),
        ("urn:b", (AGAINST, Reason.RESUME_POINT_OTHER)),
        ("earliest", (AGAINST, Reason.RESUME_POINT_OTHER)),
        ("URN:A", (AGAINST, Reason.RESUME_POINT_OTHER)),
    ],
)
def test_an_echo(echo: str, expected: tuple[Finding, Reason]) -> None:
    """Equal to what was sent proves position and completeness; anything else contradicts."""
    facts = heard(Opening(200, {"mercure-last-event-id": echo}, asked="urn:a"), scheme="opaque")
    assert {expected} == words(facts)
    assert (BOTH if expected[0] is PROVES else {Facet.POSITION}) == {fact.facet for fact in facts}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("continue", {(PROVES, Reason.RESUME_SAID)}),
        (" Continue ", {(PROVES, Reason.RESUME_SAID)}),
        ("reset", {(AGAINST, Reason.RESUME_DENIED)}),
        ("initialized", {(AGAINST, Reason.RESUME_DENIED)}),
        ("continued", set()),
        ("", set()),
    ],
)
def test_a_status(status: str, expected: set[tuple[Finding, Reason]]) -> None:
    """One of three words; another one is as good as none."""
    assert expected == words(heard(Opening(200, {"sse-stream-status": status}, asked="5")))


@pytest.mark.parametrize(
    ("greeting", "expected"),
    [
        ('{"recovered":true}', {(PROVES, Reason.RESUME_SAID)}),
        ('{"recovered":false}', {(AGAINST, Reason.RESUME_DENIED)}),
        ('{"recovered":1}', set()),
        ('{"recovered":"true"}', set()),
        ('{"at":5}', {(PROVES, Reason.RESUME_POINT_EQUAL)}),
        ('{"at":"5"}', {(PROVES, Reason.RESUME_POINT_EQUAL)}),
        ('{"at":4}', {(AGAINST, Reason.RESUME_POINT_BEHIND)}),
        ('{"at":9}', set()),
        ('{"at":"x"}', set()),
        ('{"at":null}', set()),
        ("{}", set()),
        ("not json", set()),
        ("[" * 5_000, set()),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_a_greeting(greeting: str, expected: set[tuple[Finding, Reason]]) -> None:
    """A flag says it; an id proves where it is the very one, and contradicts where it is behind."""
    assert expected == words(heard(Opening(200, {}, asked="5"), greeting))


def test_the_first_greeting_that_speaks_is_the_one() -> None:
    """What a source says of itself later is no word on where it went on."""
    facts = heard(Opening(200, {}, asked="5"), "{}", '{"at":5}', '{"at":3}')
    assert {(PROVES, Reason.RESUME_POINT_EQUAL)} == words(facts)


def test_an_id_without_an_order_that_differs_says_nothing() -> None:
    """It may be the newest one, and nobody knows what lies between."""
    assert heard(Opening(200, {}, asked="a"), '{"at":"b"}', scheme="opaque") == []


@pytest.mark.parametrize(
    "opening",
    [
        Opening(200, {"mercure-last-event-id": "5"}),
        Opening(410, {"sse-stream-status": "continue"}, "5"),
    ],
    ids=["nothing asked", "an error page"],
)
def test_no_resume_no_word(opening: Opening) -> None:
    """Only an answer to a position can say where it goes on."""
    assert heard(opening, position=Position("5")) == []


def test_an_echo_does_not_cover_a_tail_without_ids() -> None:
    """What came behind the id comes once more, so the seam is not right behind what we had."""
    opening = Opening(200, {"mercure-last-event-id": "5"}, asked="5")
    facts = heard(opening, position=Position("5", 2))
    assert {(SILENT, Reason.TAIL_WITHOUT_ID)} == words(facts)


def test_never_the_identity() -> None:
    """A server with another log may hold an event under the same id."""
    headers = {"mercure-last-event-id": "5", "sse-stream-status": "continue"}
    facts = heard(Opening(200, headers, asked="5"), '{"at":5,"recovered":true}')
    assert BOTH == {fact.facet for fact in facts}
