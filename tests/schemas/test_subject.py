"""Proves that nothing foreign enters a subject, and that what we built is all that we parse."""

from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fencepost_schemas.limits import LANES, SLUG_CHARS_MAX
from fencepost_schemas.standing import Standing
from fencepost_schemas.subject import (
    BadSubject,
    EventSubject,
    Subjects,
    app_source,
    digest_token,
    is_app_source,
    key_token,
    lane_of,
    slug,
    stream_plans,
)

ANY = settings(deadline=None, max_examples=100)
GENERATION = "0003-k7f2abcd"
SUBJECTS = Subjects()

slugs = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?", fullmatch=True)
generations = st.from_regex(r"[0-9]{4,6}-[a-z2-7]{8}", fullmatch=True).filter(str.isascii)

GOOD_SLUGS = ("a", "7", "a-b", "a--b", "billing", "0", "a" * SLUG_CHARS_MAX)
BAD_SLUGS = (
    "", "-", "-a", "a-", "A", "aB", "a.b", ".", "..", "*", ">", "a*", "a>", "a b", " a", "a ",
    "a\n", "\na", "a\t", "a\r", "a\0", "a\x7f", "a_b", "a/b", "a%2e", "ä", "a\u0661", "\uff41",
    "a\u200b", "\ud800", "$JS", "a" * (SLUG_CHARS_MAX + 1),
)  # fmt: skip
BAD_TOKENS = (
    "", "*", ">", "a.b", "a b", "A", "a\n", "a\0", "a_b", "ä", "a/b", "a" * 65, "\ud800",
)  # fmt: skip
BAD_GENERATIONS = (
    "", "*", ">", "0003", "3-k7f2abcd", "0003-k7f2abc", "0003-k7f2abcde", "0003-K7F2ABCD",
    "0003-k7f2abc1", "0003-k7f2abc.", "0003-k7f2abc*", "0003-k7f2abcd\n", " 0003-k7f2abcd",
    "0003 k7f2abcd", "\u0660003-k7f2abcd",
)  # fmt: skip

OF_A_SLUG: dict[str, Callable[[str], object]] = {
    "slug": slug,
    "prefix": Subjects,
    "event source": lambda name: SUBJECTS.event(name, GENERATION, Standing.RESUMED, 0),
    "events_of": SUBJECTS.events_of,
    "epoch": lambda name: SUBJECTS.epoch(name, GENERATION),
    "epochs_of": SUBJECTS.epochs_of,
    "cursor": SUBJECTS.cursor,
    "intention": SUBJECTS.intention,
    "question source": lambda name: SUBJECTS.question(name, "seam-abc"),
    "questions_of": SUBJECTS.questions_of,
    "held source": lambda name: SUBJECTS.held(name, "seam-abc", "row"),
    "held_under": lambda name: SUBJECTS.held_under(name, "seam-abc"),
    "audit": SUBJECTS.audit,
    "dead": SUBJECTS.dead,
    "row handler": lambda name: SUBJECTS.row(name, "crm", "abc"),
    "row namespace": lambda name: SUBJECTS.row("charge", name, "abc"),
    "stream plans": stream_plans,
}
OF_A_TOKEN: dict[str, Callable[[str], object]] = {
    "question": lambda token: SUBJECTS.question("crm", token),
    "question_anywhere": SUBJECTS.question_anywhere,
    "answer": SUBJECTS.answer,
    "held seam": lambda token: SUBJECTS.held("crm", token, "row"),
    "held row": lambda token: SUBJECTS.held("crm", "seam-abc", token),
    "held_under": lambda token: SUBJECTS.held_under("crm", token),
    "row digest": lambda token: SUBJECTS.row("charge", "crm", token),
}
OF_A_GENERATION: dict[str, Callable[[str], object]] = {
    "event": lambda name: SUBJECTS.event("crm", name, Standing.RESUMED, 0),
    "epoch": lambda name: SUBJECTS.epoch("crm", name),
}


