"""What is done differently from the client library has to come to the same."""

from hypothesis import given
from hypothesis import strategies as st
from nats.aio.client import Client

from fencepost.broker.login import QuickClient

PARTS = [b"Name", b":", b" ", b"\t", b"\r\n", b"\n", b"\x0b", b"\x1c", b"\xc3\xa9", b"\xff", b"x"]


@given(st.lists(st.sampled_from(PARTS), max_size=20).map(b"".join))
def test_headers_are_read_as_the_library_reads_them(raw: bytes) -> None:
    """Names with white space in them are dropped, values are trimmed, nothing raises."""
    assert Client._parse_header_lines(raw) == QuickClient._parse_header_lines(raw)
