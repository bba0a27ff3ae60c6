"""The shape of ids: found out, shown without what they say, kept by ids that were never given."""

import pytest

from fencepost_policies.probe.ids import (
    SHAPE_CHARS_MAX,
    Kind,
    from_the_future,
    looks_of,
    never_given,
    shape_of,
)

UUID = "3f2b1c4d-0a1b-4c2d-8e3f-1234567890ab"
UUID7 = "01890a5d-ac96-774b-bcce-b302099a8057"
ULID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
VECTOR = '[{"topic":"a","partition":0,"offset":7}]'
OF_EACH_KIND = {
    Kind.INTEGER: ["1", "2", "5"],
    Kind.TIME_TAG: ["1795998878:0", "1795998878:1"],
    Kind.MS_SEQ: ["1795998878000-0", "1795998878001-0"],
    Kind.PREFIXED: ["boot7-1", "boot7-2"],
    Kind.ULID: [ULID],
    Kind.UUID: [UUID],
    Kind.UUID7: [UUID7],
    Kind.VECTOR: ["orders:4,users:9"],
    Kind.OPAQUE: ["QmFzZTY0", "WmV0YQ=="],
    Kind.NONE: [],
}


@pytest.mark.parametrize("kind", Kind)
def test_the_kind(kind: Kind) -> None:
    assert kind is shape_of(OF_EACH_KIND[kind]).kind


def test_a_vector_of_json() -> None:
    assert Kind.VECTOR is shape_of([VECTOR]).kind


@pytest.mark.parametrize(
    ("ids", "dense"),
    [(["7", "8", "9"], True), (["7", "9", "12"], False), (["7", "8"], None)],
)
def test_whether_there_are_holes_takes_three(ids: list[str], dense: bool | None) -> None:
    assert dense is shape_of(ids).dense


@pytest.mark.parametrize(
    ("event_id", "looks"),
    [
        ("4118", "9999"),
        ("boot-7", "aaaa-9"),
        (UUID, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"),
        ("a\x1b", "a?"),
        ("z" * 100, "a" * SHAPE_CHARS_MAX + "..."),
    ],
)
def test_how_an_id_looks(event_id: str, looks: str) -> None:
    assert looks == looks_of(event_id)


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind not in (Kind.NONE, Kind.INTEGER)])
def test_an_id_that_was_never_given(kind: Kind) -> None:
    """Of the same shape, another one, and another one with each salt."""
    ids = OF_EACH_KIND[kind]
    bogus = never_given(ids[-1], shape_of(ids), "salt")
    assert bogus not in ids
    assert len(bogus) == len(ids[-1])
    if kind not in (Kind.PREFIXED, Kind.OPAQUE):
        assert kind is shape_of([bogus]).kind
    if kind not in (Kind.TIME_TAG, Kind.MS_SEQ):
        assert bogus != never_given(ids[-1], shape_of(ids), "pepper")


def test_any_smaller_number_may_have_been_given() -> None:
    assert "" == never_given("4118", shape_of(["4118"]), "salt")


@pytest.mark.parametrize(
    ("ids", "future"),
    [
        (["4118"], "1000004118"),
        (["1795998878:3"], "1827534878:3"),
        (["1795998878000-3"], "1827534878000-3"),
        (["boot7-1", "boot7-2"], "boot7-1000000002"),
        ([ULID], "7" + ULID[1:]),
        ([UUID7], "f" + UUID7[1:]),
        ([UUID], ""),
        (["QmFzZTY0"], ""),
    ],
)
def test_an_id_of_the_future(ids: list[str], future: str) -> None:
    """Where ids have an order; the others have no future."""
    assert future == from_the_future(ids[-1], shape_of(ids))
