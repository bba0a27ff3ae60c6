"""The decoder gives the right frames, early, within its bounds, however the stream is cut.

Two authorities: the wire cases collected from the specification and other people's tests, and a
slow parser below that was written from the rules alone and sees the whole stream at once.
"""

import base64
import json
import random
import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost_schemas import sse
from fencepost_schemas.sse import Decoder, Frame, SseLimitExceeded

CASES_PATH = Path(__file__).resolve().parents[1] / "cases" / "sse.json"
CASES: list[dict[str, Any]] = json.loads(CASES_PATH.read_text(encoding="utf-8"))

each_case = pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])

TOKENS = [
    *[b"\r", b"\n", b"\r\n", b"\n\n", b"\r\n\r\n", b":", b": ", b" ", b"\t", b"\0", b"\x0b", b"x"],
    *[b"data", b"data: ", b"id", b"id: ", b"event", b"event: ", b"retry", b"retry: ", b"Data:"],
    *[b"0", b"7", b"-", "٣".encode(), "²".encode(), "€".encode(), "😀".encode()],
    *[b"\xc2\x85", b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"\xef", b"\xbb", b"\xbf", b"\xfe\xff"],
    *[
        b"\xff",
        b"\x80",
        b"\xc0\xaf",
        b"\xed\xa0\x80",
        b"\xf0\x9f",
        b"\xf4\x90\x80\x80",
        b"\xe2\x82",
    ],
    *[b"data: a\n", b"id: 1\n", b"event: e\n", b"retry: 5\n", b": c\n", b"\xef\xbb\xbfdata: a\n"],
]
streams = st.lists(st.sampled_from(TOKENS), max_size=60).map(b"".join)


def feed_all(decoder: Decoder, chunks: Iterable[bytes]) -> list[Frame]:
    return [frame for chunk in chunks for frame in decoder.feed(chunk)]


def cut_bytewise(stream: bytes) -> list[bytes]:
    return [stream[offset : offset + 1] for offset in range(len(stream))]


def cut_evenly(stream: bytes, size: int) -> list[bytes]:
    return [stream[offset : offset + size] for offset in range(0, len(stream), size)]


def cut_randomly(stream: bytes, seed: int) -> list[bytes]:
    """Cut into pieces of any size; about one in twenty is empty."""
    rng = random.Random(seed)
    pieces = []
    offset = 0
    while offset < len(stream):
        size = 0 if rng.random() < 0.05 else rng.choice([1, 1, 2, 3, 7, 30, 1000])
        pieces.append(stream[offset : offset + size])
        offset += size
    return pieces


def decode_slowly(stream: bytes, last_event_id: str = "") -> tuple[list[Frame], int | None]:
    """Say which frames a whole stream has, and its last retry, one character at a time."""
    text = stream.removeprefix(b"\xef\xbb\xbf").decode("utf-8", errors="replace")
    lines, line, position = [], "", 0
    while position < len(text):
        character = text[position]
        position += 1
        if character not in "\r\n":
            line += character
            continue
        if character == "\r" and text[position : position + 1] == "\n":
            position += 1
        lines.append(line)
        line = ""

    frames: list[Frame] = []
    retry: int | None = None
    block: list[tuple[str, str]] = []
    for line in lines:
        if line.startswith(":"):
            frames.append(Frame(last_event_id=last_event_id, comments=(line[1:],)))
        elif line:
            name, value = line, ""
            if ":" in line:
                name, value = line[: line.index(":")], line[line.index(":") + 1 :]
            block.append((name, value[1:] if value[:1] == " " else value))
            if name == "retry" and is_ascii_number(block[-1][1]):
                retry = int(block[-1][1])
        elif block:
            frames.append(summarise(block, last_event_id))
            last_event_id = frames[-1].last_event_id
            block = []
    return frames, retry


def is_ascii_number(value: str) -> bool:
    return value != "" and all(character in "0123456789" for character in value)


def summarise(block: list[tuple[str, str]], last_event_id: str) -> Frame:
    """Say what one ended block comes to, field by field."""
    data = [value for name, value in block if name == "data"]
    types = [value for name, value in block if name == "event"]
    ids = [value for name, value in block if name == "id" and "\0" not in value]
    retries = [value for name, value in block if name == "retry" and is_ascii_number(value)]
    return Frame(
        event=(types[-1] if types else "") or "message",
        data="\n".join(data) if data else None,
        last_event_id=ids[-1] if ids else last_event_id,
        id_seen=bool(ids),
        retry=int(retries[-1]) if retries else None,
        unknown_lines=sum(name not in ("data", "event", "id", "retry") for name, _ in block),
    )


# The wire cases.


