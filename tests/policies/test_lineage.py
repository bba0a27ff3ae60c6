"""Proves how a verdict turns a lineage, and that no doubt is ever laundered."""

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fencepost_policies.disposition import standing_under
from fencepost_policies.lineage import generation_name, ordinal_of, place, places_settled, turn
from fencepost_policies.schemes.named import SCHEMES
from fencepost_policies.schemes.scheme import Scheme
from fencepost_policies.witness import contradiction
from fencepost_policies.witnesses.order import OrderWitness
from fencepost_schemas.cursor import Cursor, Mark, Position
from fencepost_schemas.question import QuestionKind, Ruling
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Frame
from fencepost_schemas.standing import Standing
from fencepost_schemas.subject import Subjects
from fencepost_schemas.verdict import Gap, Verdict

ANY = settings(deadline=None, max_examples=100)
CHANCE = "k7f2abcd"
CURSOR = Cursor(
    "crm",
    "0002-aaaaaaaa",
    Standing.RESUMED,
    "ledger",
    "owner",
    position=Position("4118", 2),
    token="a",
    published=9,
    ring=(Mark(Position("4118"), "digest"),),
)
FRESH = msgspec.structs.replace(
    CURSOR, standing=Standing.GENESIS, position=None, token="", fresh=True, published=0, ring=()
)
FIRST = Frame(data="{}", last_event_id="13", id_seen=True)

VERDICTS = {
    Standing.GENESIS: Verdict(Standing.GENESIS, (Reason.FIRST_CONNECTION,)),
    Standing.RESUMED: Verdict(Standing.RESUMED, (Reason.GENERATION_EQUAL,)),
    Standing.REORIGINATED: Verdict(Standing.REORIGINATED, (Reason.GENERATION_CHANGED,)),
    Standing.UNVERIFIABLE: Verdict(Standing.UNVERIFIABLE, (Reason.WINDOW_ABSENT,)),
}
DOUBTFUL = (Standing.REORIGINATED, Standing.UNVERIFIABLE)


def test_genesis_begins_the_generation_that_init_made() -> None:
    """The first event uses the record up; there is no parent and nothing can be missing."""
    turned = turn(FRESH, VERDICTS[Standing.GENESIS], FIRST, CHANCE, None)
    assert msgspec.structs.replace(FRESH, fresh=False) == turned.cursor
    assert ("", None) == (turned.parent, turned.gap)


@pytest.mark.parametrize("ruling", [None, *QuestionKind.SEAM.rulings])
def test_places_are_settled_in_the_first_generation_and_by_two_rulings(
    ruling: Ruling | None,
) -> None:
    """Whatever applies nothing by place says nothing of places, either."""
    assert places_settled(generation_name(1, CHANCE), ruling)
    expected = ruling in (Ruling.SAME, Ruling.ACCEPT)
    assert expected == places_settled(generation_name(2, CHANCE), ruling)
    assert expected == places_settled(generation_name(11, CHANCE), ruling)


def test_a_rebaseline_opens_a_generation_behind_the_place_that_was_reached() -> None:
    """The wish is used up, and everything from there to the first event may be missing."""
    anew = msgspec.structs.replace(CURSOR, fresh=True, rebaselined=True, start="earliest")
    verdict = Verdict(Standing.REORIGINATED, (Reason.REBASELINED,))
    turned = turn(anew, verdict, FIRST, CHANCE, None)
    assert (False, False) == (turned.cursor.fresh, turned.cursor.rebaselined)
    assert ("0003-k7f2abcd", Standing.REORIGINATED, None, ()) == (
        turned.cursor.generation,
        turned.cursor.standing,
        turned.cursor.position,
        turned.cursor.ring,
    )
    assert Gap("0002-aaaaaaaa", "4118+2", "0003-k7f2abcd", "13") == turned.gap


def test_resumed_keeps_generation_position_and_ring() -> None:
    """A proven continuation changes nothing but what it may be called."""
    turned = turn(CURSOR, VERDICTS[Standing.RESUMED], FIRST, CHANCE, None)
    assert turned.cursor == CURSOR
    assert (CURSOR.generation, None) == (turned.parent, turned.gap)


def test_resumed_after_genesis_is_resumed() -> None:
    """The second connection of a new source is no longer its first."""
    begun = msgspec.structs.replace(CURSOR, standing=Standing.GENESIS)
    turned = turn(begun, VERDICTS[Standing.RESUMED], FIRST, CHANCE, None)
    assert turned.cursor.standing is Standing.RESUMED


