"""Proves which key an event is applied under, and when that key may be relied on."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost_policies.keys import Key, acceptable, key_for, key_in, names_a_place
from fencepost_schemas.cursor import Position
from fencepost_schemas.event import ClassifiedEvent, KeyScope, fingerprint_of
from fencepost_schemas.limits import KEY_BYTES_MAX
from fencepost_schemas.standing import Standing

ANY = settings(deadline=None)
GENERATION = "0002-aaaaaaaa"
EVENT = ClassifiedEvent(
    source="crm",
    generation=GENERATION,
    standing=Standing.RESUMED,
    verdict=Standing.RESUMED,
    type="task",
    position="7",
    fingerprint=fingerprint_of(b"{}"),
    time="",
    payload=b"{}",
)
AT_PLACE = f"p:{GENERATION}:7"


@pytest.mark.parametrize(
    ("scope", "own", "tainted", "expected"),
    [
        (KeyScope.DURABLE, "t1", False, Key("k:t1", own=True, usable=True)),
        (KeyScope.DURABLE, "t1", True, Key("k:t1", own=True, usable=True)),
        (KeyScope.DURABLE, None, False, Key(AT_PLACE, own=False, usable=True)),
        (KeyScope.DURABLE, None, True, Key(AT_PLACE, own=False, usable=False)),
        (KeyScope.GENERATION, "t1", False, Key(f"g:{GENERATION}:t1", own=True, usable=True)),
        (KeyScope.GENERATION, "t1", True, Key(f"g:{GENERATION}:t1", own=True, usable=False)),
        (KeyScope.GENERATION, None, False, Key(AT_PLACE, own=False, usable=True)),
        (KeyScope.GENERATION, None, True, Key(AT_PLACE, own=False, usable=False)),
        (KeyScope.NONE, None, False, Key(AT_PLACE, own=False, usable=True)),
        (KeyScope.NONE, None, True, Key(AT_PLACE, own=False, usable=False)),
    ],
)
def test_the_key_of_an_event(
    scope: KeyScope, own: str | None, tainted: bool, expected: Key
) -> None:
    """Only a durable key of its own outlives the trust in its generation."""
    event = msgspec.structs.replace(EVENT, key_scope=scope)
    assert expected == key_for(event, tainted=tainted, generation=GENERATION, own=own)


def test_a_source_without_keys_has_none_that_is_usable_in_doubt() -> None:
    """Where the source promises nothing, what looks like a key is not relied on."""
    key = key_for(EVENT, tainted=True, generation=GENERATION, own="t1")
    assert not key.usable


def test_positions_are_counted_in_the_generation_that_is_named() -> None:
    """After a ruling of "same" the ancestor's positions count, and equal places meet."""
    moved = msgspec.structs.replace(EVENT, generation="0003-bbbbbbbb")
    first = key_for(EVENT, tainted=False, generation=GENERATION, own=None)
    assert first == key_for(moved, tainted=False, generation=GENERATION, own=None)


scopes = st.sampled_from(KeyScope)
owns = st.none() | st.text(min_size=1, max_size=6)
generations = st.sampled_from(["0001-aaaaaaaa", "0002-aaaaaaaa", "0012-aaaaaaaa"])


@ANY
@given(scopes, scopes, owns, owns, generations, generations, st.text(max_size=6))
def test_no_key_forges_another(
    first_scope: KeyScope,
    second_scope: KeyScope,
    first_own: str | None,
    second_own: str | None,
    first_generation: str,
    second_generation: str,
    position: str,
) -> None:
    """Equal texts come from the same kind of key, the same generation and the same words."""
    event = msgspec.structs.replace(EVENT, position=position)
    first = key_for(
        msgspec.structs.replace(event, key_scope=first_scope),
        tainted=False,
        generation=first_generation,
        own=first_own,
    )
    second = key_for(
        msgspec.structs.replace(event, key_scope=second_scope),
        tainted=False,
        generation=second_generation,
        own=second_own,
    )
    if first.text != second.text:
        return
    assert first.own == second.own
    assert not first.own or first_own == second_own
    assert first.text.startswith("k:") or first_generation == second_generation


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("t", True),
        ("a b", True),
        ("ä", True),
        ("x" * KEY_BYTES_MAX, True),
        ("", False),
        ("x" * (KEY_BYTES_MAX + 1), False),
        ("ä" * KEY_BYTES_MAX, False),
        ("a\n", False),
        ("a\0", False),
        ("a\x7f", False),
    ],
    ids=lambda value: ascii(value)[:12],
)
def test_a_key_is_bounded_and_plain(key: str, expected: bool) -> None:
    """1 to 255 bytes without control characters."""
    assert expected is acceptable(key)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ('{"id":"t1"}', "t1"),
        (b'{"id":"t1"}', "t1"),
        ('{"id":7}', "7"),
        ('{"id":""}', None),
        ('{"id":null}', None),
        ('{"id":true}', None),
        ('{"id":1.5}', None),
        ('{"id":["t1"]}', None),
        ('{"id":"a\\nb"}', None),
        ('{"id":"' + "x" * 256 + '"}', None),
        ('{"id":' + "9" * 5_000 + "}", None),
        ("{}", None),
        ("", None),
        ("no json", None),
        (b"\xff", None),
        ("[" * 5_000, None),
    ],
    ids=lambda value: ascii(value)[:16],
)
def test_the_key_in_the_data(data: str | bytes, expected: str | None) -> None:
    """Whatever is not an acceptable name is no key, and no data raises."""
    assert expected == key_in("/id", data)


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (Position("5"), True),
        (Position("5", 2), True),
        (Position("+5"), True),
        (Position(""), False),
        (Position("", 3), False),
    ],
    ids=str,
)
def test_a_position_without_an_id_names_no_place(position: Position, expected: bool) -> None:
    """It begins anew in each generation: the first event of one is not the first of another."""
    assert expected is names_a_place(str(position))