@pytest.mark.parametrize("name", GOOD_SLUGS)
def test_a_slug_is_returned_as_it_is(name: str) -> None:
    """Names within the grammar pass unchanged."""
    assert name == slug(name)


def accepted(builder: Callable[[str], object], names: tuple[str, ...]) -> list[str]:
    """Return the names that the builder does not refuse."""
    taken = []
    for name in names:
        try:
            builder(name)
        except BadSubject:
            continue
        taken.append(name)
    return taken


@pytest.mark.parametrize("builder", OF_A_SLUG.values(), ids=OF_A_SLUG)
def test_every_builder_refuses_what_is_no_slug(builder: Callable[[str], object]) -> None:
    """No wildcard, dot, space, capital, control or foreign character gets into any subject.

    The empty name is among them: a filter for "" must not become the filter for everything.
    """
    assert accepted(builder, BAD_SLUGS) == []


@pytest.mark.parametrize("builder", OF_A_TOKEN.values(), ids=OF_A_TOKEN)
def test_every_builder_refuses_what_is_no_token(builder: Callable[[str], object]) -> None:
    """Ids of questions, seams and rows are checked as strictly as names."""
    assert accepted(builder, BAD_TOKENS) == []


@pytest.mark.parametrize("builder", OF_A_GENERATION.values(), ids=OF_A_GENERATION)
def test_every_builder_refuses_what_is_no_generation(builder: Callable[[str], object]) -> None:
    """Only names that this house minted for a generation stand in a subject."""
    assert accepted(builder, BAD_GENERATIONS) == []


@ANY
@given(st.text())
@example("a\n")
def test_arbitrary_text_is_a_slug_or_refused(text: str) -> None:
    """Whatever passes is one token of harmless characters; there is no third way."""
    try:
        passed = slug(text)
    except BadSubject:
        return
    assert text == passed
    assert 1 <= len(text) <= SLUG_CHARS_MAX
    assert set(text) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert not text.startswith("-") and not text.endswith("-")


@ANY
@given(slugs, slugs, generations, st.sampled_from(Standing), st.integers(0, LANES - 1))
def test_an_event_subject_parses_back(
    prefix: str, source: str, generation: str, standing: Standing, lane: int
) -> None:
    """Building and parsing are inverse, under any prefix."""
    subjects = Subjects(prefix)
    built = subjects.event(source, generation, standing, lane)
    assert EventSubject(source, generation, standing, lane) == subjects.parse_event(built)


@pytest.mark.parametrize("lane", [-1, LANES, LANES + 1, 100, 10_000])
def test_a_lane_out_of_range_is_refused(lane: int) -> None:
    """Lanes are 0 to 63, and nothing else is built."""
    with pytest.raises(BadSubject):
        SUBJECTS.event("crm", GENERATION, Standing.RESUMED, lane)


@pytest.mark.parametrize(
    "subject",
    [
        "",
        "fp",
        "fp.events",
        "fp.events.crm.0003-k7f2abcd.resumed",
        "fp.events.crm.0003-k7f2abcd.resumed.07.more",
        "fp.events.crm.0003-k7f2abcd.resumed.7",
        "fp.events.crm.0003-k7f2abcd.resumed.007",
        "fp.events.crm.0003-k7f2abcd.resumed.64",
        "fp.events.crm.0003-k7f2abcd.resumed.-1",
        "fp.events.crm.0003-k7f2abcd.resumed.\u0660\u0667",
        "fp.events.crm.0003-k7f2abcd.resumed.07\n",
        "fp.events.crm.0003-k7f2abcd.RESUMED.07",
        "fp.events.crm.0003-k7f2abcd.trusted.07",
        "fp.events.crm.0003-k7f2abcd..07",
        "fp.events.crm.*.resumed.07",
        "fp.events.crm.>.resumed.07",
        "fp.events..0003-k7f2abcd.resumed.07",
        "fp.events.C RM.0003-k7f2abcd.resumed.07",
        "fp.epochs.crm.0003-k7f2abcd.resumed.07",
        "xx.events.crm.0003-k7f2abcd.resumed.07",
        " fp.events.crm.0003-k7f2abcd.resumed.07",
        "fp.events.crm.0003-k7f2abcd.resumed.07 ",
        ".fp.events.crm.0003-k7f2abcd.resumed.07",
    ],
)
def test_parse_refuses_what_we_did_not_build(subject: str) -> None:
    """A subject of another shape is no event's subject, however near it comes."""
    with pytest.raises(BadSubject):
        SUBJECTS.parse_event(subject)


