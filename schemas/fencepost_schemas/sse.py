"""Turn the bytes of one event stream into frames, as they arrive.

Everything fencepost says about a reconnect rests on what the server really sent, so this decoder
keeps what the usual clients throw away: comments, blocks that only move the cursor, and lines that
a proxy put in. It does no IO. Whoever owns the connection feeds bytes in pieces of any size and
gets the same frames for the same bytes, each as early as the wire allows. Work is linear in the
bytes fed, and what is held between two feeds is bounded, because the far end may be broken or
hostile and a bridge must outlive it.

The rules are those of WHATWG HTML 9.2.5 and 9.2.6. Three of them shape the code:

- A line ends at LF, CR LF or CR, and a CR ends it at once. The LF that may follow belongs to the
  same line end and is swallowed when it comes, perhaps in a later feed.
- Both line ends are ASCII, and no ASCII byte is ever part of a longer UTF-8 sequence. So the
  bytes are cut into lines first and decoded afterwards, and no character is torn by a feed.
- The id takes effect at the blank line that ends its block, retry already at its own line.
"""

import msgspec

LINE_BYTES_MAX = 1024 * 1024
EVENT_BYTES_MAX = 8 * 1024 * 1024

# A large feed is read in pieces of this size, so that its lines never all exist at once. A piece
# that is small beside the bounds also spares its lines from being measured one by one.
PIECE_BYTES_MAX = 32 * 1024

