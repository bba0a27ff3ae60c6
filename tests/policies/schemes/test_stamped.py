"""Proves what ids with a time in them say, and that a second between two writers says nothing."""

import pytest

from fencepost_policies.schemes.scheme import Order
from fencepost_policies.schemes.stamped import ULID, UUID7, read_ulid, read_uuid7

ULID_ID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
UUID_ID = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"
MS = 1_645_557_742_000


def uuid_at(ms: int, tail: str = "8f") -> str:
    digits = f"{ms:012x}"
    return f"{digits[:8]}-{digits[8:]}-7cc3-98c4-dc0c0c0739{tail}"


def test_the_times_of_the_specifications() -> None:
    """The examples of the ULID page and of RFC 9562, appendix A.6."""
    ulid, uuid = read_ulid(ULID_ID), read_uuid7(UUID_ID)
    assert ulid is not None and uuid is not None
    assert (1_469_922_850_259, MS) == (ulid[0], uuid[0])


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        (uuid_at(MS), Order.SAME),
        (uuid_at(MS).upper(), Order.SAME),
        (f"urn:uuid:{uuid_at(MS)}", Order.SAME),
        (uuid_at(MS, "90"), Order.UNKNOWN),
        (uuid_at(MS + 1_000), Order.UNKNOWN),
        (uuid_at(MS - 1_000), Order.UNKNOWN),
        (uuid_at(MS + 1_001), Order.AFTER),
        (uuid_at(MS - 1_001), Order.BEFORE),
        ("017f22e2-79b0-4cc3-98c4-dc0c0c07398f", Order.UNKNOWN),
        (UUID_ID.replace("-", ""), Order.UNKNOWN),
    ],
)
def test_two_writers_have_two_clocks(later: str, expected: Order) -> None:
    """Only ids more than a second apart have an order."""
    assert expected is UUID7.compare(UUID_ID, later)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ULID_ID[:-1],
        ULID_ID + "0",
        "8" + ULID_ID[1:],
        ULID_ID.replace("A", "I"),
        ULID_ID.replace("A", "U"),
    ],
)
def test_what_is_no_ulid(text: str) -> None:
    """26 letters of its own alphabet, and no more time than fits into 48 bits."""
    assert read_ulid(text) is None


def test_ulids_are_ordered_by_time_alone() -> None:
    """Small letters are the same id."""
    assert ULID.compare(ULID_ID, ULID_ID.lower()) is Order.SAME
    assert ULID.compare(ULID_ID, "01BRZ3NDEKTSV4RRFFQ69G5FAV") is Order.AFTER
    assert ULID.compare(ULID_ID, ULID_ID[:-1] + "W") is Order.UNKNOWN
