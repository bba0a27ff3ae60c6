"""Proves that an event survives its headers, and that what was tampered with is no event."""

import hashlib

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fencepost_schemas.event import (
    BadEvent,
    ClassifiedEvent,
    KeyScope,
    _encoded,
    event_of,
    fingerprint_of,
    headers_of,
)
from fencepost_schemas.standing import Standing

ANY = settings(deadline=None, max_examples=100)
everything = st.text(alphabet=st.characters(), max_size=40)  # lone surrogates included

EVENT = ClassifiedEvent(
    source="crm",
    generation="0003-k7f2abcd",
    standing=Standing.UNVERIFIABLE,
    verdict=Standing.RESUMED,
    type="task.assigned",
    position="4118+2",
    fingerprint=fingerprint_of(b'{"task_id":1}'),
    time="2026-11-12T09:30:00Z",
    payload=b'{"task_id":1}',
    key="task 1",
    key_scope=KeyScope.DURABLE,
)
WITHHELD = msgspec.structs.replace(EVENT, payload=b"", withheld="too_large", size=9_000_000)


def test_the_fingerprint_is_sha_256_of_the_raw_bytes() -> None:
    """Equal JSON in other bytes is another payload."""
    assert hashlib.sha256(b"{}").hexdigest() == fingerprint_of(b"{}")
    assert fingerprint_of(b"{}") != fingerprint_of(b"{ }")


def test_the_headers_are_cloud_events_in_binary_mode() -> None:
    """The names and values are those of the binding, with our extensions beside them."""
    assert {
        "ce-specversion": "1.0",
        "ce-id": "0003-k7f2abcd/4118+2",
        "ce-source": "/sources/crm",
        "ce-type": "task.assigned",
        "ce-time": "2026-11-12T09:30:00Z",
        "ce-datacontenttype": "application/json",
        "ce-generation": "0003-k7f2abcd",
        "ce-position": "4118+2",
        "ce-standing": "unverifiable",
        "ce-verdict": "resumed",
        "ce-fingerprint": EVENT.fingerprint,
        "ce-keyscope": "durable",
        "ce-key": "task%201",
    } == headers_of(EVENT)


@ANY
@given(everything, everything, st.none() | everything, st.binary(max_size=40))
@example(" lead and trail ", "a b\nc\r\n\t\0", "100%25 %zz", b"\xff\0")
@example("ä€😀", "\x7f\x80\x9f\xa0", "\ud800\udc00", b"")
@example("", "", "", b"")
def test_an_event_comes_back_from_its_headers(
    kind: str, position: str, key: str | None, payload: bytes
) -> None:
    """Types, positions and keys of any text survive, and None is not the empty key."""
    event = msgspec.structs.replace(
        EVENT,
        type=kind,
        position=position,
        key=key,
        payload=payload,
        fingerprint=fingerprint_of(payload),
    )
    assert event == event_of(headers_of(event), payload)


@pytest.mark.parametrize("standing", Standing)
@pytest.mark.parametrize("scope", KeyScope)
def test_every_standing_and_scope_comes_back(standing: Standing, scope: KeyScope) -> None:
    """Each word of the two vocabularies travels."""
    event = msgspec.structs.replace(EVENT, standing=standing, verdict=standing, key_scope=scope)
    assert event == event_of(headers_of(event), event.payload)


def test_a_withheld_event_tells_how_long_its_payload_was() -> None:
    """The payload stayed behind; its size and digest travel."""
    assert WITHHELD == event_of(headers_of(WITHHELD), b"")


def _assert_safe(headers: dict[str, str]) -> None:
    for name, value in headers.items():
        assert not name.lower().startswith("nats-")
        assert name.isascii() and name == name.strip() and ":" not in name
        assert all(0x20 <= ord(char) < 0x7F for char in value), (name, value)
        assert value == value.strip(), (name, value)


@ANY
@given(everything, everything, everything)
@example(" ", "\r\nNats-Msg-Id: x", "\x7f")
def test_no_header_carries_what_the_client_would_mangle(kind: str, position: str, key: str) -> None:
    """No value has a control character, foreign text or outer space; no name is the broker's."""
    event = msgspec.structs.replace(EVENT, type=kind, position=position, key=key)
    _assert_safe(headers_of(event))


