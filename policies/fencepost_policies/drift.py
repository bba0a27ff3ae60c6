"""What it means that a stream or a consumer is not as the house made it.

Most differences are told and left to `fencepost init`. A few make the promise untrue: a stream that
forgets what must be remembered lets work be done twice, and nothing would say so.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

UNLIMITED = ("max_bytes", "max_msgs")
"""Limits past which a stream with `discard: old` forgets its oldest messages."""
NEVER_OTHERWISE = ("retention", "storage", "discard_new_per_subject", "sealed")
"""Fields that have to be as they were made, whatever else they are."""


class Drift(msgspec.Struct, frozen=True):
    """One field of a stream or consumer. `forgets` says that nobody may work on it as it is."""

    what: str
    field: str
    found: Any
    wanted: Any
    forgets: bool = False

    def __str__(self) -> str:
        return f"{self.what}: {self.field} is {self.found!r}, and {self.wanted!r} is wanted"


def differs(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Return the fields that differ; the broker leaves out what is false, 0 or empty."""
    return [field for field, value in wanted.items() if found.get(field, type(value)()) != value]


def stream_drifts(
    what: str, found: Mapping[str, Any], wanted: Mapping[str, Any]
) -> Iterator[Drift]:
    """Yield what differs from the stream that is wanted."""
    for field in differs(found, wanted):
        value = wanted[field]
        stands = found.get(field, type(value)())
        yield Drift(what, field, stands, value, _forgets(field, found, wanted))


def _forgets(field: str, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return True where a stream with this field as it is may lose what has to be kept."""
    if field in NEVER_OTHERWISE:
        return True
    if field == "discard":
        return any(found.get(limit, -1) > 0 for limit in UNLIMITED)
    if field in UNLIMITED:
        return bool(found.get("discard", "old") == "old")
    if field == "max_age":
        # A shorter age forgets sooner; where none is wanted, nothing may ever be forgotten.
        return not wanted["max_age"]
    if field == "max_msgs_per_subject":
        return wanted[field] == 1 and bool(wanted.get("discard_new_per_subject"))
    return False
