"""Proves that pointers are those of RFC 6901, and that no document can bring the reader down."""

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost_policies.pointer import (
    MISSING,
    Undecodable,
    check_pointer,
    read_json,
    resolve,
    resolve_text,
)

ANY = settings(deadline=None)

# RFC 6901, section 5: the document and every example in it.
RFC: dict[str, object] = {
    "foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, 'k"l': 6,
    " ": 7, "m~n": 8,
}  # fmt: skip
RFC_EXAMPLES: list[tuple[str, object]] = [
    ("", RFC), ("/foo", ["bar", "baz"]), ("/foo/0", "bar"), ("/", 0), ("/a~1b", 1), ("/c%d", 2),
    ("/e^f", 3), ("/g|h", 4), ("/i\\j", 5), ('/k"l', 6), ("/ ", 7), ("/m~0n", 8),
]  # fmt: skip


@pytest.mark.parametrize(("pointer", "expected"), RFC_EXAMPLES, ids=[p for p, _ in RFC_EXAMPLES])
def test_the_examples_of_the_rfc_hold(pointer: str, expected: object) -> None:
    """Every example of section 5 resolves to what the RFC says."""
    assert expected == resolve(check_pointer(pointer), read_json(json.dumps(RFC)))


@pytest.mark.parametrize(
    ("pointer", "document"),
    [
        ("/b", {"a": 1}),
        ("/a/b", {"a": 1}),
        ("/a/b", {"a": None}),
        ("/a/b", {"a": "text"}),
        ("/a/0", {"a": "text"}),
        ("/a", [1]),
        ("/-", [1]),
        ("/1", [1]),
        ("/00", [1]),
        ("/01", [1, 2]),
        ("/-1", [1]),
        ("/+0", [1]),
        ("/ 0", [1]),
        ("/0x0", [1]),
        ("/1_0", list(range(20))),
        ("/\u0660", [1]),
        ("/\u00b2", [1, 2, 3]),
        ("/", [1]),
        ("/a", None),
        ("/" + "9" * 5_000, [1]),
    ],
    ids=lambda value: ascii(value)[:16],
)
def test_what_is_not_there_is_missing(pointer: str, document: object) -> None:
    """A list takes plain indexes only, and nothing is looked up in a text, a number or null."""
    assert resolve(pointer, document) is MISSING


def test_null_is_there() -> None:
    """Null is a value; absence is none."""
    assert resolve("/a", {"a": None}) is None
    assert resolve("/b", {"a": None}) is MISSING


def test_an_escape_is_read_once() -> None:
    """ "~01" names the key "~1", not "/"."""
    assert resolve("/~01", {"~1": "right", "/": "wrong"}) == "right"


@pytest.mark.parametrize("pointer", ["a", "a/b", " /a", "#/a", "/a~", "/a~2", "/~a", "/a~/b"])
def test_what_is_no_pointer_is_refused(pointer: str) -> None:
    """A slip in a configuration is found when it is read: a lone "~" is no escape."""
    with pytest.raises(ValueError, match="pointer"):
        check_pointer(pointer)


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "nope", "{'a':1}", '{"a":1}x', "NaN", "1e999", '"\ud800"', '"\\ud800"',
        "[" * 5_000, "[" * 5_000 + "]" * 5_000, '{"a":' * 5_000 + "1" + "}" * 5_000,
        '{"k":' + "9" * 5_000 + "}", b"\xff", b'"\xc3"',
    ],
    ids=lambda text: ascii(text)[:16],
)  # fmt: skip
def test_what_cannot_be_read_is_undecodable(text: str | bytes) -> None:
    """Broken, deep and enormous texts raise the one error that callers expect."""
    with pytest.raises(Undecodable):
        read_json(text)


@ANY
@given(st.text() | st.binary())
def test_no_text_brings_the_reader_down(text: str | bytes) -> None:
    """Arbitrary data is read or refused; nothing else is ever raised."""
    with suppress(Undecodable):
        resolve_text("/a/0", read_json(text))


documents = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=12,
)


def _paths(document: object, path: str = "") -> list[tuple[str, object]]:
    found = [(path, document)]
    if isinstance(document, dict):
        for key, value in document.items():
            token = key.replace("~", "~0").replace("/", "~1")
            found += _paths(value, f"{path}/{token}")
    if isinstance(document, list):
        for index, value in enumerate(document):
            found += _paths(value, f"{path}/{index}")
    return found


@ANY
@given(documents)
def test_every_value_has_its_pointer(document: object) -> None:
    """Each value of a document is found under the pointer that leads to it."""
    for path, value in _paths(document):
        assert resolve(check_pointer(path), document) is value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("task", "task"), ("", ""), (7, "7"), (-7, "-7"), (0, "0"), (10**30, "1" + "0" * 30),
        (True, None), (False, None), (None, None), (1.0, None), ([], None), ({}, None),
        (["task"], None),
    ],
)  # fmt: skip
def test_only_texts_and_whole_numbers_are_names(value: object, expected: str | None) -> None:
    """1 and 1.0 and true are three values; only the first may name something."""
    assert expected == resolve_text("/a", {"a": value})


def test_a_missing_text_is_none() -> None:
    """Nothing is named by what is not there."""
    assert resolve_text("/b", {"a": 1}) is None
