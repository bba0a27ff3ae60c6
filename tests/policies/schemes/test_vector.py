"""Proves how ids of several parts are read and compared."""

import pytest

from fencepost_policies.schemes.scheme import Order
from fencepost_policies.schemes.vector import Vector, read

VECTOR = Vector()


def kafka(*entries: str) -> str:
    return f"[{','.join('{' + entry + '}' for entry in entries)}]"


def at(partition: int, offset: int) -> str:
    return f'"topic":"edits","partition":{partition},"offset":{offset}'


@pytest.mark.parametrize(
    ("earlier", "later", "expected"),
    [
        ("a:1,b:1", "b:1,a:1", Order.SAME),
        ("a:1,b:1", "b:2,a:1", Order.AFTER),
        ("a:9,b:1", "a:10,b:1", Order.AFTER),
        ("a:1,b:2", "a:1,b:1", Order.BEFORE),
        ("a:1,b:2", "a:2,b:1", Order.APART),
        ("a:1", "a:1,b:1", Order.AFTER),
        ("a:1,b:1", "a:1", Order.BEFORE),
        ("a:1,b:1", "a:2", Order.UNKNOWN),
        ("a:1", "b:1", Order.UNKNOWN),
        ("a:b:1", "a:b:2", Order.AFTER),
        ("a:1,a:2", "a:3", Order.UNKNOWN),
        ("a:1,", "a:2", Order.UNKNOWN),
        ("a", "a", Order.UNKNOWN),
        (kafka(at(0, 5), at(1, 7)), kafka(at(1, 7), at(0, 6)), Order.AFTER),
        (kafka(at(0, 5), at(1, 7)), kafka(at(0, 6), at(1, 6)), Order.APART),
        (kafka(at(0, 5)), kafka('"topic":"edits","partition":0,"timestamp":6'), Order.UNKNOWN),
        (
            kafka('"topic":"a","timestamp":1538000000000'),
            kafka('"topic":"a","timestamp":1538000000001'),
            Order.AFTER,
        ),
        (
            kafka('"topic":"a","offset":-1,"timestamp":"2026-01-01T00:00:00Z"'),
            kafka('"topic":"a","offset":-1,"timestamp":"2026-01-02T00:00:00Z"'),
            Order.AFTER,
        ),
        (kafka(at(0, 5), at(0, 5)), kafka(at(0, 5)), Order.UNKNOWN),
        ("[]", "[]", Order.UNKNOWN),
        ('[{"topic":"a","offset":true}]', '[{"topic":"a","offset":true}]', Order.UNKNOWN),
        ("[1]", "[1]", Order.UNKNOWN),
        ("5:3,[2],-", "5:3,[3],-", Order.AFTER),
        ("5:[3],2,-", "5:3,2,[0]", Order.AFTER),
        ("5:[3],2", "5:[2],3", Order.APART),
        ("5:9,[9]", "6:-,[0]", Order.AFTER),
        ("6:-,[0]", "5:9,[9]", Order.BEFORE),
        ("5:[3", "5:[3", Order.UNKNOWN),
        ("5:3,x", "5:3,x", Order.UNKNOWN),
    ],
)
def test_the_order_of_vectors(earlier: str, later: str, expected: Order) -> None:
    """Each part counts for itself, and one that went back tells on the whole."""
    assert expected is VECTOR.compare(earlier, later)


@pytest.mark.parametrize("text", ["", "[", "[" * 4_000, "{}", "a:", ":1", "a:1:", "[null]"])
def test_what_is_no_vector(text: str) -> None:
    """Nothing is made up for what cannot be read."""
    assert read(text) is None