@pytest.mark.parametrize("text", ["a\r\nNats-Msg-Id: x", " a ", "ä", "a\0"], ids=ascii)
@pytest.mark.parametrize("field", ["content_type", "time", "withheld"])
def test_every_text_of_an_event_is_encoded(field: str, text: str) -> None:
    """The fields that are usually our own words come from a source's headers one day."""
    event = msgspec.structs.replace(EVENT, **{field: text})
    _assert_safe(headers_of(event))


@ANY
@given(st.binary(max_size=40))
def test_another_payload_is_no_event(payload: bytes) -> None:
    """The fingerprint in the headers vouches for the bytes."""
    if payload == EVENT.payload:
        return
    with pytest.raises(BadEvent):
        event_of(headers_of(EVENT), payload)


FILLING = msgspec.structs.replace(EVENT, source="app-shop", fills="crm", gap="gap-abc")


def test_what_fills_a_gap_says_whose() -> None:
    """It is an app's event, and the work of the source that has the gap."""
    headers = headers_of(FILLING)
    assert ("crm", "gap-abc") == (headers["ce-fills"], headers["ce-gap"])
    assert FILLING == event_of(headers, FILLING.payload)
    assert ("crm", "crm") == (FILLING.told_of, EVENT.told_of)


@pytest.mark.parametrize(
    "changes", [{"ce-source": "/sources/crm"}, {"ce-fills": ""}, {"ce-fills": "a.>"}]
)
def test_what_fills_a_gap_and_does_not_say_so_rightly_is_no_event(changes: dict[str, str]) -> None:
    """A source cannot pass for an app, nor an app for a name that is none."""
    with pytest.raises(BadEvent):
        event_of({**headers_of(FILLING), **changes}, FILLING.payload)


def test_a_withheld_event_with_a_payload_is_no_event() -> None:
    """What was left behind cannot be here; bytes that nothing vouches for are not taken."""
    with pytest.raises(BadEvent):
        event_of(headers_of(WITHHELD), b"smuggled")


@pytest.mark.parametrize(
    "name",
    [
        "ce-specversion",
        "ce-source",
        "ce-type",
        "ce-time",
        "ce-generation",
        "ce-position",
        "ce-standing",
        "ce-verdict",
        "ce-fingerprint",
        "ce-keyscope",
    ],
)
def test_a_missing_header_is_no_event(name: str) -> None:
    """Nothing that decides over an event has a default."""
    headers = headers_of(EVENT)
    del headers[name]
    with pytest.raises(BadEvent):
        event_of(headers, EVENT.payload)


def test_no_headers_are_no_event() -> None:
    """A bare message on an event's subject is refused as such."""
    with pytest.raises(BadEvent):
        event_of({}, b"{}")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ce-specversion", "0.3"),
        ("ce-standing", "trusted"),
        ("ce-standing", ""),
        ("ce-standing", "RESUMED"),
        ("ce-verdict", "fine"),
        ("ce-keyscope", "forever"),
        ("ce-type", "%ff"),
        ("ce-position", "%C3"),
        ("ce-key", "%80"),
        ("ce-fingerprint", ""),
        ("ce-fingerprint", "0" * 64),
        ("ce-source", "crm"),
        ("ce-source", "/sources/"),
        ("ce-source", "/sources/a.b"),
        ("ce-source", "/sources/>"),
        ("ce-generation", ""),
        ("ce-generation", "*"),
    ],
)
def test_an_invalid_header_is_no_event(name: str, value: str) -> None:
    """A value outside its vocabulary or its encoding is refused, not guessed at."""
    with pytest.raises(BadEvent):
        event_of(headers_of(EVENT) | {name: value}, EVENT.payload)


@pytest.mark.parametrize("size", ["", "x", "-1", "1.5", "9" * 5_000])
def test_a_withheld_size_that_is_no_size_is_no_event(size: str) -> None:
    """A length is a whole number and not negative."""
    with pytest.raises(BadEvent):
        event_of(headers_of(WITHHELD) | {"ce-size": size}, b"")


def test_a_type_that_is_far_too_long_for_a_name_is_not_remembered() -> None:
    """A source may send types of a megabyte, each another one; none of them may stay."""
    headers_of(EVENT)
    before = _encoded.cache_info().misses
    for first in "abc":
        long = msgspec.structs.replace(EVENT, type=first * 100_000)
        assert long == event_of(headers_of(long), long.payload)
    assert before == _encoded.cache_info().misses
