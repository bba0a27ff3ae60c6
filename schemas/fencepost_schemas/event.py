"""A classified event as it travels: CloudEvents in binary mode over NATS headers.

The payload is the source's data bytes, untouched. Every header value is percent-encoded, because
the broker's client strips spaces and mangles non-ASCII text; no `Nats-*` header is ever copied
from a source.
"""

import hashlib
import re
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from urllib.parse import quote, unquote

import msgspec

from fencepost_schemas.limits import KIB
from fencepost_schemas.standing import Standing
from fencepost_schemas.subject import NAMES_KNOWN_MAX, checked_generation, is_app_source, slug


class KeyScope(StrEnum):
    """What the source says of its idempotency keys."""

    DURABLE = "durable"
    GENERATION = "generation"
    NONE = "none"


class ClassifiedEvent(msgspec.Struct, frozen=True, gc=False):
    """An event with all that the pool needs to decide what may be done with it.

    `key` is the source's idempotency key, None where it has none. `verdict` is the connection's
    own verdict, `standing` the lineage's. `namespace` is where the key is unique: the source's
    name, unless sources were declared to share their business ids. `withheld` names why the
    payload was left behind ("too_large"); `size` then still tells how long it was. `snapshot` holds
    for a piece of the source's state, which is not what comes next.

    An event that a reconciler emitted names the source whose gap it fills, and the gap's id; its
    `source` is the app that emitted it.
    """

    source: str
    generation: str
    standing: Standing
    verdict: Standing
    type: str
    position: str
    fingerprint: str
    time: str
    payload: bytes
    key: str | None = None
    key_scope: KeyScope = KeyScope.NONE
    namespace: str = ""
    content_type: str = "application/json"
    withheld: str = ""
    size: int = 0
    snapshot: bool = False
    fills: str = ""
    gap: str = ""

    @property
    def told_of(self) -> str:
        """The source whose work this event is: its own, or the one whose gap it fills."""
        return self.fills or self.source


class BadEvent(ValueError):
    """A message on an event's subject that is not an event of this house."""


def fingerprint_of(payload: bytes) -> str:
    """Return SHA-256 over the raw bytes: two parsers may disagree on JSON, never on bytes."""
    return hashlib.sha256(payload).hexdigest()


_STANDINGS = {standing.value: standing for standing in Standing}
_KEY_SCOPES = {scope.value: scope for scope in KeyScope}
_SOURCES = "/sources/"
_SAFE = "!#$&'()*+,/:;=?@[]~-._"
_AS_IT_IS = re.compile(f"[A-Za-z0-9{re.escape(_SAFE)}]*")


def _encode(value: str) -> str:
    # Nearly every value is as it may stand, and looking is far cheaper than quoting.
    if _AS_IT_IS.fullmatch(value):
        return value
    return quote(value, safe=_SAFE, errors="surrogatepass")


_encoded = lru_cache(maxsize=NAMES_KNOWN_MAX)(_encode)
NAME_CHARS_MAX = 128
"""What is longer is not kept: a source may send types of a megabyte, each another one."""


def _encode_name(value: str) -> str:
    """Encode what is the same in many events."""
    return _encoded(value) if len(value) <= NAME_CHARS_MAX else _encode(value)


def _decode(value: str) -> str:
    return unquote(value, errors="surrogatepass") if "%" in value else value


def headers_of(event: ClassifiedEvent) -> dict[str, str]:
    """Return the CloudEvents headers (NATS binding 1.0.3, draft) with our extensions."""
    position = _encode(event.position)
    headers = {
        "ce-specversion": "1.0",
        "ce-id": f"{_encode_name(event.generation)}/{position}",
        "ce-source": f"{_SOURCES}{event.source}",
        "ce-type": _encode_name(event.type),
        "ce-time": _encode_name(event.time),
        "ce-datacontenttype": _encode_name(event.content_type),
        "ce-generation": event.generation,
        "ce-position": position,
        "ce-standing": event.standing.value,
        "ce-verdict": event.verdict.value,
        "ce-fingerprint": event.fingerprint,
        "ce-keyscope": event.key_scope.value,
    }
    if event.key is not None:
        headers["ce-key"] = _encode(event.key)
    if event.namespace:
        headers["ce-namespace"] = event.namespace
    if event.withheld:
        headers["ce-withheld"] = _encode(event.withheld)
        headers["ce-size"] = str(event.size)
    if event.snapshot:
        headers["ce-snapshot"] = "true"
    if event.gap:
        headers["ce-fills"] = event.fills
        headers["ce-gap"] = event.gap
    return headers


def event_of(headers: Mapping[str, str], payload: bytes) -> ClassifiedEvent:
    """Return the event that these headers and bytes carry; raise BadEvent where they do not."""
    try:
        event = _read(headers, payload)
        slug(event.source)
        checked_generation(event.generation)
        if event.gap:
            slug(event.fills)
    except (KeyError, ValueError) as error:
        raise BadEvent(f"not a classified event: {error}") from None
    if headers.get("ce-specversion") != "1.0" or not headers["ce-source"].startswith(_SOURCES):
        raise BadEvent("not a classified event: not CloudEvents 1.0 of a source of this house")
    if event.size < 0 or (event.withheld and payload):
        raise BadEvent("not a classified event: its payload is withheld and there, or of no size")
    if event.gap and not is_app_source(event.source):
        raise BadEvent("not a classified event: only an app fills gaps")
    if not event.withheld and fingerprint_of(payload) != event.fingerprint:
        raise BadEvent("the payload does not match its fingerprint")
    return event


def _read(headers: Mapping[str, str], payload: bytes) -> ClassifiedEvent:
    key = headers.get("ce-key")
    return ClassifiedEvent(
        source=headers["ce-source"].removeprefix(_SOURCES),
        generation=headers["ce-generation"],
        standing=_STANDINGS[headers["ce-standing"]],
        verdict=_STANDINGS[headers["ce-verdict"]],
        type=_decode(headers["ce-type"]),
        position=_decode(headers["ce-position"]),
        fingerprint=headers["ce-fingerprint"],
        time=_decode(headers["ce-time"]),
        payload=payload,
        key=None if key is None else _decode(key),
        key_scope=_KEY_SCOPES[headers["ce-keyscope"]],
        namespace=headers.get("ce-namespace", ""),
        content_type=_decode(headers.get("ce-datacontenttype", "")),
        withheld=_decode(headers.get("ce-withheld", "")),
        size=int(headers.get("ce-size", "0")),
        snapshot=headers.get("ce-snapshot") == "true",
        fills=headers.get("ce-fills", ""),
        gap=headers.get("ce-gap", ""),
    )


CARRIED_BYTES = 8 * KIB
"""Room for what a question says beside the event that it carries."""


def bytes_carried(headers: Mapping[str, str], payload: bytes) -> int:
    """Return how large the event becomes wherever it goes: a question carries it in base64."""
    in_headers = len("".join(headers)) + len("".join(headers.values())) + 8 * len(headers)
    return in_headers + CARRIED_BYTES + -(-len(payload) // 3) * 4
