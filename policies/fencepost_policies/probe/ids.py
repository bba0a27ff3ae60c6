"""The shape of ids: how they look, how they might be ordered, and ids that were never given.

An id is a cursor, and may be a secret; so only its shape is ever shown.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise

import msgspec

from fencepost_schemas.subject import digest_token

SHAPE_CHARS_MAX = 60
FAR = 1_000_000_000
"""How far from the newest an id of the future is."""
FAR_S = 365 * 24 * 3600
"""The same for an id that is a time in seconds; in milliseconds a thousandfold."""


class Kind(StrEnum):
    """What an id is made of."""

    NONE = "none"
    INTEGER = "integer"
    TIME_TAG = "time_tag"
    MS_SEQ = "ms_seq"
    PREFIXED = "prefixed"
    ULID = "ulid"
    UUID7 = "uuidv7"
    UUID = "uuid"
    VECTOR = "vector"
    OPAQUE = "opaque"


_UUID = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_UUID7 = re.compile("[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-7[0-9a-fA-F]{3}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")
_GRAMMARS = (
    (Kind.INTEGER, re.compile("[0-9]{1,40}")),
    (Kind.TIME_TAG, re.compile("[0-9]{10}:[0-9]+")),
    (Kind.MS_SEQ, re.compile("[0-9]{13}-[0-9]+")),
    (Kind.ULID, re.compile("[0-7][0-9A-HJKMNP-TV-Z]{25}")),
    (Kind.UUID7, _UUID7),
    (Kind.UUID, _UUID),
    (Kind.VECTOR, re.compile(r"\[\{.*\}\]|[^,:]+:[0-9]+(,[^,:]+:[0-9]+)+")),
)
_PREFIXED = re.compile("(?P<prefix>.*[^0-9])(?P<number>[0-9]{1,18})")


class Shape(msgspec.Struct, frozen=True):
    """`dense` holds where each id was the successor of the one before; None where too few came.

    `looks` is how one id looks.
    """

    kind: Kind
    looks: str = ""
    dense: bool | None = None


def shape_of(ids: Sequence[str]) -> Shape:
    """Return the shape of the ids of one connection, in the order in which they came."""
    given = [one for one in ids if one]
    if not given:
        return Shape(Kind.NONE)
    looks = looks_of(given[-1])
    for kind, grammar in _GRAMMARS:
        if all(grammar.fullmatch(one) for one in given):
            return Shape(kind, looks, _dense(kind, given))
    found = [_PREFIXED.fullmatch(one) for one in given]
    prefixes = {match["prefix"] if match else None for match in found}
    if len(given) > 1 and len(prefixes) == 1 and None not in prefixes:
        numbers = [match["number"] for match in found if match]
        return Shape(Kind.PREFIXED, looks, _dense(Kind.INTEGER, numbers))
    return Shape(Kind.OPAQUE, looks)


def _dense(kind: Kind, ids: Sequence[str]) -> bool | None:
    if kind is not Kind.INTEGER or len(ids) < 3:
        return None
    numbers = [int(one) for one in ids]
    return all(after == before + 1 for before, after in pairwise(numbers))


def looks_of(event_id: str) -> str:
    """Return how an id looks, and nothing of what it says.

    Each run of digits is as many 9, of letters a, of both x; which are which is not told.
    """
    looks = re.sub("[^\\W_]+", lambda run: _run(run[0]), event_id)
    shown = "".join(char if char.isprintable() else "?" for char in looks)
    return shown if len(shown) <= SHAPE_CHARS_MAX else f"{shown[:SHAPE_CHARS_MAX]}..."


def _run(text: str) -> str:
    kind = "9" if text.isdecimal() else "a" if text.isalpha() else "x"
    return kind * len(text)


def never_given(event_id: str, shape: Shape, salt: str) -> str:
    """Return an id of the same shape that no server can have given; "" where there is none.

    Any smaller integer may have been given once, so for them one of the future has to do.
    """
    if shape.kind in (Kind.NONE, Kind.INTEGER):
        return ""
    if shape.kind in (Kind.TIME_TAG, Kind.MS_SEQ):
        separator, far = _time_of(shape.kind)
        time, _, rest = event_id.partition(separator)
        return f"{max(int(time) - far, 0):0{len(time)}d}{separator}{rest}"
    if shape.kind is Kind.PREFIXED:
        prefix, number = _parts(event_id)
        return scrambled(prefix, salt) + number
    if shape.kind is Kind.ULID:
        return event_id[0] + scrambled(event_id[1:], salt)
    if shape.kind is Kind.UUID7:
        return event_id[:15] + scrambled(event_id, salt)[15:]
    return scrambled(event_id, salt)


def from_the_future(event_id: str, shape: Shape) -> str:
    """Return an id that only a server of the future can give; "" where ids have no order."""
    if shape.kind is Kind.INTEGER:
        return str(int(event_id) + FAR)
    if shape.kind in (Kind.TIME_TAG, Kind.MS_SEQ):
        separator, far = _time_of(shape.kind)
        time, _, rest = event_id.partition(separator)
        return f"{int(time) + far}{separator}{rest}"
    if shape.kind is Kind.PREFIXED:
        prefix, number = _parts(event_id)
        return f"{prefix}{int(number or 0) + FAR}"
    if shape.kind is Kind.ULID:
        return f"7{event_id[1:]}"
    if shape.kind is Kind.UUID7:
        return f"f{event_id[1:]}"
    return ""


def _parts(event_id: str) -> tuple[str, str]:
    """Return what stands before the number of a prefixed id, and the number."""
    match = _PREFIXED.fullmatch(event_id)
    return (match["prefix"], match["number"]) if match else (event_id, "")


def _time_of(kind: Kind) -> tuple[str, int]:
    return (":", FAR_S) if kind is Kind.TIME_TAG else ("-", FAR_S * 1000)


def scrambled(text: str, salt: str) -> str:
    """Return a text of the same shape: other digits and letters, the rest as it is."""
    made = []
    for at, char in enumerate(text):
        chance = digest_token(salt, text, str(at))
        number = sum(map(ord, chance))
        letters = "abcdef" if _UUID.fullmatch(text) else "abcdefghjkmnpqrstvwxyz"
        letter = letters[number % len(letters)]
        if char.isdigit():
            made.append(str(number % 10))
        elif char.isalpha():
            made.append(letter.upper() if char.isupper() else letter)
        else:
            made.append(char)
    return "".join(made)
