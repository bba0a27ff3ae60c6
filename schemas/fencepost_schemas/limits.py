"""The bounds of the house, with the relations between them.

An unbounded buffer is how a bad server takes a good worker down. What only one module needs to know
stands beside its use; what others rely on stands here. Relations are asserted at import, so that a
change of one number that breaks another is found before anything runs.
"""

KIB = 1024
MIB = 1024 * KIB

# --- what one SSE source may make us hold -------------------------------------------------------
LINE_BYTES_MAX = 1 * MIB
EVENT_BYTES_MAX = 8 * MIB

HELD_FRAMES_MAX = 1_000
"""Frames kept back from one connection until it is judged."""
HELD_BYTES_MAX = 16 * MIB
HELD_S_MAX = 30.0
"""Seconds after the first held frame at which a connection is judged on what it has shown."""
SILENT_PROBES_MAX = 3
"""Probes in a row that may stay silent, before a connection asks for nothing."""
AUDIT_QUIET_S = 1.0
"""A second replay is over once it has been quiet for so long."""
COVER_EVENTS_MAX = 5_000
"""Events behind a join up to which a later resume reads them all again to find what it lost."""

READ_AHEAD_FRAMES_MAX = 2_000
READ_AHEAD_BYTES_MAX = 4 * MIB
"""Read from one connection and not taken yet; past it, the source waits."""

EVENT_ID_BYTES_MAX = 4 * KIB
"""An id is sent back in a request header; most servers stop reading headers at 8 to 64 KiB."""

TOKEN_CHARS_MAX = 256
"""A longer generation token is kept as a digest."""

FACTS_MAX = 100
"""Facts kept of one connection; past it, only what nobody has said yet."""
FACT_CHARS_MAX = 256
"""What a fact shows of an id or of a token."""

HEADER_VALUE_BYTES_MAX = 8 * KIB
"""What is kept of one response header of a source."""
HEADERS_COUNT_MAX = 200
HEADERS_BYTES_MAX = 64 * KIB
"""All response headers of a source together; one that sends more is not listened to."""

# --- what one write to the broker may carry -----------------------------------------------------
BATCH_MESSAGES_MAX = 1_000
"""The broker's own bound on an atomic batch."""
BATCH_EVENTS_MAX = 500
"""Events in one batch of the bridge; the verdict record and the cursor go with them."""
BATCH_BYTES_MAX = 4 * MIB
BATCH_ATOMIC_MIN = 16
"""Below this many ledger writes a pipelined burst is faster than an atomic batch."""
LEDGER_BATCHES_MAX = 3
"""Of one worker on their way at once; the broker has 50 of a stream open, from all its clients."""
LEDGER_BATCH_WELL_FILLED = 250
"""Writes that are worth a batch of their own while another one is on its way."""

# --- what one source may make the bridge hold while the broker does not take --------------------
FLOOD_BYTES_MAX = (
    (HELD_BYTES_MAX + EVENT_BYTES_MAX)
    + (READ_AHEAD_BYTES_MAX + EVENT_BYTES_MAX)
    + (BATCH_BYTES_MAX + READ_AHEAD_BYTES_MAX + EVENT_BYTES_MAX)
    + 2 * (BATCH_BYTES_MAX + EVENT_BYTES_MAX)
)
"""Held until judged; read ahead; waiting to be stored, where all that was read ahead may come on
top; and on its way to the broker, as messages and as the bytes that the client sends. Each may be
passed by one event. Text beyond Latin-1 takes Python up to four times the bytes that are counted.
"""

# --- what the broker has to take ----------------------------------------------------------------
PAYLOAD_BYTES_LEAST = 32 * KIB
"""A cursor with its marks, a verdict's record with usual facts, the headers of an event: a broker
that takes less refuses most of what is written, one event after the other."""

# --- names --------------------------------------------------------------------------------------
SLUG_CHARS_MAX = 32
KEY_BYTES_MAX = 255
TYPE_BYTES_MAX = 255
LANES = 64
NOTE_CHARS_MAX = 2_000
"""A person's note beside an answer, and the text kept of an error."""

# --- the cursor ---------------------------------------------------------------------------------
RING_MARKS_MAX = 8
RECENT_IDS_MAX = 4_096
"""Ids of one connection that are remembered, to notice one that comes back."""

# --- the pool -----------------------------------------------------------------------------------
ATTEMPTS_MAX = 5
"""Unless the handler says otherwise."""
PARKED_OVER_MS = 30_000
DOUBTS_IN_A_ROW_MAX = 5
"""So many of one handler, and it is paused: one question, not ten thousand."""
LEDGER_READS_MAX = 256
"""Leader reads of the ledger that one process keeps in flight."""

assert LINE_BYTES_MAX <= EVENT_BYTES_MAX, "an event holds at least one line"
assert EVENT_BYTES_MAX <= HELD_BYTES_MAX, "one event must fit among the held frames"
assert EVENT_ID_BYTES_MAX <= HEADER_VALUE_BYTES_MAX, "an id is sent and echoed in a header"
assert 2 * EVENT_ID_BYTES_MAX + HEADER_VALUE_BYTES_MAX < PAYLOAD_BYTES_LEAST, "an id, twice"
assert HEADER_VALUE_BYTES_MAX <= HEADERS_BYTES_MAX, "one header is among them all"
assert BATCH_EVENTS_MAX + 2 <= BATCH_MESSAGES_MAX, "verdict record and cursor ride along"
assert BATCH_ATOMIC_MIN <= BATCH_MESSAGES_MAX
assert LANES <= 100, "a lane is two digits in a subject"
