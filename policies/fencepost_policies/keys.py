"""Which idempotency key an event is applied under.

The rule belongs to the source. A key that the source scopes to its generation means nothing once
the generation is in doubt, and then counts as no key at all.
"""

import re

import msgspec

from fencepost_policies.pointer import Undecodable, read_json, resolve_text
from fencepost_schemas.event import ClassifiedEvent, KeyScope
from fencepost_schemas.limits import KEY_BYTES_MAX

_COUNTED = re.compile(r"(\+[0-9]+)?")
"""How a position reads that has no id in it: empty, or the ordinal alone."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Key(msgspec.Struct, frozen=True, gc=False):
    """`text` is what the ledger row is keyed on; `own` says that the source (or handler) gave it.

    `usable` is False where the text only names a place, for a row that is refused.
    """

    text: str
    own: bool
    usable: bool


def key_in(pointer: str, data: str | bytes) -> str | None:
    """Return the idempotency key that the data carries, or None where it carries none."""
    try:
        found = resolve_text(pointer, read_json(data))
    except Undecodable:
        return None
    return found if found is not None and acceptable(found) else None


def acceptable(key: str) -> bool:
    """Return True for 1 to 255 bytes without control characters."""
    size = len(key.encode("utf-8", "surrogatepass"))
    return 0 < size <= KEY_BYTES_MAX and not _CONTROL.search(key)


def names_a_place(position: str) -> bool:
    """Return True unless this position only counts from the beginning of its generation.

    Without any id it begins anew in each generation, and is another place in each.
    """
    return not _COUNTED.fullmatch(position)


def key_for(event: ClassifiedEvent, *, tainted: bool, generation: str, own: str | None) -> Key:
    """Return the key to apply this event under.

    `tainted` says whether position and generation may still be trusted to name the event (a
    ruling can restore that); `generation` is the one that positions are counted in, an ancestor
    where a person ruled that the stream went on; `own` is the handler's key, or the source's.
    """
    if own is not None and event.key_scope is KeyScope.DURABLE:
        return Key(f"k:{own}", own=True, usable=True)
    if own is not None and event.key_scope is KeyScope.GENERATION:
        return Key(f"g:{generation}:{own}", own=True, usable=not tainted)
    return Key(f"p:{generation}:{event.position}", own=False, usable=not tainted)