def assert_case(case: dict[str, Any], chunks: Iterable[bytes]) -> None:
    decoder = Decoder(case.get("initial_id", ""))
    frames = feed_all(decoder, chunks)
    events = [
        {"event": frame.event, "data": frame.data, "id_after": frame.last_event_id}
        for frame in frames
        if frame.data is not None
    ]
    assert case["expected"] == events
    assert case["comments"] == [comment for frame in frames for comment in frame.comments]
    assert case["final_id"] == decoder.last_event_id
    assert case["retry"] == decoder.retry


def chunks_of(case: dict[str, Any]) -> list[bytes]:
    return [base64.b64decode(chunk) for chunk in case["chunks_base64"]]


@each_case
def test_case_as_it_arrived(case: dict[str, Any]) -> None:
    """Events, ids, comments and retry are the case's, in the pieces the case gives."""
    assert_case(case, chunks_of(case))


@each_case
def test_case_cut_otherwise(case: dict[str, Any]) -> None:
    """The same bytes mean the same whole, one by one, and cut anywhere."""
    stream = b"".join(chunks_of(case))
    assert_case(case, [stream])
    assert_case(case, cut_bytewise(stream))
    for seed in range(20):
        assert_case(case, cut_randomly(stream, seed))


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if "events_after_chunk" in case],
    ids=lambda case: case["name"],
)
def test_case_is_prompt(case: dict[str, Any]) -> None:
    """An event is out with the byte that completes it, not with the one after."""
    decoder = Decoder()
    events_count = 0
    counts = []
    for chunk in chunks_of(case):
        events_count += sum(frame.data is not None for frame in decoder.feed(chunk))
        counts.append(events_count)
    assert case["events_after_chunk"] == counts


@each_case
def test_case_agrees_with_the_slow_parser(case: dict[str, Any]) -> None:
    """The oracle below is worth believing: it passes the cases as well."""
    stream = b"".join(chunks_of(case))
    frames, retry = decode_slowly(stream, case.get("initial_id", ""))
    assert case["expected"] == [
        {"event": frame.event, "data": frame.data, "id_after": frame.last_event_id}
        for frame in frames
        if frame.data is not None
    ]
    assert case["retry"] == retry


# Any stream, any cut.


@settings(deadline=None, max_examples=600)
@given(stream=streams, seed=st.integers(0, 2**32), last_event_id=st.sampled_from(["", "seed"]))
def test_any_stream_agrees_with_the_slow_parser(
    stream: bytes, seed: int, last_event_id: str
) -> None:
    """Every field of every frame is what the rules say, whatever the bytes and the cut."""
    frames, retry = decode_slowly(stream, last_event_id)
    for chunks in ([stream], cut_bytewise(stream), cut_randomly(stream, seed)):
        decoder = Decoder(last_event_id)
        assert frames == feed_all(decoder, chunks)
        assert retry == decoder.retry
        blocks = [frame for frame in frames if not frame.comments]
        assert decoder.last_event_id == (blocks[-1].last_event_id if blocks else last_event_id)


@settings(deadline=None, max_examples=600)
@given(
    stream=streams,
    seed=st.integers(0, 2**32),
    line_bytes_max=st.integers(1, 30),
    event_bytes_max=st.integers(1, 60),
)
def test_bounds_do_not_depend_on_the_cut(
    stream: bytes, seed: int, line_bytes_max: int, event_bytes_max: int
) -> None:
    """The same bound is passed after the same frames, whole or in pieces."""

    def read(chunks: Iterable[bytes]) -> tuple[list[Frame], str | None]:
        decoder = Decoder(line_bytes_max=line_bytes_max, event_bytes_max=event_bytes_max)
        frames: list[Frame] = []
        try:
            for chunk in chunks:
                frames += decoder.feed(chunk)
        except SseLimitExceeded as error:
            return [*frames, *error.frames], error.limit
        return frames, None

    frames, limit = read([stream])
    assert (frames, limit) == read(cut_bytewise(stream))
    assert (frames, limit) == read(cut_randomly(stream, seed))
    assert frames == decode_slowly(stream)[0][: len(frames)]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("shift", [0, 1, 2])
def test_the_seam_between_pieces_of_a_large_feed(line_end: bytes, shift: int) -> None:
    """A line end or a character that falls on the decoder's own cut is not torn."""
    block = (b"id: %d", b"data: \xf0\x9f\x98\x80 first", b"data: second", b"", b": c")
    stream = b"x" * shift + b"".join(
        line_end.join(block) % number + line_end for number in range(10_000)
    )
    assert len(stream) > 8 * sse.PIECE_BYTES_MAX
    assert decode_slowly(stream)[0] == Decoder().feed(stream)


# What is seen at once.


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_comment_is_seen_at_once(line_end: bytes) -> None:
    """A heartbeat needs no blank line after it, and its CR no LF."""
    decoder = Decoder("7")
    heartbeat = Frame(last_event_id="7", comments=(" ping",))
    for _ in range(3):
        assert [heartbeat] == decoder.feed(b": ping" + line_end)
    assert decoder.feed(line_end) == []


