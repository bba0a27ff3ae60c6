"""What is told before the verdict is never taken back by the verdict on the same connection."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost_policies.dialects.plain import Dialect
from fencepost_policies.early import (
    NOTHING_LOST_YET,
    WHATEVER_WAS_ASKED,
    early_record,
    grown,
    loss_proven,
)
from fencepost_policies.judge import judge
from fencepost_policies.overlap import Ask
from fencepost_policies.witness import Opening
from fencepost_schemas.cursor import Cursor, KnownLoss, Position
from fencepost_schemas.evidence import Evidence, Facet, Fact, Finding
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Frame
from fencepost_schemas.standing import Standing

CURSOR = Cursor("crm", "0001-aaaaaaaa", Standing.RESUMED, "l", "b", Position("7"), token="g")
EXCEEDED = Reason.WINDOW_EXCEEDED
LOSS = KnownLoss((EXCEEDED,), 1, 20)
facts = st.builds(
    Fact,
    facet=st.sampled_from(Facet),
    finding=st.sampled_from(Finding),
    witness=st.just("window"),
    reason=st.sampled_from(Reason),
    missing=st.sampled_from((0, 5)),
)


def said(*facts: Fact, cursor: Cursor | None = CURSOR) -> Evidence:
    return Evidence(requested=cursor, genesis=False, facts=facts)


@settings(deadline=None, max_examples=500)
@given(st.lists(facts, max_size=6), st.lists(facts, max_size=6), st.booleans())
def test_what_is_told_early_is_never_resumed(
    first: list[Fact], more: list[Fact], last_chance: bool
) -> None:
    """Whatever the connection says later: its facts are only ever added to."""
    loss = loss_proven(said(*first), 5, last_chance=last_chance)
    if loss is None:
        return
    assert judge(said(*first)).kind is not Standing.RESUMED
    assert judge(said(*first, *more)).kind is not Standing.RESUMED
    against = {fact.reason for fact in first if fact.finding is Finding.CONTRADICTS}
    assert set(loss.reasons) <= against and not set(loss.reasons) & NOTHING_LOST_YET
    assert len(set(loss.reasons)) == len(loss.reasons)
    assert last_chance or set(loss.reasons) <= WHATEVER_WAS_ASKED


@settings(deadline=None, max_examples=500)
@given(st.lists(facts, max_size=6))
def test_another_stream_is_told_of(first: list[Fact]) -> None:
    """On the last way to ask, whatever the judge calls another stream for a reason of loss."""
    verdict = judge(said(*first))
    if verdict.kind is Standing.REORIGINATED and not set(verdict.reasons) & NOTHING_LOST_YET:
        assert loss_proven(said(*first), 5) is not None


FRAMES = st.lists(
    st.builds(
        Frame,
        event=st.sampled_from(("task", "reset", "hello")),
        data=st.sampled_from((None, "{}", '{"g":"g"}', '{"g":"h"}', '{"floor":"90"}')),
        last_event_id=st.sampled_from(("", "6", "7", "8", "9", "90")),
        id_seen=st.booleans(),
        comments=st.sampled_from(((), (":410: Gone",), ("beat",))),
    ),
    max_size=6,
)  # fmt: skip


@settings(deadline=None, max_examples=300)
@given(
    FRAMES,
    st.sampled_from(("g", "h", "")),
    st.sampled_from(("1", "90", "")),
    st.sampled_from(("integer", "integer-dense", "opaque")),
)
def test_a_connection_that_told_of_a_loss_is_never_resumed(
    frames: list[Frame], generation: str, floor: str, scheme: str
) -> None:
    """With the witnesses of a dialect, frame by frame, before and behind the verdict."""
    dialect = Dialect(
        scheme=scheme,
        generation_header="gen",
        window_header="floor",
        generation_control="/g",
        window_control="/floor",
        control_events=("hello",),
        reset_events=("reset",),
        reset_comments=("410",),
    )
    hearing = dialect.hearing(CURSOR, Ask(Position("7")))
    hearing.opened(Opening(200, {"gen": generation, "floor": floor}, asked="7"))
    told = loss_proven(hearing.evidence(), 1) is not None
    for frame in frames:
        if dialect.counts(frame) or frame.data is None:
            hearing.arrived(frame)
        else:
            hearing.noticed(frame)
        if told:
            assert judge(hearing.evidence()).kind is not Standing.RESUMED
            assert loss_proven(hearing.evidence(), 2) is not None
        told = told or loss_proven(hearing.evidence(), 1) is not None


@settings(deadline=None, max_examples=300)
@given(FRAMES)
def test_what_waits_for_an_event_is_told_as_the_event_will_be_judged(frames: list[Frame]) -> None:
    """In mid-stream: where a word is told early, the next event does not go on in the lineage."""
    dialect = Dialect(generation_header="gen", reset_events=("reset",), reset_comments=("410",))
    hearing = dialect.hearing(CURSOR, Ask(Position("7")))
    hearing.opened(Opening(200, {"gen": "g"}, asked="7"))
    for frame in frames:
        told = loss_proven(hearing.unsettled_evidence(CURSOR), 1) is not None
        assert told is bool(hearing.unsettled)
        facts, event = hearing.arrived(frame), frame.data is not None
        against = hearing.reopened(facts, CURSOR, event=event)
        if told and event:
            assert against is not None and judge(against).kind is not Standing.RESUMED


def against(reason: Reason, facet: Facet = Facet.IDENTITY, missing: int = 0) -> Fact:
    return Fact(facet, Finding.CONTRADICTS, "w", reason, missing=missing)


def test_nothing_is_lost_where_nothing_was_had() -> None:
    """A source that begins, one whose cursor has no position, and one that is begun anew."""
    changed = against(Reason.GENERATION_CHANGED)
    for cursor, genesis in (
        (None, False),
        (CURSOR, True),
        (msgspec.structs.replace(CURSOR, position=None), False),
        (msgspec.structs.replace(CURSOR, rebaselined=True), False),
    ):
        assert loss_proven(Evidence(cursor, genesis, (changed,)), 1) is None


@pytest.mark.parametrize("reason", sorted(NOTHING_LOST_YET))
def test_what_is_so_with_each_connection_tells_of_no_loss(reason: Reason) -> None:
    """A protocol without resumption, a redirect elsewhere, state first: nothing need be gone."""
    assert loss_proven(said(against(reason)), 1) is None


def test_a_window_that_is_exceeded_is_a_loss_whoever_answers() -> None:
    """The same log has forgotten it, or this is another log: the judge may not know which."""
    loss = loss_proven(said(against(EXCEEDED, Facet.COMPLETENESS, missing=4)), 9)
    assert KnownLoss((EXCEEDED,), 9, 0) == loss, "of another log ids say nothing of a size"


def test_the_size_counts_in_the_log_that_we_know() -> None:
    """It is that of what lies between what was reached and what is still held."""
    same = Fact(Facet.IDENTITY, Finding.PROVES, "generation", Reason.GENERATION_EQUAL)
    exceeded = against(EXCEEDED, Facet.COMPLETENESS, missing=4)
    assert KnownLoss((EXCEEDED,), 9, 4) == loss_proven(said(same, exceeded), 9)
    both = loss_proven(said(same, exceeded, against(Reason.RESET_COMMENT)), 9)
    assert KnownLoss((EXCEEDED, Reason.RESET_COMMENT), 9, 0) == both


def test_of_one_position_among_several_only_what_the_source_says_of_itself() -> None:
    """The next position may be one that it still holds; its generation stays what it is."""
    exceeded = against(EXCEEDED, Facet.COMPLETENESS)
    assert loss_proven(said(exceeded), 1, last_chance=False) is None
    loss = loss_proven(said(exceeded, against(Reason.GENERATION_CHANGED)), 1, last_chance=False)
    assert loss is not None and (Reason.GENERATION_CHANGED,) == loss.reasons


def test_a_reason_is_written_down_once() -> None:
    """However often, in whatever order, and with whatever count connections say it."""
    assert LOSS == grown(None, LOSS)
    assert grown(LOSS, msgspec.structs.replace(LOSS, since_ms=99, missing=21)) is None
    other = KnownLoss((Reason.GENERATION_CHANGED,), 50)
    both = grown(LOSS, other)
    assert KnownLoss((EXCEEDED, Reason.GENERATION_CHANGED), 1, 20) == both
    assert grown(both, other) is None and grown(both, LOSS) is None


def test_one_loss_is_one_gap_whatever_is_said_of_it() -> None:
    """A reconciler's row goes by the gap's bytes."""
    first = early_record(CURSOR, said(against(Reason.GENERATION_CHANGED)), "b", 1)
    second = early_record(CURSOR, said(against(EXCEEDED, missing=9)), "c", 2)
    assert first.early and first.gap == second.gap
    assert first.gap is not None and not first.gap.has_end
    assert ("0001-aaaaaaaa", "7") == (first.gap.after_generation, first.gap.after_position)
