"""Lines of a ledger's copy: what is written is what is read, byte for byte."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost_schemas.export import (
    EXPORT_VERSION,
    ExportedRow,
    ExportEnd,
    ExportHeader,
    Reached,
    decode_line,
    encode_line,
    exported_row,
)
from fencepost_schemas.subject import BadSubject, Subjects

SUBJECT = "fp.ledger.charge.orders.abc"


@given(payload=st.binary(max_size=200) | st.from_regex(rb'\{"a": ?[0-9]{1,3}\}[ \n]?'))
def test_a_payload_comes_back_as_it_was(payload: bytes) -> None:
    """JSON or not, with line ends or without: one line, and the same bytes."""
    text = encode_line(exported_row(SUBJECT, payload))
    assert 1 == text.count(b"\n")
    line = decode_line(text)
    assert isinstance(line, ExportedRow)
    assert payload == line.payload


def test_a_header_and_an_end_come_back() -> None:
    """With all that they say."""
    header = ExportHeader(EXPORT_VERSION, "abc", "fp", 7, {"orders": Reached("0001-aaaaaaaa", 3)})
    assert header == decode_line(encode_line(header))
    assert ExportEnd(4) == decode_line(encode_line(ExportEnd(4)))


@pytest.mark.parametrize(
    "text", [b"", b"\n", b"{}", b'{"is":"other"}', b'{"is":"row"}', b"[" * 100_000, b"\xff"]
)
def test_anything_else_is_no_line(text: bytes) -> None:
    """One kind of error, whatever is wrong."""
    with pytest.raises(msgspec.DecodeError):
        decode_line(text)


def test_only_a_rows_subject_is_one() -> None:
    """Nothing with a wildcard in it, and nothing of another prefix or stream."""
    subjects = Subjects()
    assert SUBJECT == subjects.checked_row(SUBJECT)
    for wrong in (
        "",
        "fp.ledger.identity",
        "fp.ledger.*.*.*",
        "fp.ledger.charge.orders.>",
        "fp.ledger.charge.orders.abc.d",
        "xy.ledger.charge.orders.abc",
        "fp.events.charge.orders.abc",
        "fp.ledger.Charge.orders.abc",
    ):
        with pytest.raises(BadSubject):
            subjects.checked_row(wrong)


def test_filters_of_rows_and_letters() -> None:
    """A name, or a wildcard of ours; never one from outside."""
    subjects = Subjects()
    assert "fp.ledger.*.*.*" == subjects.rows_of() == subjects.rows()
    assert "fp.ledger.charge.*.*" == subjects.rows_of("charge")
    assert "fp.ledger.*.crm.*" == subjects.rows_of(None, "crm")
    assert "fp.ledger.*.*.abc" == subjects.row_anywhere("abc")
    assert ("fp.dead.*", "fp.dead.mail") == (subjects.dead_of(), subjects.dead_of("mail"))
    for build in (subjects.rows_of, subjects.dead_of, subjects.row_anywhere):
        for wrong in ("*", ">", "a.b", "A", ""):
            with pytest.raises(BadSubject):
                build(wrong)