@pytest.mark.parametrize("standing", DOUBTFUL)
def test_a_good_reconnect_does_not_launder_a_doubt(standing: Standing) -> None:
    """Inside a doubtful generation a resumed connection leaves the standing as it was."""
    doubtful = msgspec.structs.replace(CURSOR, standing=standing)
    turned = turn(doubtful, VERDICTS[Standing.RESUMED], FIRST, CHANCE, None)
    assert standing is turned.cursor.standing


@pytest.mark.parametrize("kind", DOUBTFUL)
def test_any_other_verdict_mints_a_generation(kind: Standing) -> None:
    """The new generation begins with nothing of the old one: no position, token, ring or count."""
    turned = turn(CURSOR, VERDICTS[kind], FIRST, CHANCE, None)
    expected = Cursor(
        "crm", "0003-k7f2abcd", kind, "ledger", "owner", start=CURSOR.start, position=None
    )
    assert expected == turned.cursor
    assert turned.parent == CURSOR.generation


@pytest.mark.parametrize("kind", DOUBTFUL)
@pytest.mark.parametrize(
    ("cursor", "first", "after", "before"),
    [
        (CURSOR, FIRST, str(CURSOR.position), str(Position("13"))),
        (CURSOR, None, str(CURSOR.position), ""),
        (CURSOR, Frame(data="{}"), str(CURSOR.position), str(Position(""))),
        (msgspec.structs.replace(CURSOR, position=None), FIRST, "", str(Position("13"))),
    ],
)
def test_every_seam_has_its_gap(
    kind: Standing, cursor: Cursor, first: Frame | None, after: str, before: str
) -> None:
    """The gap runs from the last published place to the first one of the new generation."""
    expected = Gap("0002-aaaaaaaa", after, "0003-k7f2abcd", before)
    assert expected == turn(cursor, VERDICTS[kind], first, CHANCE, None).gap


@pytest.mark.parametrize(
    ("kind", "reasons", "exact"),
    [
        (Standing.REORIGINATED, (Reason.WINDOW_EXCEEDED,), True),
        (Standing.REORIGINATED, (Reason.GENERATION_CHANGED,), False),
        (Standing.UNVERIFIABLE, (Reason.WINDOW_ABSENT,), False),
        (Standing.UNVERIFIABLE, (Reason.GENERATION_ABSENT, Reason.WINDOW_EXCEEDED), False),
    ],
)
def test_a_gap_is_exact_where_the_same_log_declares_it(
    kind: Standing, reasons: tuple[Reason, ...], exact: bool
) -> None:
    """A window of a log whose identity nobody proved says nothing of our loss."""
    gap = turn(CURSOR, Verdict(kind, reasons), FIRST, CHANCE, None).gap
    assert gap is not None
    assert exact is gap.exact


@pytest.mark.parametrize("kind", DOUBTFUL)
@pytest.mark.parametrize("standing", DOUBTFUL)
@pytest.mark.parametrize("ruling", [None, *QuestionKind.SEAM.rulings])
def test_a_ruling_raises_what_the_next_generation_inherits(
    kind: Standing, standing: Standing, ruling: Ruling | None
) -> None:
    """The new verdict still counts; only the inherited part is as good as the ruling made it."""
    doubtful = msgspec.structs.replace(CURSOR, standing=standing)
    turned = turn(doubtful, VERDICTS[kind], FIRST, CHANCE, ruling)
    unverifiable = Standing.UNVERIFIABLE in (kind, standing_under(standing, ruling))
    expected = Standing.UNVERIFIABLE if unverifiable else Standing.REORIGINATED
    assert expected is turned.cursor.standing


rulings = st.sampled_from([None, *QuestionKind.SEAM.rulings])
kinds = st.sampled_from([Standing.RESUMED, *DOUBTFUL])


