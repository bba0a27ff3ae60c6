"""Plain SSE: a source that its own configuration describes, signal by signal."""

import msgspec

from fencepost_policies.pointer import Undecodable, check_pointer, read_json, resolve
from fencepost_policies.schemes.integer import Integer
from fencepost_policies.schemes.opaque import Opaque
from fencepost_policies.schemes.scheme import Scheme
from fencepost_policies.witness import Hearing
from fencepost_policies.witnesses.generation import GenerationWitness
from fencepost_policies.witnesses.order import OrderWitness
from fencepost_policies.witnesses.reset import ResetWitness
from fencepost_policies.witnesses.window import WindowWitness
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.limits import TYPE_BYTES_MAX
from fencepost_schemas.sse import Frame

SCHEMES: dict[str, Scheme] = {"integer": Integer(), "opaque": Opaque()}


class Dialect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one source speaks. Every field is a signal that the source may or may not give.

    `scheme` orders the ids. `generation_header` or `generation_pointer` (a JSON pointer into each
    event's data) is where the source names its generation; `generation_secret` keeps only a digest
    of it. `window_header` is the response header that names the oldest id still held.
    `reset_events` are event types that mean a reset, `ignore` types that are no events at all
    (heartbeats). `type` is where an event's type is: "sse" or a JSON pointer.
    """

    scheme: str = "opaque"
    generation_header: str = ""
    generation_pointer: str = ""
    generation_secret: bool = False
    window_header: str = ""
    reset_events: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    type: str = "sse"

    def __post_init__(self) -> None:
        if self.scheme not in SCHEMES:
            raise ValueError(f"scheme {self.scheme!r} is not one of {', '.join(sorted(SCHEMES))}")
        check_pointer(self.generation_pointer)
        if self.type != "sse":
            check_pointer(self.type)


def hearing(dialect: Dialect, cursor: Cursor | None) -> Hearing:
    """Return a hearing for one connection attempt, with the dialect's witnesses."""
    scheme = SCHEMES[dialect.scheme]
    generation = GenerationWitness(
        cursor,
        header=dialect.generation_header,
        pointer=dialect.generation_pointer,
        secret=dialect.generation_secret,
    )
    return Hearing(
        cursor,
        generation,
        (
            ResetWitness(cursor, events=frozenset(dialect.reset_events)),
            OrderWitness(cursor, scheme),
            WindowWitness(cursor, scheme, header=dialect.window_header),
        ),
    )


def counts(dialect: Dialect, frame: Frame) -> bool:
    """Return True if this frame is an event of the source, and no heartbeat."""
    return frame.data is not None and frame.event not in dialect.ignore


def type_of(dialect: Dialect, frame: Frame) -> str:
    """Return the event's type, "" where the pointer finds none."""
    if dialect.type == "sse":
        return frame.event
    try:
        found = resolve(dialect.type, read_json(frame.data or ""))
    except Undecodable:
        return ""
    if not isinstance(found, str):
        return ""
    return found if len(found.encode("utf-8", "surrogatepass")) <= TYPE_BYTES_MAX else ""
