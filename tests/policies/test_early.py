"""What is told before the verdict is what the verdict will be."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost_policies.early import NOTHING_LOST_YET, is_news, loss_proven
from fencepost_policies.judge import judge
from fencepost_schemas.cursor import Cursor, KnownLoss, Position
from fencepost_schemas.evidence import Evidence, Facet, Fact, Finding
from fencepost_schemas.reason import Reason
from fencepost_schemas.standing import Standing

CURSOR = Cursor("crm", "0001-aaaaaaaa", Standing.RESUMED, "l", "b", Position("7"))
EXCEEDED = Reason.WINDOW_EXCEEDED
facts = st.builds(
    Fact,
    facet=st.sampled_from(Facet),
    finding=st.sampled_from(Finding),
    witness=st.just("window"),
    reason=st.sampled_from(Reason),
)


@settings(deadline=None, max_examples=500)
@given(st.lists(facts, max_size=6))
def test_what_is_told_early_is_never_resumed(said: list[Fact]) -> None:
    """By the same facts the judge calls it another stream, and a wider set contradicts as well."""
    evidence = Evidence(requested=CURSOR, genesis=False, facts=tuple(said))
    loss = loss_proven(evidence, 5)
    verdict = judge(evidence)
    if loss is None:
        reasons = set(verdict.reasons)
        assert verdict.kind is not Standing.REORIGINATED or reasons <= NOTHING_LOST_YET
        return
    assert verdict.kind is Standing.REORIGINATED
    assert set(loss.reasons) <= set(verdict.reasons) and not set(loss.reasons) & NOTHING_LOST_YET
    assert 5 == loss.since_ms


def test_nothing_is_lost_where_nothing_was_had() -> None:
    """A source that begins, one whose cursor has no position, and one that is begun anew."""
    against = (Fact(Facet.IDENTITY, Finding.CONTRADICTS, "generation", Reason.GENERATION_CHANGED),)
    for cursor, genesis in (
        (None, False),
        (CURSOR, True),
        (msgspec.structs.replace(CURSOR, position=None), False),
        (msgspec.structs.replace(CURSOR, rebaselined=True), False),
    ):
        assert loss_proven(Evidence(requested=cursor, genesis=genesis, facts=against), 1) is None


def test_the_same_is_not_news() -> None:
    """What differs is: other reasons, or another count; not the time."""
    loss = KnownLoss((EXCEEDED,), 1, 20)
    known = msgspec.structs.replace(CURSOR, loss=loss)
    assert is_news(CURSOR, loss)
    assert not is_news(known, msgspec.structs.replace(loss, since_ms=99))
    assert is_news(known, msgspec.structs.replace(loss, missing=21))
    assert is_news(known, msgspec.structs.replace(loss, reasons=(Reason.GENERATION_CHANGED,)))