# Python converts this many digits under every setting of its own limit, so no server can make
# int() raise. A delay with more of them outlasts the universe, and is ignored.
RETRY_DIGITS_MAX = 640

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One block of the stream, or one comment line.

    A block is a frame when a blank line ends it, whether or not it dispatches an event. A comment
    belongs to no block, so it is a frame of its own as soon as its line ends: a heartbeat with
    nothing after it is seen at once, also in the middle of a block.
    """

    # The event type, "message" where the block gave none.
    event: str = "message"
    # None where nothing is dispatched. A block with an empty `data` line dispatches "".
    data: str | None = None
    # The last event ID string after this frame, inherited where the frame has no id of its own.
    last_event_id: str = ""
    # What follows the colon, with its leading space: a comment has no grammar to take it away.
    comments: tuple[str, ...] = ()
    # Whether the block itself carried an id field. One with a NUL in it is not accepted.
    id_seen: bool = False
    # The delay in milliseconds, where the block had a valid retry field.
    retry: int | None = None
    # How many lines had an unknown field name. Text put in by a proxy shows up here.
    unknown_lines: int = 0
    # Whether this is a piece of the source's state. The wire does not say so: the reader knows.
    snapshot: bool = False


class SseLimitExceeded(ValueError):
    """The stream would not fit a bound.

    `limit` is "line" or "event", `bytes_max` the bound itself. `frames` are those that the same
    feed had completed before; they are as good as returned ones, and come nowhere else.
    """

    def __init__(self, limit: str, bytes_max: int, frames: tuple[Frame, ...] = ()) -> None:
        super().__init__(f"one {limit} of the event stream is longer than {bytes_max} bytes")
        self.limit = limit
        self.bytes_max = bytes_max
        self.frames = frames


class Decoder:
    """The state of one connection's stream between two feeds.

    `line_bytes_max` bounds a single line, its line end not counted. `event_bytes_max` bounds what
    an open block makes the decoder hold: data, event type, id, and the line that is being read.
    Comments and unknown lines are not held, so a block may have any number of them.
    """

    def __init__(
        self,
        last_event_id: str = "",
        *,
        line_bytes_max: int = LINE_BYTES_MAX,
        event_bytes_max: int = EVENT_BYTES_MAX,
    ) -> None:
        if line_bytes_max < 1 or event_bytes_max < 1:
            raise ValueError("a bound must be at least one byte")
        # The specification starts every connection with an empty id. Browsers seed it with the
        # id they resumed from, or the first event without an id would wipe the cursor.
        self.last_event_id = last_event_id
        self.retry: int | None = None
        self._line_bytes_max = line_bytes_max
        self._event_bytes_max = event_bytes_max
        self._refusal: tuple[str, int] | None = None
        # The first bytes, for as long as they may still become a byte order mark, then None.
        self._start: bytes | None = b""
        self._after_cr = False
        self._line = bytearray()
        # The open block, as bytes until it ends: text may take four times as much memory.
        self._open = False
        self._data: bytes | bytearray | None = None
        self._event = b""
        self._id: bytes | None = None
        self._block_retry: int | None = None
        self._unknown_lines = 0

    def feed(self, data: bytes) -> list[Frame]:
        """Read the next bytes and return the frames they complete.

        Raises SseLimitExceeded as soon as a bound is passed, and again at every later feed: after
        bytes that were not kept there is no telling where the next line begins.
        """
        if self._refusal is not None:
            raise SseLimitExceeded(*self._refusal)
        frames: list[Frame] = []
        for offset in range(0, len(data), PIECE_BYTES_MAX):
            self._read_piece(data[offset : offset + PIECE_BYTES_MAX], frames)
        return frames

    @property
    def unfinished(self) -> bool:
        """True in the middle of a line or a block: what was fed ends with something begun."""
        return self._open or bool(self._line) or bool(self._start)

    def _read_piece(self, piece: bytes, frames: list[Frame]) -> None:
        if self._start is not None:
            piece = self._skip_byte_order_mark(self._start + piece)
        if self._after_cr:
            piece = piece.removeprefix(b"\n")
        self._after_cr = piece.endswith(b"\r")
        longest = len(self._line) + len(piece)
        # Unlike its namesake for text, this one knows just the three line ends of the rules.
        lines = piece.splitlines()
        rest = b"" if piece.endswith((b"\n", b"\r")) or not lines else lines.pop()
        if lines and self._line:
            self._line += lines[0]
            lines[0] = bytes(self._line)
            self._line.clear()
        # Nearly always no line could pass a bound even if this piece were all one line. Only
        # otherwise is it worth the time to measure each.
        if longest <= min(self._line_bytes_max, self._event_bytes_max - self._held_bytes()):
            self._read_lines(lines, frames)
            self._line += rest
        else:
            for line in lines:
                self._measure_line(len(line), frames)
                self._read_lines([line], frames)
            self._measure_line(len(self._line) + len(rest), frames)
            self._line += rest

    def _skip_byte_order_mark(self, start: bytes) -> bytes:
        """Return what may be read of the stream's first bytes; one leading mark is not read."""
        if len(start) < len(BYTE_ORDER_MARK) and BYTE_ORDER_MARK.startswith(start):
            self._start = start
            return b""
        self._start = None
        return start.removeprefix(BYTE_ORDER_MARK)

    def _measure_line(self, line_bytes: int, frames: list[Frame]) -> None:
        room = self._event_bytes_max - self._held_bytes()
        if line_bytes <= min(self._line_bytes_max, room):
            return
        # Whichever bound a bytewise reader would have passed first is named, so that the answer
        # does not depend on how the stream was cut.
        if self._line_bytes_max <= room:
            limit, bytes_max = "line", self._line_bytes_max
        else:
            limit, bytes_max = "event", self._event_bytes_max
        self._refusal = (limit, bytes_max)
        self._line.clear()
        self._clear_block()
        raise SseLimitExceeded(limit, bytes_max, tuple(frames))

    def _held_bytes(self) -> int:
        return len(self._data or b"") + len(self._event) + len(self._id or b"")

    def _read_lines(self, lines: list[bytes], frames: list[Frame]) -> None:
        for line in lines:
            if not line:
                self._end_block(frames)
                continue
            name, _, value = line.partition(b":")
            if not name:
                comment = value.decode("utf-8", "replace")
                frames.append(Frame(last_event_id=self.last_event_id, comments=(comment,)))
                continue
            self._open = True
            value = value.removeprefix(b" ")
            if name == b"data":
                if self._data is None:
                    self._data = value
                else:
                    self._add_data(self._data, value)
            elif name == b"id":
                if b"\0" not in value:
                    self._id = value
            elif name == b"event":
                self._event = value
            elif name == b"retry":
                self._set_retry(value)
            else:
                self._unknown_lines += 1

    def _add_data(self, data: bytes | bytearray, value: bytes) -> None:
        # Most events have one line and never come here. The others grow in place: a list of
        # short lines would take many times the memory that the bound speaks of.
        if not isinstance(data, bytearray):
            data = self._data = bytearray(data)
        data += b"\n"
        data += value

    def _set_retry(self, value: bytes) -> None:
        if value.isdigit() and len(value.lstrip(b"0")) <= RETRY_DIGITS_MAX:
            self.retry = self._block_retry = int(value.lstrip(b"0") or b"0")

    def _end_block(self, frames: list[Frame]) -> None:
        if not self._open:
            return
        data, block_id = self._data, self._id
        if block_id is not None:
            self.last_event_id = block_id.decode("utf-8", "replace")
        frames.append(
            Frame(
                self._event.decode("utf-8", "replace") if self._event else "message",
                None if data is None else data.decode("utf-8", "replace"),
                self.last_event_id,
                (),
                block_id is not None,
                self._block_retry,
                self._unknown_lines,
            )
        )
        self._clear_block()

    def _clear_block(self) -> None:
        self._open = False
        self._data = None
        self._event = b""
        self._id = None
        self._block_retry = None
        self._unknown_lines = 0
