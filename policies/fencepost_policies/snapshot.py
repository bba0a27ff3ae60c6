"""Frames that are a source's state, and not what comes next; marked as they are read."""

from collections.abc import Sequence

import msgspec

from fencepost_policies.control import Control
from fencepost_schemas.sse import Frame


class SnapshotReading:
    """Marks the state among the frames of one connection.

    `events` are types that are state wherever they come. All else is state up to a marker: one of
    the types `until`, whole data `until_data`, or true at `until_pointer`; without any of these,
    nothing else is. The marker itself is no state.
    """

    def __init__(
        self,
        events: frozenset[str],
        control: Control,
        *,
        until: frozenset[str] = frozenset(),
        until_data: frozenset[str] = frozenset(),
        until_pointer: str = "",
    ) -> None:
        self._events = events
        self._control = control
        self._until = until
        self._until_data = until_data
        self._until_pointer = until_pointer
        self._live = not (until or until_data or until_pointer)

    def read(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        """Return these frames, in order, with the state among them marked."""
        return [
            msgspec.structs.replace(frame, snapshot=True) if self._is_state(frame) else frame
            for frame in frames
        ]

    def _is_state(self, frame: Frame) -> bool:
        if frame.data is None:
            return False
        if not self._live and self._marks_the_end(frame):
            self._live = True
            return False
        return not self._live or frame.event in self._events

    def _marks_the_end(self, frame: Frame) -> bool:
        return (
            frame.event in self._until
            or frame.data in self._until_data
            or self._control.flag(self._until_pointer, frame) is True
        )
