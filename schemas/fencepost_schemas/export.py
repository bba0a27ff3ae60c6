"""A copy of the ledger as lines of JSON: what it is a copy of, its rows, and that it is whole.

The end is a line of its own: a copy that was cut off looks whole otherwise, and a row that is
missing from a ledger reads as work that was never done.
"""

import msgspec

EXPORT_VERSION = 1


class Reached(msgspec.Struct, frozen=True):
    """How far a source had come when the copy was taken: its generation, and events in it."""

    generation: str
    published: int


class ExportHeader(msgspec.Struct, frozen=True, tag_field="is", tag="fencepost-ledger"):
    """The first line. `taken_ms` is the broker's clock; `sources` tell how old the copy is."""

    version: int
    identity: str
    prefix: str
    taken_ms: int
    sources: dict[str, Reached] = {}


class ExportedRow(msgspec.Struct, frozen=True, tag_field="is", tag="row"):
    """One row, byte for byte. `raw` carries what stands on a row's subject and is no JSON."""

    subject: str
    row: msgspec.Raw = msgspec.Raw(b"null")
    raw: bytes | None = None

    @property
    def payload(self) -> bytes:
        return bytes(self.row) if self.raw is None else self.raw


class ExportEnd(msgspec.Struct, frozen=True, tag_field="is", tag="end"):
    """The last line; `rows` is how many came before it."""

    rows: int


ExportLine = ExportHeader | ExportedRow | ExportEnd
_decoder = msgspec.json.Decoder(ExportLine)
_any = msgspec.json.Decoder()


def exported_row(subject: str, payload: bytes) -> ExportedRow:
    """Return the line of a row."""
    try:
        _any.decode(payload)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return ExportedRow(subject, raw=payload)
    if b"\n" in payload or b"\r" in payload or payload != payload.strip():
        # JSON that does not come back from within a line as it was.
        return ExportedRow(subject, raw=payload)
    return ExportedRow(subject, msgspec.Raw(payload))


def encode_line(line: ExportLine) -> bytes:
    return msgspec.json.encode(line) + b"\n"


def decode_line(text: bytes) -> ExportLine:
    """Return the line; raise msgspec.DecodeError where it is none of an export."""
    try:
        return _decoder.decode(text)
    except (RecursionError, UnicodeDecodeError) as error:
        raise msgspec.DecodeError(f"not a line of an export: {error}") from None
