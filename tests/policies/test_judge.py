"""Proves the five rules of the judge, their order, and that the document's rule is among them."""

from itertools import product

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost_policies.classic import classify_reconnect
from fencepost_policies.dialects.plain import Dialect
from fencepost_policies.judge import judge
from fencepost_policies.witness import Opening
from fencepost_schemas.cursor import Cursor, Position
from fencepost_schemas.evidence import Evidence, Facet, Fact, Finding
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Frame
from fencepost_schemas.standing import Standing

ANY = settings(deadline=None, max_examples=150)
CURSOR = Cursor("crm", "0001-aaaaaaaa", Standing.GENESIS, "l", "o", position=Position("5"))

SAID: dict[tuple[Facet, Finding], Reason] = {
    (Facet.IDENTITY, Finding.PROVES): Reason.GENERATION_EQUAL,
    (Facet.IDENTITY, Finding.CONTRADICTS): Reason.GENERATION_CHANGED,
    (Facet.IDENTITY, Finding.SILENT): Reason.GENERATION_ABSENT,
    (Facet.POSITION, Finding.PROVES): Reason.ORDER_AFTER,
    (Facet.POSITION, Finding.CONTRADICTS): Reason.ORDER_NOT_AFTER,
    (Facet.POSITION, Finding.SILENT): Reason.ORDER_UNKNOWN,
    (Facet.COMPLETENESS, Finding.PROVES): Reason.WINDOW_COVERS,
    (Facet.COMPLETENESS, Finding.CONTRADICTS): Reason.WINDOW_EXCEEDED,
    (Facet.COMPLETENESS, Finding.SILENT): Reason.WINDOW_ABSENT,
}
Findings = tuple[Finding | None, Finding | None, Finding | None]
EVERY = list(product((None, *Finding), repeat=3))


def facts_of(findings: Findings) -> tuple[Fact, ...]:
    return tuple(
        Fact(facet, finding, "w", SAID[facet, finding])
        for facet, finding in zip(Facet, findings, strict=True)
        if finding is not None
    )


def expected_kind(findings: Findings) -> Standing:
    identity, position, completeness = findings
    if Finding.CONTRADICTS in (identity, position):
        return Standing.REORIGINATED
    if identity is position is completeness is Finding.PROVES:
        return Standing.RESUMED
    if identity is Finding.PROVES and completeness is Finding.CONTRADICTS:
        return Standing.REORIGINATED
    return Standing.UNVERIFIABLE


@pytest.mark.parametrize("findings", EVERY)
def test_what_somebody_had_begin_anew_is_reoriginated(findings: Findings) -> None:
    """Whatever the stream looks like: not resumed, and never a genesis again."""
    anew = msgspec.structs.replace(CURSOR, fresh=True, rebaselined=True)
    verdict = judge(Evidence(anew, False, facts_of(findings)))
    assert (Standing.REORIGINATED, (Reason.REBASELINED,)) == (verdict.kind, verdict.reasons)


@pytest.mark.parametrize("findings", EVERY)
def test_every_combination_of_findings(findings: Findings) -> None:
    """One word a facet, in all 64 combinations, gives the verdict of the rules."""
    verdict = judge(Evidence(CURSOR, False, facts_of(findings)))
    assert expected_kind(findings) is verdict.kind
    assert facts_of(findings) == verdict.facts
    assert verdict.reasons, "a verdict without a reason explains nothing"
    assert len(set(verdict.reasons)) == len(verdict.reasons)


@pytest.mark.parametrize("findings", EVERY)
def test_rule_1_a_fresh_record_is_a_genesis_whatever_is_said(findings: Findings) -> None:
    """A first connection claims nothing, so nothing can contradict it."""
    verdict = judge(Evidence(CURSOR, True, facts_of(findings)))
    assert (Standing.GENESIS, (Reason.FIRST_CONNECTION,)) == (verdict.kind, verdict.reasons)


