"""A dialect that is written down: the signals of plain SSE, and how a position is asked for.

Every named dialect is one of these, in Python or in TOML, and so is whatever a user writes under
`[dialects.NAME]`. What data cannot say, a subclass overrides.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from fencepost_policies.dialects import plain
from fencepost_policies.dialects.asking import GENERATION, Asking
from fencepost_policies.dialects.places import IN_ID, AsSent, InTurn, Places, Placing, Reading
from fencepost_policies.overlap import Ask
from fencepost_policies.pointer import check_pointer
from fencepost_policies.witness import Hearing, Witness
from fencepost_policies.witnesses.session import NoResumption
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.sse import Frame


class About(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a dialect is of, and what it rests on: a real server, a stand-in for one, or documents.

    `source` names the document or the server's version, `untried` what nobody has seen it do.
    """

    server: str = ""
    tried: Literal["", "on a real server", "on a stand-in", "from documents"] = ""
    source: str = ""
    untried: str = ""


class Dialect(plain.Dialect, frozen=True, forbid_unknown_fields=True):
    """How one kind of server speaks: what `plain` says, and the following.

    `ask` is how a position is asked for. `position_control` is where the position of an event is
    that comes in a control event right behind it. With `placed_only`, what names no position is no
    event; with `typed_only`, what has no type. Where types are in the data, `ignore` names those.
    Without `resumable` each connection begins anew, and is said to. `key` is where the idempotency
    key is, for sources that do not say it.

    `greeting` are messages without which nothing comes; they are posted where the data of the event
    `endpoint_event` says.
    """

    ask: Asking = Asking()
    position_control: str = ""
    placed_only: bool = False
    typed_only: bool = False
    endpoint_event: str = ""
    greeting: tuple[dict[str, Any], ...] = ()
    resumable: bool = True
    key: str = ""
    about: About = About()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_pointer(self.key)
        if self.position_control and not self.control_events:
            raise ValueError("position_control needs control_events, the types that it is in")
        if bool(self.endpoint_event) != bool(self.greeting):
            raise ValueError("endpoint_event and greeting come together")
        hidden = self.generation_secret or self.generation_cookie or self.generation_url
        if hidden and GENERATION in f"{self.ask.template}{self.ask.json}":
            raise ValueError(
                f"{GENERATION} cannot be sent: of a secret, a cookie or a url only a digest is kept"
            )

    @property
    def covers(self) -> bool:
        return self.resumable and super().covers

    @property
    def replays_unasked(self) -> bool:
        return self.resumable and super().replays_unasked

    @property
    def places(self) -> Places:
        behind = bool(self.position_control)
        # Where only some types may move the position, bookmarks are among them.
        events = (*self.position_events, *self.bookmarks) if self.position_events else ()
        return Places(
            self.position_control if behind else self.position,
            () if behind else events,
            self.position_pattern,
            self.control_events if behind else (),
        )

    def asks(self, cursor: Cursor, published: Mapping[str, str] | None = None) -> tuple[Ask, ...]:
        if not self.resumable:
            return ()
        asks = super().asks(cursor, published)
        reached = cursor.position
        if not asks or not self.bookmarks or reached is None or reached.ordinal:
            return asks
        if not cursor.ring or cursor.ring[-1].position == reached:
            return asks
        # A bookmark stands behind the last event: where the older positions are refused, it is all
        # that is left to ask for.
        return (*asks, Ask(reached))

    def hearing(
        self, cursor: Cursor | None, ask: Ask | None = None, *, last_chance: bool = True
    ) -> Hearing:
        hearing = super().hearing(cursor, ask, last_chance=last_chance)
        own = self.own_witnesses(cursor, ask)
        if self.resumable and not own:
            return hearing
        generation = hearing.generation if self.resumable else NoResumption(cursor)
        return Hearing(cursor, generation, (*hearing.witnesses[1:-1], *own), hearing.overlap)

    def own_witnesses(self, cursor: Cursor | None, ask: Ask | None) -> tuple[Witness, ...]:
        """Return new witnesses for one connection, beside those of the fields: for a subclass.

        What they prove counts as what any other proves, and stands in the record under their name.
        """
        return ()

    def reading(self, ask: Ask | None) -> Reading:
        """Return a reading for one connection, which was opened with this ask."""
        placing = self._placing(ask)
        marks = self.snapshot_until, self.snapshot_until_data, self.snapshot_until_control
        if self.snapshot_events or any(marks):
            return InTurn(placing, self.snapshots())
        return placing

    def _placing(self, ask: Ask | None) -> Reading:
        places = self.places
        if places == Places(IN_ID):
            return AsSent()
        return Placing(places, ask.position.id if ask is not None else "")

    def counts(self, frame: Frame) -> bool:
        if not super().counts(frame) or self.advances(frame):
            return False
        if self.placed_only and not frame.id_seen:
            return False
        if not self.typed_only and (self.type == IN_ID or not self.ignore):
            return True
        type = self.type_of(frame)
        return type not in self.ignore and (bool(type) or not self.typed_only)

    def advances(self, frame: Frame) -> bool:
        """Return True if this frame is no event of the source, but moves its position."""
        if not frame.id_seen or frame.data is None:
            return False
        if self.position_control and frame.event in self.control_events:
            return True
        return bool(self.bookmarks) and self.type_of(frame) in self.bookmarks
