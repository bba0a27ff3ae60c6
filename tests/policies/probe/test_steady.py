"""The same event twice: what differs each time is volatile only where something else names it."""

import json
from typing import Any

from fencepost_policies.probe.steady import Comparison, compare, leaves, renumbered
from fencepost_schemas.sse import Frame


def frames(*events: tuple[str, Any]) -> list[Frame]:
    return [
        Frame("task", data if isinstance(data, str) else json.dumps(data), id, (), True)
        for id, data in events
    ]


def test_the_same_bytes() -> None:
    one = frames(("1", {"k": "a"}), ("2", {"k": "b"}))
    assert Comparison(2) == compare([one, one])


def test_what_differs_each_time_is_volatile() -> None:
    """The task is named by itself, and the time is of the sending."""
    first = frames(("1", {"k": "a", "at": 5}), ("2", {"k": "b", "at": 5}))
    second = frames(("1", {"k": "a", "at": 9}), ("2", {"k": "b", "at": 9}))
    assert Comparison(2, ("/at",)) == compare([first, second])


def test_a_counter_in_the_data_names_nothing() -> None:
    """Two logs count alike; that both have a number 1 does not make it the same event."""
    for off in (0, 7):
        first = frames(("1", {"n": 1 + off, "k": "a"}), ("2", {"n": 2 + off, "k": "b"}))
        second = frames(("1", {"n": 1 + off, "k": "x"}), ("2", {"n": 2 + off, "k": "y"}))
        assert Comparison(2, (), 2) == compare([first, second])


def test_a_word_that_many_events_have_names_none() -> None:
    first = frames(("1", {"kind": "new", "k": "a"}), ("2", {"kind": "new", "k": "b"}))
    second = frames(("1", {"kind": "new", "k": "x"}), ("2", {"kind": "new", "k": "y"}))
    assert Comparison(2, (), 2) == compare([first, second])


def test_one_event_alone_does_not_tell() -> None:
    """Nobody knows what names it, so other bytes are another event."""
    assert (
        1
        == compare([frames(("1", {"k": "a", "at": 5})), frames(("1", {"k": "a", "at": 9}))]).others
    )


def test_what_differs_inside_a_list_cannot_be_left_out() -> None:
    first = frames(("1", {"k": "a", "at": [5]}), ("2", {"k": "b", "at": [5]}))
    second = frames(("1", {"k": "a", "at": [9]}), ("2", {"k": "b", "at": [9]}))
    assert Comparison(2, (), 2) == compare([first, second])


def test_data_that_are_no_json_are_the_same_or_not() -> None:
    first, second = frames(("1", "one"), ("2", "two")), frames(("1", "one"), ("2", "zwei"))
    assert Comparison(2, (), 1) == compare([first, second])


def test_an_id_that_stands_for_several_events_is_not_compared() -> None:
    first = frames(("1", {"k": "a"}), ("1", {"k": "b"}))
    assert Comparison() == compare([first, frames(("1", {"k": "c"}))])


def test_leaves_by_their_pointers() -> None:
    assert {"/a~1b/0": "1", "/a~1b/1": '"x"', "/c": "null"} == leaves('{"a/b":[1,"x"],"c":null}')
    assert leaves("[1]") is None
    assert leaves("{") is None


def test_the_same_data_under_other_ids() -> None:
    """Two such events are no chance; one that comes again in earnest is."""
    first = frames(("5", {"k": "a"}), ("6", {"k": "b"}))
    assert renumbered([first, frames(("0", {"k": "a"}), ("1", {"k": "b"}))])
    assert not renumbered([first, frames(("7", {"k": "a"}), ("6", {"k": "b"}))])
    assert not renumbered([first, first])