def test_comment_inside_a_block_is_seen_at_once() -> None:
    """A heartbeat in the middle of a slow block neither waits for it nor ends it."""
    decoder = Decoder("1")
    assert decoder.feed(b"id: 2\ndata: a\n") == []
    assert [Frame(last_event_id="1", comments=("c",))] == decoder.feed(b":c\n")
    assert [Frame(data="a\nb", last_event_id="2", id_seen=True)] == decoder.feed(b"data: b\n\n")


def test_blocks_that_dispatch_nothing_are_seen() -> None:
    """A block that only moves the cursor, names a type or sets the delay is a frame too."""
    frames = Decoder().feed(b"id: 9\n\nevent: ping\n\nretry: 20\n\nid: a\0b\n\nretry: x\n\n\n\n")
    assert [
        Frame(last_event_id="9", id_seen=True),
        Frame(event="ping", last_event_id="9"),
        Frame(last_event_id="9", retry=20),
        Frame(last_event_id="9"),
        Frame(last_event_id="9"),
    ] == frames


def test_text_from_a_proxy_is_counted() -> None:
    """Lines that are no field show up as a number, with an event or without one."""
    frames = Decoder().feed(b"Failed to retrieve next link.\n\ndata: a\nb\nc: d\n\n")
    assert [Frame(unknown_lines=1), Frame(data="a", unknown_lines=2)] == frames


def test_retry_acts_before_its_block_ends_and_the_id_after() -> None:
    """A broken connection leaves the new delay behind, but not the id of the unfinished block."""
    decoder = Decoder("1")
    assert decoder.feed(b"id: 2\nretry: 5\ndata: a\n") == []
    assert (decoder.retry, decoder.last_event_id) == (5, "1")


def test_retry_of_any_length() -> None:
    """Long delays are exact, and no number of digits makes the decoder raise."""
    decoder = Decoder()
    decoder.feed(b"retry: %d\n" % 10**20)
    assert decoder.retry == 10**20
    decoder.feed(b"retry: " + b"9" * 100_000 + b"\n")
    assert decoder.retry == 10**20
    decoder.feed(b"retry: " + b"0" * 100_000 + b"8\n")
    assert decoder.retry == 8


# Bounds.


@pytest.mark.parametrize("prefix", [b"", b"data: ", b": ", b"id: ", b"event: ", b"retry: ", b"x"])
@pytest.mark.parametrize("size", [1, 7, 100, 5000])
def test_endless_line_is_refused(prefix: bytes, size: int) -> None:
    """Whatever an unterminated line is, it is refused in the feed that passes the bound."""
    decoder = Decoder(line_bytes_max=1000)
    read_bytes = 0
    with pytest.raises(SseLimitExceeded) as caught:
        for chunk in cut_evenly(prefix + b"7" * 10_000, size):
            read_bytes += len(chunk)
            decoder.feed(chunk)
    assert (caught.value.limit, caught.value.bytes_max, caught.value.frames) == ("line", 1000, ())
    assert 1000 < read_bytes <= 1000 + size


def test_line_of_exactly_the_bound_is_read() -> None:
    """The bound itself is allowed and does not count the line end."""
    decoder = Decoder(line_bytes_max=8)
    assert [Frame(data="ab")] == decoder.feed(b"data: ab\r\n\r\n")
    with pytest.raises(SseLimitExceeded):
        decoder.feed(b"data: abc")


@pytest.mark.parametrize("size", [1, 10, 1000])
def test_endless_block_is_refused(size: int) -> None:
    """Short lines do not add up to an event beyond the bound."""
    decoder = Decoder(line_bytes_max=100, event_bytes_max=1000)
    read_bytes = 0
    with pytest.raises(SseLimitExceeded) as caught:
        for chunk in cut_evenly(b"data: abcdefghi\n" * 200, size):
            read_bytes += len(chunk)
            decoder.feed(chunk)
    assert (caught.value.limit, caught.value.bytes_max) == ("event", 1000)
    assert 1000 < read_bytes <= 1600 + 16 + size


@pytest.mark.parametrize("field", [b"id: ", b"event: "])
def test_id_and_type_count_for_the_event(field: bytes) -> None:
    """What a block holds besides its data leaves less room for its data."""
    block = field + b"y" * 60 + b"\n" + b"data: " + b"x" * 60 + b"\n\n"
    assert len(Decoder(event_bytes_max=126).feed(block)[0].data or "") == 60
    with pytest.raises(SseLimitExceeded) as caught:
        Decoder(event_bytes_max=125).feed(block)
    assert caught.value.limit == "event"


