"""Proves what the source's own word for its generation testifies to, and that secrets stay so."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost_policies.witness import Opening
from fencepost_policies.witnesses.generation import GenerationWitness
from fencepost_schemas.cursor import Cursor, Position
from fencepost_schemas.evidence import Facet, Fact, Finding
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Frame
from fencepost_schemas.standing import Standing
from fencepost_schemas.subject import digest_token

EQUAL = (Finding.PROVES, Reason.GENERATION_EQUAL)
CHANGED = (Finding.CONTRADICTS, Reason.GENERATION_CHANGED)
ABSENT = (Finding.SILENT, Reason.GENERATION_ABSENT)
Word = tuple[Finding, Reason]


def cursor(token: str) -> Cursor:
    return Cursor(
        "crm", "0001-aaaaaaaa", Standing.GENESIS, "l", "o", position=Position("5"), token=token
    )


def heard(witness: GenerationWitness, header: str | None, *data: str | None) -> list[Fact]:
    headers = {} if header is None else {"x-epoch": header}
    facts = list(witness.opened(Opening(200, headers)))
    for text in data:
        facts += witness.arrived(Frame(data=text, last_event_id="6", id_seen=True))
    return facts


def words(facts: list[Fact]) -> list[Word]:
    return [(fact.finding, fact.reason) for fact in facts]


@pytest.mark.parametrize(
    ("expected_token", "header", "data", "expected"),
    [
        ("a", "a", [], [EQUAL]),
        ("a", "a", ["{}", "{}"], [EQUAL]),
        ("a", "b", ["{}"], [CHANGED]),
        ("a", "A", ["{}"], [CHANGED]),
        ("a", None, [], []),
        ("a", None, ["{}", "{}"], [ABSENT]),
        ("a", "", ["{}"], [ABSENT]),
        ("", "a", ["{}"], [ABSENT]),
        ("", None, ["{}"], [ABSENT]),
        ("a", None, [None, None], []),
    ],
)
def test_the_token_in_a_header(
    expected_token: str, header: str | None, data: list[str | None], expected: list[Word]
) -> None:
    """Equal proves, different contradicts, absence is silent: two absent tokens are not equal."""
    witness = GenerationWitness(cursor(expected_token), header="X-Epoch")
    assert expected == words(heard(witness, header, *data))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (['{"epoch":"a"}'], [EQUAL]),
        (['{"epoch":"a"}', '{"epoch":"a"}'], [EQUAL]),
        (['{"epoch":"b"}'], [CHANGED]),
        (['{"epoch":"b"}', '{"epoch":"b"}'], [CHANGED]),
        (['{"epoch":"a"}', "{}", '{"epoch":"b"}'], [EQUAL, CHANGED]),
        (['{"epoch":"a"}', '{"epoch":"b"}', '{"epoch":"a"}'], [EQUAL, CHANGED, CHANGED]),
        (["{}", '{"epoch":"b"}'], [ABSENT, CHANGED]),
        (["{}", '{"epoch":"a"}'], [ABSENT]),
        (["{}", "{}"], [ABSENT]),
        (['{"epoch":null}'], [ABSENT]),
        (['{"epoch":""}'], [ABSENT]),
        (['{"epoch":true}'], [ABSENT]),
        (["not json"], [ABSENT]),
        (["[" * 5_000], [ABSENT]),
        ([None], []),
        ([None, '{"epoch":"a"}'], [EQUAL]),
    ],
)
def test_the_token_in_the_data(data: list[str | None], expected: list[Word]) -> None:
    """The same by pointer, for each event: a change in mid-stream is heard as it comes."""
    witness = GenerationWitness(cursor("a"), pointer="/epoch")
    assert expected == words(heard(witness, None, *data))


def test_a_number_is_a_token_too() -> None:
    """An epoch that is counted is compared as the text of its number."""
    witness = GenerationWitness(cursor("7"), pointer="/epoch")
    assert words(heard(witness, None, '{"epoch":7}')) == [EQUAL]


def test_the_data_may_contradict_the_header() -> None:
    """Two places that name two generations are no proof of one."""
    witness = GenerationWitness(cursor("a"), header="x-epoch", pointer="/epoch")
    assert words(heard(witness, "a", '{"epoch":"b"}')) == [EQUAL, CHANGED]


def test_without_a_cursor_nothing_is_proven() -> None:
    """There is nothing to be equal to; the token is kept for the next connection."""
    witness = GenerationWitness(None, header="x-epoch")
    assert words(heard(witness, "a", "{}")) == [ABSENT]
    assert witness.token == "a"


def test_a_source_that_first_names_itself_may_not_change_its_mind() -> None:
    """Once a token was seen on this connection, another one contradicts it."""
    witness = GenerationWitness(cursor(""), pointer="/epoch")
    facts = heard(witness, None, '{"epoch":"a"}', '{"epoch":"b"}')
    assert words(facts) == [ABSENT, CHANGED]


def test_a_silent_configuration_is_silent() -> None:
    """A dialect without a place for the token never proves, whatever the source sends."""
    witness = GenerationWitness(cursor("a"))
    facts = heard(witness, "a", '{"epoch":"a"}')
    assert words(facts) == [ABSENT]
    assert witness.token == ""


def test_a_fact_speaks_of_identity_and_names_its_witness() -> None:
    """Records show who said it, of what, and what was expected and observed."""
    (fact,) = heard(GenerationWitness(cursor("a"), header="x-epoch"), "b")
    expected = Fact(
        Facet.IDENTITY, Finding.CONTRADICTS, "generation", Reason.GENERATION_CHANGED, "a", "b"
    )
    assert expected == fact


@settings(deadline=None)
@given(st.text("0123456789abcdefXYZ", min_size=4), st.text("0123456789abcdefXYZ", min_size=4))
def test_a_secret_token_never_shows(first: str, second: str) -> None:
    """Neither the cursor's next token nor any fact carries a secret, equal or changed."""
    secrets = {f"s3cret-{first}", f"s3cret-{second}"}
    witness = GenerationWitness(
        cursor(digest_token(f"s3cret-{first}")), header="x-epoch", pointer="/epoch", secret=True
    )
    facts = heard(witness, f"s3cret-{first}", f'{{"epoch":"s3cret-{second}"}}')
    assert words(facts) == ([EQUAL] if first == second else [EQUAL, CHANGED])
    shown = [fact.expected + fact.observed for fact in facts] + [witness.token]
    assert not [text for text in shown for secret in secrets if secret in text]
    assert not [text for text in shown if "s3cret" in text]