@pytest.mark.parametrize("findings", EVERY)
def test_rule_1_a_missing_cursor_is_never_a_beginning(findings: Findings) -> None:
    """Without a cursor and without a genesis record nothing can be verified."""
    verdict = judge(Evidence(None, False, facts_of(findings)))
    assert (Standing.UNVERIFIABLE, (Reason.NO_CURSOR,)) == (verdict.kind, verdict.reasons)


def test_rule_2_names_what_contradicts() -> None:
    """The reasons are the contradictions of identity and position, each once, and no others."""
    facts = (
        *facts_of((Finding.PROVES, Finding.PROVES, Finding.CONTRADICTS)),
        Fact(Facet.POSITION, Finding.CONTRADICTS, "w", Reason.ORDER_NOT_AFTER),
        Fact(Facet.IDENTITY, Finding.CONTRADICTS, "v", Reason.RESET_EVENT),
        Fact(Facet.IDENTITY, Finding.CONTRADICTS, "w", Reason.RESET_EVENT),
    )
    expected = (Reason.ORDER_NOT_AFTER, Reason.RESET_EVENT)
    assert expected == judge(Evidence(CURSOR, False, facts)).reasons


def test_rule_3_names_its_proofs() -> None:
    """A resumed connection can say why."""
    verdict = judge(Evidence(CURSOR, False, facts_of((Finding.PROVES,) * 3)))
    expected = (Reason.GENERATION_EQUAL, Reason.ORDER_AFTER, Reason.WINDOW_COVERS)
    assert expected == verdict.reasons


def test_rule_4_names_the_window() -> None:
    """A loss that the source itself declares, in the generation that it names."""
    findings = (Finding.PROVES, Finding.PROVES, Finding.CONTRADICTS)
    expected = (Reason.WINDOW_EXCEEDED,)
    assert expected == judge(Evidence(CURSOR, False, facts_of(findings))).reasons


def test_rule_5_names_what_is_missing() -> None:
    """Whoever is asked reads which proof was not to be had."""
    findings = (Finding.PROVES, Finding.PROVES, Finding.SILENT)
    expected = (Reason.WINDOW_ABSENT,)
    assert expected == judge(Evidence(CURSOR, False, facts_of(findings))).reasons


def test_rule_5_says_so_where_nobody_spoke() -> None:
    """No facts at all are a reason too."""
    expected = (Reason.NOTHING_SHOWN,)
    assert expected == judge(Evidence(CURSOR, False)).reasons


any_facts = st.lists(
    st.builds(
        lambda said, witness: Fact(said[0], said[1], witness, SAID[said]),
        st.sampled_from(list(SAID)),
        st.sampled_from(["v", "w"]),
    ),
    max_size=8,
).map(tuple)


@ANY
@given(any_facts, st.data())
def test_contradiction_beats_proof(facts: tuple[Fact, ...], data: st.DataObject) -> None:
    """One contradiction anywhere among any facts, and the stream is not the one we knew."""
    facet = data.draw(st.sampled_from([Facet.IDENTITY, Facet.POSITION]))
    at = data.draw(st.integers(0, len(facts)))
    against = Fact(facet, Finding.CONTRADICTS, "x", SAID[facet, Finding.CONTRADICTS])
    verdict = judge(Evidence(CURSOR, False, (*facts[:at], against, *facts[at:])))
    assert verdict.kind is Standing.REORIGINATED


@ANY
@given(any_facts)
def test_resumed_takes_positive_evidence_on_every_facet(facts: tuple[Fact, ...]) -> None:
    """Nothing but three proofs and no contradiction is ever called resumed."""
    proven = {fact.facet for fact in facts if fact.finding is Finding.PROVES}
    against = any(fact.finding is Finding.CONTRADICTS for fact in facts)
    expected = proven == set(Facet) and not against
    assert expected == (judge(Evidence(CURSOR, False, facts)).kind is Standing.RESUMED)


@ANY
@given(any_facts, any_facts)
def test_silence_changes_no_verdict(facts: tuple[Fact, ...], more: tuple[Fact, ...]) -> None:
    """A silent witness neither raises nor lowers what the others have shown."""
    silent = tuple(fact for fact in more if fact.finding is Finding.SILENT)
    assert (
        judge(Evidence(CURSOR, False, facts)).kind
        is judge(Evidence(CURSOR, False, (*facts, *silent))).kind
    )


