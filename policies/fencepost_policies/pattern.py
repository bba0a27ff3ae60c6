"""Regular expressions from a configuration, held against the text of strangers.

Python's engine tries again from every place where it could have gone another way, so a pattern that
repeats what already repeats can take a server's text to keep a bridge busy for ever. Such patterns
are refused when the configuration is read, and the text is bounded.
"""

import re
from functools import cache

PATTERN_CHARS_MAX = 200
TEXT_CHARS_MAX = 256
"""What of a text is held against a pattern."""
REPEATS_MAX = 3
"""Parts of a pattern that may match more than one length: work grows with the text to this power,
and less as soon as the parts between them are plain."""

_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]")
_ESCAPE = re.compile(r"\\.", re.DOTALL)
_GROUP_HEAD = re.compile(r"\((?:\?(?:P<\w+>|:|=|!|<=|<!))?")
_REPEAT = re.compile(r"[*+?]|\{[0-9]*,[0-9]*\}")
_FIXED = re.compile(r"\{[0-9]+\}")


def compiled(text: str) -> re.Pattern[str]:
    """Return the pattern; raise ValueError for one that is none, or that could take for ever."""
    if len(text) > PATTERN_CHARS_MAX:
        raise ValueError(f"a pattern has at most {PATTERN_CHARS_MAX} characters")
    try:
        pattern = re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{text!r} is not a regular expression: {error}") from None
    plain = _GROUP_HEAD.sub("(", _CLASS.sub("c", _ESCAPE.sub("e", text)))
    if re.search(r"\)(?:[*+]|\{)", plain):
        raise ValueError(f"{text!r} repeats a group, which can take for ever: write it out")
    if len(_REPEAT.findall(re.sub(r"([*+?}])[?+]", r"\1", plain))) > REPEATS_MAX:
        raise ValueError(f"{text!r} has more than {REPEATS_MAX} repeats, which can take for ever")
    return pattern


class Pattern:
    """A checked pattern that has to fit a whole text."""

    def __init__(self, text: str) -> None:
        self._pattern = compiled(text)
        self.groups = frozenset(self._pattern.groupindex)

    def fits(self, text: str) -> bool:
        return len(text) <= TEXT_CHARS_MAX and self._pattern.fullmatch(text) is not None

    def read(self, text: str) -> dict[str, str]:
        """Return the named groups that took part in the match; nothing where the text does not
        fit."""
        found = self._pattern.fullmatch(text) if len(text) <= TEXT_CHARS_MAX else None
        return {} if found is None else _groups(found)


class Search:
    """A checked pattern that may fit anywhere in the beginning of a text."""

    def __init__(self, text: str) -> None:
        self._pattern = compiled(text)

    def finds(self, text: str) -> bool:
        return self._pattern.search(text[:TEXT_CHARS_MAX]) is not None

    def read(self, text: str) -> dict[str, str]:
        """Return the named groups that took part in the match; nothing where there is none."""
        found = self._pattern.search(text[:TEXT_CHARS_MAX])
        return {} if found is None else _groups(found)


@cache
def search_for(text: str) -> Search:
    """Return the search for this text of a configuration, compiled once."""
    return Search(text)


def _groups(found: re.Match[str]) -> dict[str, str]:
    return {name: value for name, value in found.groupdict().items() if value is not None}