def test_blocks_do_not_add_up() -> None:
    """The bound is on one block; a stream of small ones goes on for ever, comments included."""
    decoder = Decoder(line_bytes_max=100, event_bytes_max=100)
    assert len(feed_all(decoder, [b"id: 1\ndata: abcdefghi\n:c\n\n: ping\n" * 10] * 100)) == 3000
    assert len(feed_all(decoder, [b"data: a\n", *[b": " + b"c" * 90 + b"\n"] * 1000])) == 1000
    assert [Frame(data="a", last_event_id="1")] == decoder.feed(b"\n")


@pytest.mark.parametrize("rest", [b"data: " + b"x" * 2000, b"data: abcdefg\n" * 300])
def test_earlier_frames_survive_a_refusal(rest: bytes) -> None:
    """Frames that the same feed completed come with the exception; the cursor has moved by them."""
    decoder = Decoder(line_bytes_max=1000, event_bytes_max=2000)
    with pytest.raises(SseLimitExceeded) as caught:
        decoder.feed(b"id: 1\ndata: a\n\n:c\nid: 2\nretry: 3\n\nid: 4\n" + rest)
    assert (
        Frame(data="a", last_event_id="1", id_seen=True),
        Frame(last_event_id="1", comments=("c",)),
        Frame(last_event_id="2", id_seen=True, retry=3),
    ) == caught.value.frames
    assert decoder.last_event_id == "2"


def test_refused_stream_stays_refused() -> None:
    """After a refusal the decoder reads nothing more, and gives no frame twice."""
    decoder = Decoder(line_bytes_max=10)
    with pytest.raises(SseLimitExceeded):
        decoder.feed(b"data: a\n\n" + b"x" * 11)
    for _ in range(2):
        with pytest.raises(SseLimitExceeded) as caught:
            decoder.feed(b"\n\ndata: b\n\n")
        assert (
            caught.value.limit,
            caught.value.bytes_max,
            caught.value.frames,
        ) == ("line", 10, ())


def test_bound_below_one_byte_is_refused() -> None:
    """A decoder that could read nothing is a mistake of whoever made it."""
    with pytest.raises(ValueError, match="at least one byte"):
        Decoder(line_bytes_max=0)
    with pytest.raises(ValueError, match="at least one byte"):
        Decoder(event_bytes_max=-1)


@pytest.mark.parametrize(
    "chunk",
    [b"x" * 100, b"x", b"data: y\n", b"data\n", b"id: 123\n", b"event: e\nz\n"],
    ids=["long line", "bytewise line", "short data", "empty data", "ids", "types"],
)
def test_memory_stays_near_the_bound(chunk: bytes) -> None:
    """Neither one endless line nor endless short ones hold much more than the bound."""
    bound = 32 * 1024
    decoder = Decoder(line_bytes_max=bound, event_bytes_max=bound)
    tracemalloc.start()
    try:
        for _ in range(2 * bound):
            decoder.feed(chunk)
    except SseLimitExceeded:
        pass
    finally:
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak_bytes < 2 * bound


# Linear work.


class Ledger:
    """Stands in for bytearray and counts the bytes that are read back out of it.

    It can do nothing but what is counted here, so a search from the start of a growing buffer
    would either be counted or fail.
    """

    read_bytes = 0

    def __init__(self, start: bytes = b"") -> None:
        self._buffer = bytearray(start)

    def __len__(self) -> int:
        return len(self._buffer)

    def __iadd__(self, more: bytes) -> "Ledger":
        self._buffer += more
        return self

    def __bytes__(self) -> bytes:
        Ledger.read_bytes += len(self._buffer)
        return bytes(self._buffer)

    def decode(self, encoding: str, errors: str) -> str:
        Ledger.read_bytes += len(self._buffer)
        return self._buffer.decode(encoding, errors)

    def clear(self) -> None:
        self._buffer.clear()


@pytest.mark.parametrize("chunk_bytes", [1, 100, 16 * 1024])
@pytest.mark.parametrize(
    "stream",
    [
        b"data: " + b"x" * 200_000 + b"\n\n",
        b"data: some text\n" * 20_000 + b"\n",
        b"data: some text\r\n" * 20_000 + b"\r\n",
        b"id: 1\r\ndata: a\r\n\r\n" * 10_000,
        b"data: 1\n\n: " + b"x" * 200_000,
    ],
    ids=["one long line", "many lines", "many CRLF lines", "small CRLF events", "unterminated"],
)
def test_no_byte_is_held_and_read_more_than_twice(
    stream: bytes, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Held bytes are read once as a line and once as data, however many feeds they took."""
    expected = decode_slowly(stream)[0]
    monkeypatch.setattr(sse, "bytearray", Ledger, raising=False)
    monkeypatch.setattr(Ledger, "read_bytes", 0)
    assert expected == feed_all(Decoder(), cut_evenly(stream, chunk_bytes))
    assert Ledger.read_bytes <= 2 * len(stream)
