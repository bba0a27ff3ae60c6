"""Plain SSE: a source that its own configuration describes, signal by signal."""

from collections.abc import Mapping

import msgspec

from fencepost_policies.control import Control
from fencepost_policies.dialects.signals import Signals
from fencepost_policies.overlap import Ask, probes_for
from fencepost_policies.pattern import search_for
from fencepost_policies.pointer import Undecodable, read_json, resolve
from fencepost_policies.schemes.named import scheme_for
from fencepost_policies.schemes.scheme import Scheme
from fencepost_policies.snapshot import SnapshotReading
from fencepost_policies.witness import Hearing, TokenWitness, Witness
from fencepost_policies.witnesses.density import DensityWitness
from fencepost_policies.witnesses.generation import GenerationWitness
from fencepost_policies.witnesses.injected import InjectedWitness
from fencepost_policies.witnesses.order import OrderWitness
from fencepost_policies.witnesses.overlap import OverlapWitness
from fencepost_policies.witnesses.reset import ResetWitness
from fencepost_policies.witnesses.resume_point import ResumePointWitness
from fencepost_policies.witnesses.snapshot import SnapshotWitness
from fencepost_policies.witnesses.uptime import UptimeWitness
from fencepost_policies.witnesses.window import WindowWitness
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.limits import TYPE_BYTES_MAX
from fencepost_schemas.sse import Frame


class Dialect(Signals, frozen=True, forbid_unknown_fields=True):
    """How one source speaks: see `Signals` for the fields."""

    @property
    def _probes(self) -> bool:
        declares = self.says_generation and self.says_losses
        return self.overlap == "on" or (self.overlap == "auto" and not declares)

    @property
    def _inclusive(self) -> bool:
        return self.resumes == "from"

    @property
    def _control(self) -> Control:
        return Control(self.control_events)

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
        probes: tuple[Ask, ...] = ()
        if self._probes:
            probes = probes_for(cursor, published, inclusive=self._inclusive)
        if probes or cursor.position is None or not cursor.position.id:
            return probes
        return (Ask(cursor.position),)

    def hearing(
        self, cursor: Cursor | None, ask: Ask | None = None, *, last_chance: bool = True
    ) -> Hearing:
        """Return a hearing for one connection attempt, with the dialect's witnesses.

        `ask` is what the attempt resumes from, `last_chance` that no other follows it.
        """
        asked = cursor
        if cursor is not None and ask is not None:
            asked = msgspec.structs.replace(cursor, position=ask.position)
        overlap = OverlapWitness(
            ask,
            self._scheme,
            volatile=self.volatile,
            last_chance=last_chance,
            racy=self.join == "racy",
        )
        others: list[Witness] = [
            self._reset(asked),
            OrderWitness(asked, self._scheme, inclusive=self._inclusive, volatile=self.volatile),
            self._window(asked, cursor),
        ]
        if self._scheme.dense:
            others.append(DensityWitness(asked, self._scheme))
        if self._has_snapshots:
            others.append(SnapshotWitness())
        if self.echo_header or self.status_header or self.recovered_control or self.resume_control:
            others.append(self._resume_point(asked))
        if not self.extra_fields:
            others.append(InjectedWitness())
        return Hearing(cursor, self._generation(cursor), others, overlap)

    @property
    def _scheme(self) -> Scheme:
        return scheme_for(self.scheme, self.id_pattern)

    def _generation(self, cursor: Cursor | None) -> TokenWitness:
        if self.uptime_control:
            return UptimeWitness(cursor, self._control, self.uptime_control)
        return GenerationWitness(
            cursor,
            header=self.generation_header,
            pointer=self.generation_pointer,
            secret=self.generation_secret,
            cookie=self.generation_cookie,
            url=search_for(self.generation_url) if self.generation_url else None,
            control=self._control,
            control_pointer=self.generation_control,
            scheme=self._scheme,
            first_id=self.generation_first_id,
            begins=frozenset(self.generation_events),
        )

    def _reset(self, asked: Cursor | None) -> ResetWitness:
        return ResetWitness(
            asked,
            statuses=frozenset(self.reset_statuses),
            events=frozenset(self.reset_events),
            comments=tuple(search_for(text) for text in self.reset_comments),
            codes=frozenset(self.reset_codes),
            pointer=self.reset_pointer,
            coded=Control(self.reset_code_events),
        )

    def _window(self, asked: Cursor | None, cursor: Cursor | None) -> WindowWitness:
        return WindowWitness(
            asked,
            self._scheme,
            header=self.window_header,
            control=self._control,
            floor=self.window_control,
            newest=self.resume_control,
            count=self.window_count,
            age_s=self.window_age_s,
            inclusive=self.resumes != "after",
            reached=cursor.position if cursor is not None else None,
        )

    def _resume_point(self, asked: Cursor | None) -> ResumePointWitness:
        return ResumePointWitness(
            asked,
            self._scheme,
            self._control,
            echo=self.echo_header,
            status=self.status_header,
            point=self.resume_control,
            recovered=self.recovered_control,
        )

    @property
    def _has_snapshots(self) -> bool:
        until = self.snapshot_until or self.snapshot_until_data or self.snapshot_until_control
        return bool(self.snapshot_events or until)

    def snapshots(self) -> SnapshotReading:
        """Return what marks the state among the frames of one connection."""
        return SnapshotReading(
            frozenset(self.snapshot_events),
            self._control,
            until=frozenset(self.snapshot_until),
            until_data=frozenset(self.snapshot_until_data),
            until_pointer=self.snapshot_until_control,
        )

    def ends(self, frame: Frame) -> bool:
        """Return True if the source says with this frame that nothing will ever follow."""
        if frame.data is None:
            return False
        if frame.event in self.end_events or frame.data in self.end_data:
            return True
        return bool(self.end_control) and self._control.flag(self.end_control, frame) is True

    def counts(self, frame: Frame) -> bool:
        """Return True if this frame is an event of the source, and no heartbeat."""
        if frame.data is None or frame.event in self.ignore or frame.event in self.control_events:
            return False
        if frame.event in self.bookmarks:
            return False
        return frame.data not in self.heartbeat_data and frame.data not in self.end_data

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