@ANY
@given(st.data())
def test_a_mutated_subject_is_refused_or_is_another_that_we_could_have_built(
    data: st.DataObject,
) -> None:
    """Parsing accepts exactly the image of building: no two spellings of one subject exist."""
    built = SUBJECTS.event("crm", GENERATION, Standing.REORIGINATED, 7)
    at = data.draw(st.integers(0, len(built)))
    cut = data.draw(st.integers(0, 3))
    mutated = built[:at] + data.draw(st.text(max_size=3)) + built[at + cut :]
    try:
        parsed = SUBJECTS.parse_event(mutated)
    except BadSubject:
        return
    rebuilt = SUBJECTS.event(parsed.source, parsed.generation, parsed.standing, parsed.lane)
    assert mutated == rebuilt


@ANY
@given(st.lists(st.text(), max_size=4))
def test_a_digest_token_is_plain_and_of_one_length(parts: list[str]) -> None:
    """Whatever the text, the token is 26 base32 characters: none of the text shows."""
    token = digest_token(*parts)
    assert 26 == len(token)
    assert set(token) <= set("abcdefghijklmnopqrstuvwxyz234567")
    assert token == digest_token(*parts)
    assert token[:16] == digest_token(*parts, chars=16)


@ANY
@given(st.lists(st.text(max_size=5), max_size=4), st.lists(st.text(max_size=5), max_size=4))
@example(["ab", "c"], ["a", "bc"])
@example(["ab"], ["a", "b"])
@example(["a", ""], ["a"])
@example([], [""])
@example(["\ud800"], ["\ufffd"])
def test_other_parts_give_another_token(first: list[str], second: list[str]) -> None:
    """Where one part ends and the next begins is part of what is hashed."""
    assert (first == second) == (digest_token(*first) == digest_token(*second))


@ANY
@given(st.text(max_size=20), st.text(max_size=20), st.text())
def test_a_key_s_token_is_the_digest_of_all_three(handler: str, namespace: str, key: str) -> None:
    """However it is reckoned, a row stands where an older release has put it."""
    assert digest_token(handler, namespace, key) == key_token(handler, namespace, key)


@ANY
@given(st.text())
@example("\ud800")
def test_a_lane_is_in_range_and_the_same_for_the_same_key(key: str) -> None:
    """Any key has a lane that can stand in a subject."""
    lane = lane_of(key)
    assert 0 <= lane < LANES
    assert lane == lane_of(key)


def test_keys_use_every_lane() -> None:
    """The lanes share the keys: none stays empty over some thousand of them."""
    assert set(range(LANES)) == {lane_of(f"task-{number}") for number in range(5_000)}


def _matches(pattern: str, subject: str) -> bool:
    wanted, tokens = pattern.split("."), subject.split(".")
    if wanted[-1] == ">":
        wanted, tokens = (
            wanted[:-1],
            tokens[: len(wanted) - 1] if len(tokens) >= len(wanted) else [],
        )
    return len(wanted) == len(tokens) and all(
        want in ("*", token) for want, token in zip(wanted, tokens, strict=True)
    )


