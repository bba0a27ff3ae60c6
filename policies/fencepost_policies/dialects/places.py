"""Where a source's positions are, read into the one place where all else looks for them: the id.

Some servers put no `id:` on their events, but a number into the data, or a word into an event of
its own that follows. A reading is made for one connection and sees its frames in order.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from fencepost_policies.pattern import Pattern
from fencepost_policies.pointer import Undecodable, read_json, resolve_text
from fencepost_schemas.sse import Frame

IN_ID = "sse"


class Reading(Protocol):
    def read(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        """Return these frames with their positions as ids; some may be kept for a later call."""


class AsSent:
    """The reading of a source that puts its positions into the id."""

    def read(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        return frames


class Places(msgspec.Struct, frozen=True):
    """Where positions are, in a dialect's own words.

    `pointer` is "sse" or a JSON pointer into the data; `events` and `pattern` are what a position
    has to come in, and to look like. With `behind`, the position of an event is in an event of
    these types that comes right behind it, at `pointer`.
    """

    pointer: str = IN_ID
    events: tuple[str, ...] = ()
    pattern: str = ""
    behind: tuple[str, ...] = ()


class InTurn:
    """Readings, one after the other."""

    def __init__(self, *readings: Reading) -> None:
        self._readings = readings

    def read(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        for reading in self._readings:
            frames = reading.read(frames)
        return frames


class Placing:
    """The reading of a source whose positions are elsewhere, or are not all positions."""

    def __init__(self, places: Places, asked: str = "") -> None:
        self._places = places
        self._pattern = Pattern(places.pattern) if places.pattern else None
        self._last = asked
        self._waiting: Frame | None = None
        """The last event, where its position is still to come."""

    def read(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        if not self._places.behind:
            return [self._placed(frame, self._position_in(frame)) for frame in frames]
        return [placed for frame in frames for placed in self._read_behind(frame)]

    def _read_behind(self, frame: Frame) -> Sequence[Frame]:
        if frame.data is None:
            return (self._placed(frame, None),)
        waiting = self._waiting
        if frame.event not in self._places.behind:
            self._waiting = frame
            return (self._placed(waiting, None),) if waiting is not None else ()
        self._waiting = None
        position = self._position_in(frame)
        event = (self._placed(waiting, position),) if waiting is not None else ()
        return (*event, self._placed(frame, position))

    def _position_in(self, frame: Frame) -> str | None:
        """Return the position that this frame names, None where it names none."""
        places = self._places
        if places.pointer == IN_ID:
            found = frame.last_event_id if frame.id_seen else None
        else:
            try:
                found = resolve_text(places.pointer, read_json(frame.data or ""))
            except Undecodable:
                return None
        if found is None or (places.events and frame.event not in places.events):
            return None
        # An empty id takes the last one back, which no pattern has a say in.
        fits = self._pattern is None or not found or self._pattern.fits(found)
        return found if fits else None

    def _placed(self, frame: Frame, position: str | None) -> Frame:
        """Return the frame with this position, or with the last one and none of its own."""
        if position is not None:
            self._last = position
        seen = position is not None
        if frame.id_seen == seen and frame.last_event_id == self._last:
            return frame
        return msgspec.structs.replace(frame, last_event_id=self._last, id_seen=seen)
