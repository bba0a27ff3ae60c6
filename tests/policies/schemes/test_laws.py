"""Proves what holds for every scheme: its order has no circles, and no text is an error."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost_policies.schemes.named import SCHEMES, scheme_for
from fencepost_policies.schemes.scheme import Order, Scheme

ANY = settings(deadline=None, max_examples=60)
PREFIXED = {
    f"{name} in {shape}": scheme_for(name, shape)
    for name in ("integer-dense", "opaque", "time-tag")
    for shape in ("gen:pos", "gen-pos")
}
EVERY: dict[str, Scheme] = {**SCHEMES, **PREFIXED}
MIRROR = {
    Order.AFTER: Order.BEFORE,
    Order.BEFORE: Order.AFTER,
    Order.SAME: Order.SAME,
    Order.APART: Order.APART,
    Order.UNKNOWN: Order.UNKNOWN,
}

few = st.integers(0, 3)
hexes = st.sampled_from("0123")
ulids = st.builds("01J0000{}{}0{}".format, hexes, st.sampled_from("0GZ"), st.just("0" * 16))
uuids = st.builds("0190{}{}00-0000-7000-8000-00000000000{}".format, hexes, few, few)
tails = st.sampled_from(["", ".5", ".50Z", "Z", "+01:00"])
times = st.builds("2026-02-2{}T00:00:0{}{}".format, few, few, tails)
kafka = st.lists(
    st.builds('{{"topic":"{}","partition":{},"offset":{}}}'.format, hexes, few, few), max_size=3
).map(lambda entries: f"[{','.join(entries)}]")
maps = st.lists(st.builds("{}:{}".format, hexes, few), min_size=1, max_size=3).map(",".join)
places = st.builds("{}:{},[{}],-".format, few, few, few)
pairs = st.builds("{}{}{}".format, few, st.sampled_from(["-", ":"]), few)
ids = st.one_of(few.map(str), pairs, ulids, uuids, times, kafka, maps, places, st.text(max_size=6))
of_scheme = pytest.mark.parametrize("scheme", EVERY.values(), ids=EVERY)


@of_scheme
@ANY
@given(st.one_of(ids, st.text()), st.one_of(ids, st.text()))
def test_no_text_is_an_error(scheme: Scheme, one: str, other: str) -> None:
    """Ids come from strangers: each function answers, and with no more than it knows."""
    assert scheme.compare(one, other) in Order
    assert scheme.covers(one, other) in (True, False, None)
    hole = scheme.hole(one, other)
    assert hole is None or hole.missing >= 0
    assert isinstance(scheme.generation(one), str)


@of_scheme
@pytest.mark.parametrize(
    "text",
    ["9" * 10**6, "-" * 10**6, "[" * 10**6, "a:1," * 10**5, "1:" + "-," * 10**5, "x" * 10**6,
     "1." + "9" * 10**6, '[{"topic":"a","offset":' + "9" * 4_000 + "}]", ":" * 4_000, "\ud800"],
    ids=lambda text: ascii(text)[:12],
)  # fmt: skip
def test_a_huge_id_is_no_work(scheme: Scheme, text: str) -> None:
    """What is too long to be sent back is not read, whatever it looks like."""
    for one, other in ((text, text), (text, "1"), ("1", text)):
        assert scheme.compare(one, other) in Order
        scheme.covers(one, other)
        scheme.hole(one, other)
    scheme.generation(text)


@of_scheme
@ANY
@given(ids)
def test_an_id_is_the_same_as_itself(scheme: Scheme, one: str) -> None:
    """Where it can be read; nothing else is known of one that cannot."""
    assert scheme.compare(one, one) in (Order.SAME, Order.UNKNOWN)
    assert scheme.hole(one, one) is None


@of_scheme
@ANY
@given(ids, ids)
def test_the_order_looks_the_same_from_behind(scheme: Scheme, one: str, other: str) -> None:
    """One after the other is the other before the one."""
    assert MIRROR[scheme.compare(one, other)] is scheme.compare(other, one)


@of_scheme
@ANY
@given(ids, ids, ids)
def test_the_order_has_no_circles(scheme: Scheme, one: str, two: str, three: str) -> None:
    """What is after something that is after a third is never before the third, nor the same."""
    steps = {scheme.compare(one, two), scheme.compare(two, three)}
    if steps == {Order.AFTER}:
        assert scheme.compare(one, three) is Order.AFTER
    if steps == {Order.SAME}:
        assert scheme.compare(one, three) is Order.SAME
    if steps == {Order.SAME, Order.AFTER}:
        assert scheme.compare(one, three) is Order.AFTER


@of_scheme
@ANY
@given(ids, ids)
def test_only_what_comes_after_can_have_a_hole_before_it(
    scheme: Scheme, one: str, other: str
) -> None:
    """Nothing is missing in front of what is not after; and only dense ids ever tell."""
    if scheme.hole(one, other) is not None:
        assert scheme.compare(one, other) is Order.AFTER
        assert scheme.dense


@of_scheme
@ANY
@given(ids, ids)
def test_a_log_that_begins_at_or_before_the_id_covers_it(
    scheme: Scheme, floor: str, asked: str
) -> None:
    """A floor that is not after what was asked for is never said to be too high."""
    if scheme.compare(floor, asked) in (Order.SAME, Order.AFTER):
        assert scheme.covers(floor, asked) is not False


@pytest.mark.parametrize("name", SCHEMES)
def test_every_scheme_orders_something(name: str) -> None:
    """None of the orders above is empty: each scheme but the opaque one puts two ids in a row."""
    one, other = {
        "integer": ("9", "10"),
        "integer-dense": ("9", "10"),
        "time-tag": ("9:9", "10:0"),
        "ms-seq": ("9-9", "10-0"),
        "timestamp": ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.1Z"),
        "lexicographic": ("a", "b"),
        "ulid": ("01J00000000000000000000000", "01K00000000000000000000000"),
        "uuidv7": ("01900000-0000-7000-8000-000000000000", "01910000-0000-7000-8000-000000000000"),
        "vector": ("a:1,b:1", "b:1,a:2"),
        "opaque": ("a", "b"),
    }[name]
    expected = Order.UNKNOWN if name == "opaque" else Order.AFTER
    assert expected is SCHEMES[name].compare(one, other)