@pytest.mark.parametrize(
    ("stream", "subject"),
    [
        ("FENCEPOST_EVENTS", SUBJECTS.event("crm", GENERATION, Standing.GENESIS, 63)),
        ("FENCEPOST_EVENTS", SUBJECTS.epoch("crm", GENERATION)),
        ("FENCEPOST_EVENTS", SUBJECTS.cursor("crm")),
        ("FENCEPOST_SOURCES", SUBJECTS.roster()),
        ("FENCEPOST_SOURCES", SUBJECTS.intention("crm")),
        ("FENCEPOST_QUESTIONS", SUBJECTS.question("crm", "seam-abc")),
        ("FENCEPOST_QUESTIONS", SUBJECTS.held("crm", "seam-abc", "row")),
        ("FENCEPOST_ANSWERS", SUBJECTS.answer("seam-abc")),
        ("FENCEPOST_AUDIT", SUBJECTS.audit("desk")),
        ("FENCEPOST_DEAD", SUBJECTS.dead("charge")),
        ("FENCEPOST_LEDGER", SUBJECTS.row("charge", "crm", "abc")),
        ("FENCEPOST_LEDGER", SUBJECTS.ledger_identity()),
    ],
)
def test_every_subject_lies_in_exactly_one_stream(stream: str, subject: str) -> None:
    """The broker stores each message once; overlapping streams would be refused by it."""
    holding = [
        plan.name
        for plan in stream_plans("fp")
        if any(_matches(pattern, subject) for pattern in plan.subjects)
    ]
    assert [stream] == holding


@pytest.mark.parametrize(
    ("pattern", "subject"),
    [
        (SUBJECTS.events_of(), SUBJECTS.event("crm", GENERATION, Standing.GENESIS, 0)),
        (SUBJECTS.events_of("crm"), SUBJECTS.event("crm", GENERATION, Standing.GENESIS, 0)),
        (SUBJECTS.epochs_of("crm"), SUBJECTS.epoch("crm", GENERATION)),
        (SUBJECTS.intentions(), SUBJECTS.intention("crm")),
        (SUBJECTS.questions_of(), SUBJECTS.question("crm", "seam-abc")),
        (SUBJECTS.questions_of("crm"), SUBJECTS.question("crm", "seam-abc")),
        (SUBJECTS.question_anywhere("seam-abc"), SUBJECTS.question("crm", "seam-abc")),
        (SUBJECTS.held_under("crm", "seam-abc"), SUBJECTS.held("crm", "seam-abc", "row")),
        (SUBJECTS.answers(), SUBJECTS.answer("seam-abc")),
        (SUBJECTS.rows(), SUBJECTS.row("charge", "crm", "abc")),
    ],
)
def test_a_filter_finds_what_it_is_named_after(pattern: str, subject: str) -> None:
    """Each filter matches the subject of the same noun."""
    assert _matches(pattern, subject)


@pytest.mark.parametrize(
    ("pattern", "subject"),
    [
        (SUBJECTS.events_of("crm"), SUBJECTS.event("crm2", GENERATION, Standing.GENESIS, 0)),
        (SUBJECTS.events_of(), SUBJECTS.epoch("crm", GENERATION)),
        (SUBJECTS.events_of(), SUBJECTS.cursor("crm")),
        (SUBJECTS.intentions(), SUBJECTS.roster()),
        (SUBJECTS.questions_of("crm"), SUBJECTS.question("erp", "seam-abc")),
        (SUBJECTS.questions_of(), SUBJECTS.held("crm", "seam-abc", "row")),
        (SUBJECTS.rows(), SUBJECTS.ledger_identity()),
    ],
)
def test_a_filter_finds_nothing_else(pattern: str, subject: str) -> None:
    """A neighbour's messages are not taken along."""
    assert not _matches(pattern, subject)


def test_an_app_is_a_source_of_its_own() -> None:
    """The longest names are cut where a subject ends, and stay apart."""
    longest = [app_source("a" * 31 + last) for last in "abc"]
    assert ("app-shop", "app-" + "a" * 28) == (app_source("shop"), app_source("a" * 28))
    assert 3 == len({slug(one) for one in longest})
    assert all(map(is_app_source, longest)) and not is_app_source("orders")
