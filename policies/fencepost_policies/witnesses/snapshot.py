"""A source that begins with its state: that makes up for what was missed, and continues nothing."""

from collections.abc import Iterable

from fencepost_policies.witness import Opening
from fencepost_schemas.evidence import Facet, Fact, Finding
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Frame


class SnapshotWitness:
    """Hears the first piece of state of a connection."""

    name = "snapshot"

    def __init__(self) -> None:
        self._said = False

    def opened(self, opening: Opening) -> Iterable[Fact]:
        return ()

    def arrived(self, frame: Frame) -> Iterable[Fact]:
        return ()

    def noticed(self, frame: Frame) -> Iterable[Fact]:
        if not frame.snapshot or self._said:
            return
        self._said = True
        yield Fact(
            Facet.POSITION,
            Finding.CONTRADICTS,
            self.name,
            Reason.SNAPSHOT_SENT,
            "what comes next",
            "state",
        )
