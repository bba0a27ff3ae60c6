"""What a source may say of its own continuity, and where: one field a signal."""

from typing import Literal

import msgspec

from fencepost_policies.dialects.dialect import Join
from fencepost_policies.pattern import compiled
from fencepost_policies.pointer import check_pointer
from fencepost_policies.schemes.named import SCHEMES
from fencepost_policies.schemes.prefixed import check_shape, names_generation
from fencepost_policies.witnesses.reset import REFUSALS


class Signals(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every field is a signal that a source may or may not give.

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
    patterns found in a comment. `reset_codes` are texts found at `reset_pointer`, in events of
    `reset_code_events` or of any type.

    What else is no event. `ignore` are types of heartbeats and the like, `heartbeat_data` whole
    data. `end_events`, `end_data` and `end_control` (true) say that the source has ended for good;
    only the first is an event. `snapshot_events` are state, and continue nothing; with
    `snapshot_until`, `snapshot_until_data` or `snapshot_until_control` (true), so is all that comes
    before the marker. `extra_fields` holds where the source sends fields that no specification
    knows, which otherwise count as text that somebody put in.

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
        for text in (self.position_pattern, *self.reset_comments):
            compiled(text)
        if self.generation_url and "gen" not in compiled(self.generation_url).groupindex:
            raise ValueError("generation_url needs the group gen, as in /sessions/(?P<gen>[^/]+)")

    def _check_relations(self) -> None:
        """Raise ValueError for fields that say nothing without another one."""
        if self.uptime_control and self.says_generation:
            raise ValueError("uptime_control stands in for a generation: there is one already")
        of_their_own = (
            bool(self.generation_cookie),
            bool(self.generation_url),
            self.generation_first_id,
            bool(self.generation_header or self.generation_pointer or self.generation_control),
        )
        if sum(of_their_own) > 1:
            raise ValueError(
                "a cookie, a url and a first id each name the generation in their own way: only "
                "one of generation_cookie, generation_url, generation_first_id and the others"
            )
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
    def says_generation(self) -> bool:
        places = (
            self.generation_header,
            self.generation_pointer,
            self.generation_control,
            self.generation_cookie,
            self.generation_url,
        )
        in_ids = bool(self.id_pattern) and names_generation(self.id_pattern)
        return any(places) or self.generation_first_id or in_ids

    @property
    def says_losses(self) -> bool:
        """True where the source shows by itself that nothing is missing behind a resume."""
        window = bool(self.window_header or self.window_control or self.window_count)
        said = bool(self.echo_header or self.status_header or self.recovered_control)
        return window or said or self.scheme.endswith("-dense")
