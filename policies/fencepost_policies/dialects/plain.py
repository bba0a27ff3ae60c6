"""Plain SSE: a source that its own configuration describes, signal by signal."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from fencepost_policies.dialects.dialect import Join
from fencepost_policies.overlap import Ask, probes_for
from fencepost_policies.pointer import Undecodable, check_pointer, read_json, resolve
from fencepost_policies.schemes.integer import Integer
from fencepost_policies.schemes.opaque import Opaque
from fencepost_policies.schemes.scheme import Scheme
from fencepost_policies.witness import Hearing
from fencepost_policies.witnesses.generation import GenerationWitness
from fencepost_policies.witnesses.order import OrderWitness
from fencepost_policies.witnesses.overlap import OverlapWitness
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

    `overlap` says whether to resume from further back and want what we had given back: "auto" does
    where the source declares no generation or no window. `volatile` are JSON pointers to what
    differs each time an event is sent. `join` is what is known of the step from replayed to live
    events: "atomic" loses nothing, "racy" is known to lose and gets an audit, "unknown" is neither
    and is looked at again by the next resume.
    """

    scheme: str = "opaque"
    generation_header: str = ""
    generation_pointer: str = ""
    generation_secret: bool = False
    window_header: str = ""
    reset_events: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    type: str = "sse"
    overlap: Literal["auto", "on", "off"] = "auto"
    volatile: tuple[str, ...] = ()
    join: Join = "unknown"

    def __post_init__(self) -> None:
        if self.scheme not in SCHEMES:
            raise ValueError(f"scheme {self.scheme!r} is not one of {', '.join(sorted(SCHEMES))}")
        check_pointer(self.generation_pointer)
        if self.type != "sse":
            check_pointer(self.type)
        for pointer in self.volatile:
            check_pointer(pointer)

    @property
    def _probes(self) -> bool:
        declares = (self.generation_header or self.generation_pointer) and self.window_header
        return self.overlap == "on" or (self.overlap == "auto" and not declares)

    @property
    def covers(self) -> bool:
        return self._probes and self.join != "atomic"

    @property
    def replays_unasked(self) -> bool:
        return True

    def asks(self, cursor: Cursor, published: Mapping[str, str] | None = None) -> tuple[Ask, ...]:
        """Return what to ask a source for, the best proof first.

        Without a probe that is the position reached, where there is one to ask for.
        """
        probes = probes_for(cursor, published) if self._probes else ()
        if probes or cursor.position is None or not cursor.position.id:
            return probes
        return (Ask(cursor.position),)

    def hearing(
        self, cursor: Cursor | None, ask: Ask | None = None, *, last_chance: bool = True
    ) -> Hearing:
        """Return a hearing for one connection attempt, with the dialect's witnesses.

        `ask` is what the attempt resumes from, `last_chance` that no other follows it.
        """
        scheme = SCHEMES[self.scheme]
        asked = cursor
        if cursor is not None and ask is not None:
            asked = msgspec.structs.replace(cursor, position=ask.position)
        generation = GenerationWitness(
            cursor,
            header=self.generation_header,
            pointer=self.generation_pointer,
            secret=self.generation_secret,
        )
        return Hearing(
            cursor,
            generation,
            (
                ResetWitness(asked, events=frozenset(self.reset_events)),
                OrderWitness(asked, scheme),
                WindowWitness(asked, scheme, header=self.window_header),
            ),
            OverlapWitness(
                ask,
                scheme,
                volatile=self.volatile,
                last_chance=last_chance,
                racy=self.join == "racy",
            ),
        )

    def counts(self, frame: Frame) -> bool:
        """Return True if this frame is an event of the source, and no heartbeat."""
        return frame.data is not None and frame.event not in self.ignore

    def replayed(self, frame: Frame) -> bool:
        """Return False: no plain source says so."""
        return False

    def type_of(self, frame: Frame) -> str:
        """Return the event's type, "" where there is none or it is too long to be one."""
        found: object = frame.event
        if self.type != "sse":
            try:
                found = resolve(self.type, read_json(frame.data or ""))
            except Undecodable:
                return ""
        if not isinstance(found, str):
            return ""
        return found if len(found.encode("utf-8", "surrogatepass")) <= TYPE_BYTES_MAX else ""