@ANY
@given(st.lists(st.tuples(kinds, rulings, st.none() | st.just(FIRST)), max_size=12))
def test_a_standing_improves_by_a_ruling_only(
    turns: list[tuple[Standing, Ruling | None, Frame | None]],
) -> None:
    """Over any history: no verdict raises a standing, every seam has an ordinal and a gap."""
    cursor = CURSOR
    for kind, ruling, first in turns:
        turned = turn(cursor, VERDICTS[kind], first, CHANCE, ruling)
        inherited = standing_under(cursor.standing, ruling)
        assert turned.cursor.standing.rank >= min(inherited.rank, cursor.standing.rank)
        if ruling in (None, Ruling.DISCARD):
            assert turned.cursor.standing.rank >= cursor.standing.rank
        assert turned.cursor.standing.rank >= kind.rank
        grown = ordinal_of(turned.cursor.generation) - ordinal_of(cursor.generation)
        assert grown == (0 if kind is Standing.RESUMED else 1)
        assert turned.parent == cursor.generation
        if kind is Standing.RESUMED:
            assert turned.gap is None
        else:
            assert turned.gap is not None
            ends = (turned.gap.after_generation, turned.gap.before_generation)
            assert ends == (cursor.generation, turned.cursor.generation)
            assert turned.cursor.position is None
        cursor = turned.cursor


@pytest.mark.parametrize("ordinal", [1, 9, 10, 9_998, 9_999, 10_000, 123_456])
def test_a_generation_that_is_minted_may_stand_in_a_subject(ordinal: int) -> None:
    """The name carries its ordinal, also past four digits, and the subject builder takes it."""
    name = generation_name(ordinal, CHANCE)
    assert ordinal == ordinal_of(name)
    assert f"fp.epochs.crm.{name}" == Subjects().epoch("crm", name)


@pytest.mark.parametrize(
    ("previous", "frame", "expected"),
    [
        (None, FIRST, Position("13")),
        (None, Frame(data="{}"), Position("")),
        (None, Frame(data="{}", last_event_id="", id_seen=True), Position("")),
        (None, Frame(data="{}", last_event_id="13"), Position("")),
        (None, Frame(data="{}", last_event_id=" 13", id_seen=True), Position("")),
        (Position("12"), FIRST, Position("13")),
        (Position("12", 4), FIRST, Position("13")),
        (Position("13"), FIRST, Position("13", 1)),
        (Position("13", 1), FIRST, Position("13", 2)),
        (Position("13"), Frame(data="{}", last_event_id="13"), Position("13", 1)),
        (Position("13"), Frame(data="{}", last_event_id="", id_seen=True), Position("13", 1)),
        (Position("13"), Frame(data="{}", last_event_id="a\tb", id_seen=True), Position("13", 1)),
        (Position("13"), Frame(data="{}", last_event_id="x" * 9_999, id_seen=True),
         Position("13", 1)),
        (Position(""), Frame(data="{}"), Position("", 1)),
        (Position(""), FIRST, Position("13")),
    ],
    ids=lambda value: ascii(value)[:48],
)  # fmt: skip
def test_the_place_of_an_event(previous: Position | None, frame: Frame, expected: Position) -> None:
    """An id of its own begins anew; anything else counts on from the last id."""
    assert expected == place(previous, frame)


def _stream(ids: list[str | None]) -> list[Frame]:
    """Return events as the decoder gives them: an id stays until the next one."""
    last, frames = "", []
    for event_id in ids:
        last = last if event_id is None else event_id
        frames.append(Frame(data="{}", last_event_id=last, id_seen=event_id is not None))
    return frames


ids = st.lists(st.none() | st.sampled_from(["", "1", "2", "3", "x", " 1", "+1", "1+1", "a\n"]))


@ANY
@given(ids, st.sampled_from(list(SCHEMES.values())))
@example(["1", None, "1+1"], SCHEMES["opaque"])
@example([None, None, "+1"], SCHEMES["opaque"])
@example(["1", "2", "1"], SCHEMES["opaque"])
@example(["1", "x", "1"], SCHEMES["integer"])
@example(["1", "2", "1"], SCHEMES["integer"])
def test_no_two_events_of_a_generation_share_a_position(
    values: list[str | None], scheme: Scheme
) -> None:
    """Whatever ids a source sends, each event has a place of its own, also as text.

    The text is part of the ledger's key: two events in one place would be taken for one. Where
    the witness of order contradicts, another generation begins, with places of its own.
    """
    witness = OrderWitness(None, scheme)
    previous: Position | None = None
    places: list[str] = []
    for frame in _stream(values):
        if contradiction(witness.arrived(frame)):
            previous, places = None, []
        previous = place(previous, frame)
        places.append(str(previous))
        assert len(places) == len(set(places)), places
