"""Proves what a written dialect adds to plain SSE: bookmarks to ask for, and no resumption."""

from collections.abc import Iterable

import pytest

from fencepost_policies.dialects.asking import Asking
from fencepost_policies.dialects.described import Dialect
from fencepost_policies.overlap import Ask
from fencepost_policies.witness import Opening, Witness
from fencepost_schemas.cursor import Cursor, Position
from fencepost_schemas.evidence import Facet, Fact, Finding
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Frame
from fencepost_schemas.standing import Standing
from kit.resume import Answer, followed, resumed_with

MARKED = Dialect(position="/rv", bookmarks=("BOOKMARK",), type="/type")


def objects(*versions: int) -> bytes:
    return b"".join(f'data: {{"type":"ADDED","rv":{rv}}}\n\n'.encode() for rv in versions)


BOOKMARK = b'data: {"type":"BOOKMARK","rv":90}\n\n'


def test_a_bookmark_is_the_last_thing_to_ask_for() -> None:
    """What proves more comes first; the bookmark is what is left once the others are too old."""
    cursor = followed(MARKED, Answer(objects(1, 2, 3) + BOOKMARK))
    assert Position("90") == cursor.position
    assert ["1", "2", "90"] == [ask.position.id for ask in MARKED.asks(cursor)]
    without = followed(MARKED, Answer(objects(1, 2, 3)))
    assert ["1", "2"] == [ask.position.id for ask in MARKED.asks(without)]


def test_a_server_that_forgot_all_but_the_bookmark() -> None:
    """It refuses the older versions; what it brings behind the bookmark is unverifiable."""
    cursor = followed(MARKED, Answer(objects(1, 2, 3) + BOOKMARK))

    def compacted(asked: str) -> Answer:
        return Answer(objects(91)) if asked == "90" else Answer(status=410)

    verdict = resumed_with(MARKED, cursor, compacted)
    assert Standing.UNVERIFIABLE is verdict.kind
    assert Standing.REORIGINATED is resumed_with(MARKED, cursor, _all_gone).kind


def _all_gone(asked: str) -> Answer:
    return Answer(status=410) if asked else Answer(objects(91))


def test_without_resumption_nothing_is_asked_for() -> None:
    """Each connection begins anew, and is said to."""
    dialect = Dialect(resumable=False)
    cursor = followed(dialect, Answer(b"id: 1\ndata: a\n\nid: 2\ndata: b\n\n"))
    assert () == dialect.asks(cursor)
    assert not dialect.covers
    assert not dialect.replays_unasked
    verdict = resumed_with(dialect, cursor, lambda asked: Answer(b"id: 3\ndata: c\n\n"))
    assert (Standing.REORIGINATED, (Reason.NO_RESUMPTION,)) == (verdict.kind, verdict.reasons)


def test_what_names_no_position_may_be_no_event() -> None:
    """A greeting looks like an event, and has no place."""
    dialect = Dialect(position="/offset", placed_only=True)
    reading = dialect.reading(None)
    greeting, event = reading.read([Frame(data='{"connect":{}}'), Frame(data='{"offset":1,"x":2}')])
    assert (False, True) == (dialect.counts(greeting), dialect.counts(event))


def test_a_digest_is_never_sent_for_a_name() -> None:
    """Of a secret generation nothing else is kept."""
    with pytest.raises(ValueError, match="only a digest is kept"):
        Dialect(
            generation_header="x-epoch",
            generation_secret=True,
            ask=Asking(where="query", name="at", template="$generation/$position"),
        )


class Shard:
    """A user's own witness: the source says which shard answers, and only one has our log."""

    name = "shard"

    def opened(self, opening: Opening) -> Iterable[Fact]:
        finding = Finding.PROVES if opening.headers.get("x-shard") == "3" else Finding.CONTRADICTS
        yield Fact(Facet.IDENTITY, finding, self.name, Reason.RESUME_SAID)

    def arrived(self, frame: Frame) -> Iterable[Fact]:
        return ()


class Sharded(Dialect, frozen=True):
    def own_witnesses(self, cursor: Cursor | None, ask: Ask | None) -> tuple[Witness, ...]:
        return (Shard(),)


@pytest.mark.parametrize(
    ("shard", "expected"), [("3", Standing.RESUMED), ("4", Standing.REORIGINATED)]
)
def test_a_witness_of_the_user_s_own_is_heard(shard: str, expected: Standing) -> None:
    """It proves and contradicts as any other does, and is named in the record."""
    dialect = Sharded(scheme="integer-dense", overlap="off")
    cursor = followed(dialect, Answer(b"id: 1\ndata: a\n\n"))
    again = Answer(b"id: 2\ndata: b\n\n", headers={"x-shard": shard})
    verdict = resumed_with(dialect, cursor, lambda asked: again)
    assert expected is verdict.kind
    assert "shard" in {fact.witness for fact in verdict.facts}
