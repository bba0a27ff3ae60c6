"""RFC 6901 JSON pointers, read from decoded JSON."""

import re
from functools import lru_cache

import msgspec

POINTERS_KNOWN_MAX = 256
"""Pointers are of the configuration, and each is used for every event."""
_INDEX = re.compile("0|[1-9][0-9]{0,9}")


class Undecodable(ValueError):
    """The text is not JSON, or is nested too deeply to be read."""


class _Missing:
    """Stands for "nothing is there", which is not the same as null."""


MISSING = _Missing()


def check_pointer(pointer: str) -> str:
    """Return the pointer; raise ValueError if it is not one."""
    if pointer and not pointer.startswith("/"):
        raise ValueError(f"{pointer!r} is not a JSON pointer: begin with '/', as in '/task_id'")
    if re.search("~(?![01])", pointer):
        raise ValueError(f"{pointer!r} is not a JSON pointer: write '~' as '~0' and '/' as '~1'")
    return pointer


def read_json(text: str | bytes) -> object:
    """Return the decoded JSON; raise Undecodable."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        # A deep nest raises RecursionError, which msgspec does not count as a decode error.
        raise Undecodable(f"not JSON: {error}") from None


@lru_cache(maxsize=POINTERS_KNOWN_MAX)
def _tokens(pointer: str) -> tuple[str, ...]:
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])


def resolve(pointer: str, document: object) -> object:
    """Return what the pointer names in the document, or MISSING."""
    here = document
    for token in _tokens(pointer):
        if isinstance(here, dict):
            if token not in here:
                return MISSING
            here = here[token]
        elif isinstance(here, list):
            if not _INDEX.fullmatch(token) or int(token) >= len(here):
                return MISSING
            here = here[int(token)]
        else:
            return MISSING
    return here


def remove(pointer: str, document: object) -> object:
    """Return the document without what the pointer names; the given one is left as it is."""
    head, _, rest = pointer[1:].partition("/")
    token = head.replace("~1", "/").replace("~0", "~")
    if not isinstance(document, dict) or token not in document:
        return document
    if not rest:
        return {name: value for name, value in document.items() if name != token}
    return {**document, token: remove("/" + rest, document[token])}


def resolve_text(pointer: str, document: object) -> str | None:
    """Return a string, or an integer as text; None for anything else, true and false included."""
    found = resolve(pointer, document)
    if isinstance(found, str):
        return found
    if isinstance(found, int) and not isinstance(found, bool):
        return str(found)
    return None
