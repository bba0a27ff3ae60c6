"""Proves what the source's own word for its generation testifies to, and that secrets stay so."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost_policies.control import Control
from fencepost_policies.pattern import search_for
from fencepost_policies.schemes.named import scheme_for
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


URL = search_for("/sessions/(?P<gen>[^/]+)")


def secret_cookie(name: str, header: str) -> list[Word]:
    witness = GenerationWitness(cursor(digest_token("a")), cookie=name)
    return words(list(witness.opened(Opening(200, {"set-cookie": header}))))


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("run=a; Path=/; HttpOnly", [EQUAL]),
        ('run="a"', [EQUAL]),
        ("run=b", [CHANGED]),
        ("lang=en; Path=/, run=a; Secure", [EQUAL]),
        ("other_run=b", []),
        ("RUN=b", []),
        ("run=", []),
        ("", []),
    ],
)
def test_a_cookie(header: str, expected: list[Word]) -> None:
    """The one of that name, among as many as there are."""
    assert expected == secret_cookie("run", header)


@pytest.mark.parametrize(
    ("url", "status", "expected"),
    [
        ("https://a.example/sessions/a/events?token=s3cret", 200, [EQUAL]),
        ("https://b.example/sessions/b", 200, [CHANGED]),
        ("https://a.example/login?next=/sessions/b", 200, []),
        ("https://a.example/sessions/b", 503, []),
        ("https://[", 200, []),
        ("", 200, []),
    ],
)
def test_the_final_url(url: str, status: int, expected: list[Word]) -> None:
    """The path behind all redirects; an error page may be anywhere."""
    witness = GenerationWitness(cursor(digest_token("a")), url=URL)
    facts = list(witness.opened(Opening(status, {}, url=url)))
    assert expected == words(facts)
    assert not [fact for fact in facts if "s3cret" in fact.expected + fact.observed + witness.token]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["a-7"], [EQUAL]),
        (["b-7"], [CHANGED]),
        (["a-7", "b-8"], [EQUAL, CHANGED]),
        (["7"], [ABSENT]),
    ],
)
def test_the_ids_name_the_generation(ids: list[str], expected: list[Word]) -> None:
    """As their scheme reads them, event for event."""
    witness = GenerationWitness(cursor("a"), scheme=scheme_for("integer", "gen-pos"))
    frames = [Frame(data="{}", last_event_id=each, id_seen=True) for each in ids]
    assert expected == [word for frame in frames for word in words(list(witness.arrived(frame)))]


def test_the_first_id_of_a_connection() -> None:
    """A priming id names it; in the middle of a connection no id is the first."""
    prime = Frame(last_event_id="a", id_seen=True)
    event = Frame(data="{}", last_event_id="6", id_seen=True)
    witness = GenerationWitness(cursor("a"), first_id=True)
    list(witness.opened(Opening(200, {})))
    assert [EQUAL] == words([*witness.arrived(prime), *witness.arrived(event)])
    other = GenerationWitness(cursor("a"), first_id=True)
    list(other.opened(Opening(200, {})))
    assert [CHANGED] == words(list(other.arrived(event)))
    anew = GenerationWitness(cursor("a"), first_id=True)
    assert [ABSENT] == words(list(anew.arrived(event)))
    assert anew.token == ""


def test_a_greeting_names_the_generation() -> None:
    """In an event that is none of the source's, and in no other."""
    control = Control(("hello",))
    witness = GenerationWitness(cursor("a"), control=control, control_pointer="/epoch")
    hello = Frame(event="hello", data='{"epoch":"a"}')
    task = Frame(event="task", data='{"epoch":"b"}', last_event_id="6", id_seen=True)
    facts = [*witness.noticed(hello), *witness.arrived(task)]
    assert [EQUAL] == words(facts)
    again = Frame(event="hello", data='{"epoch":"b"}')
    assert [CHANGED] == words(list(witness.noticed(again)))


def test_an_event_that_begins_a_generation() -> None:
    """Its coming is enough, whether it counts as an event or not."""
    witness = GenerationWitness(cursor("a"), begins=frozenset({"put"}))
    begun = [(Finding.CONTRADICTS, Reason.GENERATION_BEGUN)]
    assert begun == words(list(witness.noticed(Frame(event="put", data="{}"))))
    assert words(list(witness.noticed(Frame(event="put")))) == []
    assert words(list(witness.noticed(Frame(event="patch", data="{}")))) == []
