"""Proves that a configuration's pattern cannot be made to take for ever."""

import re

import pytest

from fencepost_policies.pattern import TEXT_CHARS_MAX, Pattern, Search, compiled


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(", "is not a regular expression"),
        ("(a+)+", "repeats a group"),
        ("(a|a)*b", "repeats a group"),
        ("(?:[0-9]{2}){4}", "repeats a group"),
        ("(?P<gen>x*){2,}", "repeats a group"),
        ("a*a*a*a*b", "more than 3 repeats"),
        ("a?a?a?a?aaaa", "more than 3 repeats"),
        ("x{1,9}" * 4, "more than 3 repeats"),
        ("x" * 201, "at most 200 characters"),
        ("x{99999999999}", "is not a regular expression"),
    ],
)
def test_a_pattern_that_could_take_for_ever_is_refused(text: str, message: str) -> None:
    """When the configuration is read, and not when somebody sends the text for it."""
    with pytest.raises(ValueError, match=message):
        compiled(text)


@pytest.mark.parametrize(
    "text",
    [
        "^410:",
        "(?P<gen>[^/]+)/(?P<pos>[0-9]+)",
        r"\(a\)+",
        "[(+)]+x",
        "[]()+]+",
        "(a|b)?",
        "a{3}b{4}",
        "(?=a)a+?",
        r"[\]*+]*",
        "(?i:error)",
        "(?P<gen>.+):(?P<pos>[^:]+)",
    ],
)
def test_a_plain_pattern_is_taken(text: str) -> None:
    """What only looks like a repeated group is none."""
    assert re.compile(text) == compiled(text)


def test_the_slowest_pattern_that_is_taken_is_fast_enough() -> None:
    """The longest text that no part fits, against as many repeats as there may be."""
    slow = Pattern("a*a*a*b")
    assert not slow.fits("a" * TEXT_CHARS_MAX)


def test_a_text_that_is_too_long_fits_nothing() -> None:
    """A whole text is not cut, or its beginning would pass for all of it."""
    assert not Pattern(".*").fits("x" * (TEXT_CHARS_MAX + 1))
    assert Pattern("(?P<gen>.*)").read("x" * (TEXT_CHARS_MAX + 1)) == {}


def test_a_search_looks_at_the_beginning() -> None:
    """As much of a comment as is bounded."""
    search = Search("410: (?P<gen>.)")
    assert search.finds(":410: Gone")
    assert not search.finds("x" * TEXT_CHARS_MAX + "410: Gone")
    assert {"gen": "G"} == search.read("410: Gone")
    assert {} == search.read("411: Gone")
