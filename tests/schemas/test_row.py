"""Proves that a row survives its bytes, and that what we do not know is left alone."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost_schemas.row import (
    READABLE_VERSIONS,
    ROW_VERSION,
    Effect,
    Row,
    State,
    UnknownRowVersion,
    decode_row,
    encode_row,
)
from fencepost_schemas.standing import Standing

ROW = Row(
    state=State.STARTED,
    handler="charge",
    namespace="crm",
    key="k:task-1",
    fingerprint="0" * 64,
    effect=Effect.ONCE,
    standing=Standing.RESUMED,
    source="crm",
    generation="0003-k7f2abcd",
    position="4118",
    first_seen_ms=1,
    changed_ms=2,
)

text = st.text()
times = st.integers(0, 2**53)
rows = st.builds(
    Row,
    state=st.sampled_from(State),
    handler=text,
    namespace=text,
    key=text,
    fingerprint=text,
    effect=st.sampled_from(Effect),
    standing=st.sampled_from(Standing),
    source=text,
    generation=text,
    position=text,
    first_seen_ms=times,
    changed_ms=times,
    attempt=st.integers(0, 1_000),
    claim=text,
    owner=text,
    lease_until_ms=times,
    quarantine_until_ms=times,
    due_ms=times,
    sink_until_ms=times,
    sink_attempt=st.integers(0, 1_000),
    result_digest=text,
    error=text,
    actor=text,
    gap=text,
    version=st.just(ROW_VERSION),
)


@settings(deadline=None)
@given(rows)
def test_a_row_comes_back_from_its_bytes(row: Row) -> None:
    """Encoding and decoding are inverse."""
    assert row == decode_row(encode_row(row))


# --- what other releases wrote
VERSION_1 = (
    b'{"state":"retry_wait","handler":"charge","namespace":"crm","key":"k:task-1",'
    b'"fingerprint":"f1","effect":"idempotent","standing":"resumed","source":"crm",'
    b'"generation":"0003-k7f2abcd","position":"4118","first_seen_ms":1,"changed_ms":2,'
    b'"attempt":3,"claim":"c","owner":"w","lease_until_ms":4,"quarantine_until_ms":5,"due_ms":6,'
    b'"result_digest":"r","error":"e","actor":"eve","version":1}'
)
"""Byte for byte as the release before this one wrote it."""


def test_a_row_of_version_1_is_read_as_one_of_this_release() -> None:
    """After an upgrade every row still counts, and the next write makes it a row of today."""
    row = decode_row(VERSION_1)
    expected = msgspec.structs.replace(
        ROW,
        state=State.RETRY_WAIT,
        fingerprint="f1",
        effect=Effect.IDEMPOTENT,
        attempt=3,
        claim="c",
        owner="w",
        lease_until_ms=4,
        quarantine_until_ms=5,
        due_ms=6,
        result_digest="r",
        error="e",
        actor="eve",
    )
    assert expected == row
    assert (3, 0, 0, "") == (row.version, row.sink_until_ms, row.sink_attempt, row.gap)
    assert row == decode_row(encode_row(row))


@pytest.mark.parametrize("version", READABLE_VERSIONS)
@pytest.mark.parametrize("effect", [Effect.ONCE, Effect.IDEMPOTENT])
@pytest.mark.parametrize("state", [state for state in State if state is not State.CLAIMED])
def test_whatever_an_older_release_could_write_is_read(
    state: State, effect: Effect, version: int
) -> None:
    """Every state and effect of version 1 is one of this release, under the same word."""
    old = msgspec.json.decode(VERSION_1)
    payload = msgspec.json.encode({**old, "state": state, "effect": effect, "version": version})
    row = decode_row(payload)
    assert (state, effect, ROW_VERSION) == (row.state, row.effect, row.version)


@pytest.mark.parametrize("version", [-1, 0, ROW_VERSION + 1, 10**12])
def test_a_row_of_another_version_is_left_alone(version: int) -> None:
    """A newer release's row is named as such, whatever its shape, and never read as ours."""
    payload = msgspec.json.encode({"version": version, "state": "dreaming", "new": [1, {}]})
    with pytest.raises(UnknownRowVersion, match="version"):
        decode_row(payload)


def test_a_row_without_a_version_is_left_alone() -> None:
    """Absence of a version is not the present one."""
    with pytest.raises(UnknownRowVersion):
        decode_row(b"{}")


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"7",
        b'"row"',
        b'{"version":"1"}',
        b'{"version":1}',
        b'{"version":2}',
        b'{"version":3}',
        encode_row(ROW)[:-1],
        encode_row(ROW) + b"x",
        encode_row(ROW).replace(b'"started"', b'"dreaming"'),
        encode_row(ROW).replace(b'"charge"', b"7"),
        b'{"version":1,"deep":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    ],
    ids=lambda payload: ascii(payload[:24]),
)
def test_garbage_is_no_row(payload: bytes) -> None:
    """Whatever is not a row raises the one error that the caller waits for."""
    with pytest.raises(msgspec.DecodeError):
        decode_row(payload)


def test_a_foreign_version_is_never_written() -> None:
    """This release writes rows of its own version only."""
    for version in (ROW_VERSION - 1, ROW_VERSION + 1):
        with pytest.raises(AssertionError):
            encode_row(msgspec.structs.replace(ROW, version=version))


def test_the_default_effect_words_are_the_documented_ones() -> None:
    """Programs rely on the words; `once` stands first because it is the default."""
    assert ["once", "keyed", "idempotent"] == [effect.value for effect in Effect]


def test_the_strictest_effect_is_the_one_that_forbids_most() -> None:
    """What may have been started keeps the strictest word that anybody declared of it."""
    by_strictness = sorted(Effect, key=lambda effect: effect.strictness)
    assert [Effect.IDEMPOTENT, Effect.KEYED, Effect.ONCE] == by_strictness


@pytest.mark.parametrize("state", State)
def test_a_state_is_terminal_or_parked_or_in_work(state: State) -> None:
    """The three are disjoint, and only three states are in work."""
    assert not (state.terminal and state.parked)
    in_work = state in (State.CLAIMED, State.STARTED, State.RETRY_WAIT)
    assert in_work == (not state.terminal and not state.parked)
