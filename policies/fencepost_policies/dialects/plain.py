"""Plain SSE: a source that its own configuration describes, signal by signal."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from fencepost_policies.dialects.dialect import Join
from fencepost_policies.overlap import Ask, probes_for
from fencepost_policies.pattern import compiled
from fencepost_policies.pointer import Undecodable, check_pointer, read_json, resolve
from fencepost_policies.schemes.named import SCHEMES, scheme_for
from fencepost_policies.schemes.prefixed import check_shape
from fencepost_policies.witness import Hearing
from fencepost_policies.witnesses.generation import GenerationWitness
from fencepost_policies.witnesses.order import OrderWitness
from fencepost_policies.witnesses.overlap import OverlapWitness
from fencepost_policies.witnesses.reset import REFUSALS, ResetWitness
from fencepost_policies.witnesses.window import WindowWitness
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.limits import TYPE_BYTES_MAX
from fencepost_schemas.sse import Frame


class Dialect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one source speaks. Every field is a signal that the source may or may not give.

    A name that ends in `_control` is a JSON pointer into the data of an event of `control_events`:
    types that speak of the stream itself and are no events of the source. Without such types, any
    event that has something there is read. Names that end in `_pointer` point into every event.

    Ids. `scheme` orders them (see `schemes/named`). `id_pattern` says where in an id the position
    is: "gen:pos", "gen-pos", or a regular expression with the groups pos and gen; a generation in
    there is read, too. `position` is where an event's id is: "sse" or a JSON pointer into its data.
    Only ids of the form `position_pattern`, in events of `position_events`, move the position;
    without them, all do. `bookmarks` are types that are no events and move it all the same.
    `resumes` is where the source goes on when asked for an id: "after" it, "from" it, so that it
    comes again, or with the "next" one, where an id names what is to be read next.

    Generation. `generation_header` and `generation_pointer` are where the source names it;
    `generation_control` is its place in a greeting, `generation_cookie` a cookie, `generation_url`
    a pattern with the group gen that finds it in the path of the url behind all redirects.
    `generation_first_id` holds where the first id of a connection is its name.
    `generation_events` are types whose coming means that another one begins. `uptime_control` is a
    number that grows; it proves nothing, but must not go back. `generation_secret` keeps only a
    digest of the name; one from a cookie or url is always kept so.

    Window. `window_header` and `window_control` are where the source names the oldest id that it
    still holds; `window_count` and `window_age_s` are how many events, or for how long, it is known
    to hold them. A count takes a dense scheme and a `resume_control`.

    Resume point. `echo_header` names the id that the source goes on from: equal proves.
    `status_header` says "continue" or "reset". `recovered_control` is true or false.
    `resume_control` is the id that the source goes on from, or its newest: equal to what was asked
    for proves that nothing was missed, and one behind it contradicts.

    Reset. `reset_statuses` are refusals of a position, `reset_events` types, `reset_comments`
    and `reset_bodies` patterns found in a comment, or in the body of an error. `reset_codes` are
    texts found at `reset_pointer`, in events of `reset_code_events` or of any type.

    What else is no event. `ignore` are types of heartbeats and the like, `heartbeat_data` whole
    data. `end_events`, `end_data` and `end_control` (true) say that the source has ended for good.
    `snapshot_events` are state, and continue nothing; with `snapshot_until`, `snapshot_until_data`
    or `snapshot_until_control` (true), so is all that comes before the marker. `extra_fields` holds
    where the source sends fields that no specification knows, which otherwise count as text that
    somebody put in.

    `type` is where an event's type is: "sse" or a JSON pointer.

    `overlap` says whether to resume from further back and want what we had given back: "auto" does
    where the source declares no generation or no window. `volatile` are JSON pointers to what
    differs each time an event is sent. `join` is what is known of the step from replayed to live
    events: "atomic" loses nothing, "racy" is known to lose and gets an audit, "unknown" is neither
    and is looked at again by the next resume.
    """

    scheme: str = "opaque"
    id_pattern: str = ""
    position: str = "sse"
    position_events: tuple[str, ...] = ()
    position_pattern: str = ""
    bookmarks: tuple[str, ...] = ()
    resumes: Literal["after", "from", "next"] = "after"
    control_events: tuple[str, ...] = ()

    generation_header: str = ""
    generation_pointer: str = ""
    generation_control: str = ""
    generation_cookie: str = ""
    generation_url: str = ""
    generation_first_id: bool = False
    generation_events: tuple[str, ...] = ()
    generation_secret: bool = False
    uptime_control: str = ""

    window_header: str = ""
    window_control: str = ""
    window_count: int = 0
    window_age_s: float = 0.0

    echo_header: str = ""
    status_header: str = ""
    recovered_control: str = ""
    resume_control: str = ""

    reset_statuses: tuple[int, ...] = tuple(sorted(REFUSALS))
    reset_events: tuple[str, ...] = ()
    reset_comments: tuple[str, ...] = ()
    reset_bodies: tuple[str, ...] = ()
    reset_pointer: str = ""
    reset_codes: tuple[str, ...] = ()
    reset_code_events: tuple[str, ...] = ()

    ignore: tuple[str, ...] = ()
    heartbeat_data: tuple[str, ...] = ()
    end_events: tuple[str, ...] = ()
    end_data: tuple[str, ...] = ()
    end_control: str = ""
    snapshot_events: tuple[str, ...] = ()
    snapshot_until: tuple[str, ...] = ()
    snapshot_until_data: tuple[str, ...] = ()
    snapshot_until_control: str = ""
    extra_fields: bool = False

    type: str = "sse"
    overlap: Literal["auto", "on", "off"] = "auto"
    volatile: tuple[str, ...] = ()
    join: Join = "unknown"

    def __post_init__(self) -> None:
        if self.scheme not in SCHEMES:
            raise ValueError(f"scheme {self.scheme!r} is not one of {', '.join(sorted(SCHEMES))}")
        for name in self.__struct_fields__:
            if name.endswith(("_pointer", "_control")):
                check_pointer(getattr(self, name))
        for pointer in (self.position, self.type):
            if pointer != "sse":
                check_pointer(pointer)
        for pointer in self.volatile:
            check_pointer(pointer)
        self._check_patterns()
        self._check_relations()

    def _check_patterns(self) -> None:
        if self.id_pattern:
            check_shape(self.id_pattern)
        for text in (self.position_pattern, *self.reset_comments, *self.reset_bodies):
            compiled(text)
        if self.generation_url and "gen" not in compiled(self.generation_url).groupindex:
            raise ValueError("generation_url needs the group gen, as in /sessions/(?P<gen>[^/]+)")

    def _check_relations(self) -> None:
        """Raise ValueError for fields that say nothing without another one."""
        if self.window_count < 0 or not 0 <= self.window_age_s < float("inf"):
            raise ValueError("window_count and window_age_s must be at least 0")
        if self.window_count and not (self.scheme.endswith("-dense") and self.resume_control):
            raise ValueError(
                "window_count says how many ids back the log goes: it needs scheme integer-dense "
                "and resume_control, where the source names its newest id"
            )
        if bool(self.reset_pointer) != bool(self.reset_codes):
            raise ValueError("reset_pointer and reset_codes come together")
        if self.reset_code_events and not self.reset_codes:
            raise ValueError("reset_code_events needs reset_codes, and where they are")

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
        scheme = scheme_for(self.scheme, self.id_pattern)
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