@ANY
@given(any_facts)
def test_the_order_of_testimony_does_not_decide(facts: tuple[Fact, ...]) -> None:
    """The same words in another order give the same verdict."""
    assert judge(Evidence(CURSOR, False, facts)).kind is (
        judge(Evidence(CURSOR, False, facts[::-1])).kind
    )


HEADER = Dialect(scheme="integer", generation_header="X-Epoch", window_header="X-Floor")
POINTER = Dialect(scheme="integer", generation_pointer="/epoch", window_header="X-Floor")
tokens = st.sampled_from(["a", "b", "A", "1", "01"])
numbers = st.integers(-5, 5) | st.integers(-(10**30), 10**30)


@ANY
@given(numbers, numbers, tokens, tokens, st.booleans(), st.integers(0, 10), st.booleans())
def test_the_judge_agrees_with_classic(
    asked: int,
    first: int,
    asked_token: str,
    first_token: str,
    declared: bool,
    slack: int,
    in_header: bool,
) -> None:
    """Where generation, order and window all speak, the general rule is the document's.

    Driven through the real hearing: a cursor, the head of a response, and a first event.
    """
    cursor = Cursor(
        "crm",
        "0001-aaaaaaaa",
        Standing.GENESIS,
        "l",
        "o",
        position=Position(str(asked)),
        token=asked_token,
    )
    heard = (HEADER if in_header else POINTER).hearing(cursor)
    headers = {"x-epoch": first_token} if in_header else {}
    if declared:
        headers["x-floor"] = str(asked + 1 - slack)
    heard.opened(Opening(200, headers, asked=str(asked)))
    data = "{}" if in_header else f'{{"epoch":"{first_token}"}}'
    heard.arrived(Frame(data=data, last_event_id=str(first), id_seen=True))
    assert heard.ready()
    expected = classify_reconnect(asked, asked_token, first, first_token, declared)
    assert expected == judge(heard.evidence()).kind.value


DENSE = Dialect(scheme="integer-dense", generation_header="X-Epoch", window_header="X-Floor")


@ANY
@given(numbers, st.integers(-3, 3) | numbers, tokens, tokens, st.booleans())
def test_density_never_overrules_generation_and_order(
    asked: int, step: int, asked_token: str, first_token: str, declared: bool
) -> None:
    """Where ids have no holes, the very next one stands in for the window; nothing else does."""
    first = asked + step
    cursor = Cursor(
        "crm",
        "0001-aaaaaaaa",
        Standing.GENESIS,
        "l",
        "o",
        position=Position(str(asked)),
        token=asked_token,
    )
    heard = DENSE.hearing(cursor)
    floor = {"x-floor": str(asked)} if declared else {}
    heard.opened(Opening(200, {"x-epoch": first_token, **floor}, asked=str(asked)))
    heard.arrived(Frame(data="{}", last_event_id=str(first), id_seen=True))
    complete = first == asked + 1
    expected = classify_reconnect(asked, asked_token, first, first_token, complete)
    if expected == "unverifiable":
        expected = "reoriginated"  # a hole in a proven generation is known to be one
    assert expected == judge(heard.evidence()).kind.value


@ANY
@given(numbers, numbers, st.booleans())
def test_two_absent_tokens_are_not_equal(asked: int, first: int, declared: bool) -> None:
    """Where the document would compare two empty strings, the judge never says resumed."""
    cursor = Cursor(
        "crm", "0001-aaaaaaaa", Standing.GENESIS, "l", "o", position=Position(str(asked))
    )
    heard = HEADER.hearing(cursor)
    heard.opened(Opening(200, {"x-floor": str(asked)} if declared else {}, asked=str(asked)))
    heard.arrived(Frame(data="{}", last_event_id=str(first), id_seen=True))
    expected = Standing.UNVERIFIABLE if first > asked else Standing.REORIGINATED
    assert expected is judge(heard.evidence()).kind
