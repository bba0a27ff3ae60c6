"""Hold a source to ending what it begins: a byte a minute is no silence, and no event either."""

from collections.abc import Iterable

from fencepost.ports import SourceUnreachable
from fencepost_schemas.sse import Frame


class Pace:
    """The time that one connection takes over one event, `event_s` at most.

    A large event may be slow, and a comment within it says only that somebody is there.
    """

    def __init__(self, event_s: float) -> None:
        self._event_s = event_s
        self._began_s: float | None = None

    def look(self, frames: Iterable[Frame], *, unfinished: bool, now_s: float) -> None:
        """Take note of what a read brought; raise SourceUnreachable where it takes too long."""
        if not unfinished:
            self._began_s = None
            return
        if self._began_s is None or any(not frame.comments for frame in frames):
            self._began_s = now_s
        if now_s - self._began_s > self._event_s:
            raise SourceUnreachable(f"took longer than {self._event_s:g} s over one event")
