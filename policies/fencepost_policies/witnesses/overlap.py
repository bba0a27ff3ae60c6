"""The overlap: events that we had, given back by the log that we read them from."""

from collections.abc import Iterable

from fencepost_policies.overlap import matches
from fencepost_policies.witness import Opening
from fencepost_schemas.cursor import Mark
from fencepost_schemas.evidence import Facet, Fact, Finding
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Frame


class OverlapWitness:
    """Wants the owed marks back in order before anything else.

    Another event in the place of one contradicts only on the last chance: a server that holds
    little is asked once more, from a later mark.
    """

    name = "overlap"

    def __init__(
        self,
        owed: tuple[Mark, ...],
        *,
        volatile: tuple[str, ...] = (),
        last_chance: bool = True,
        racy: bool = False,
    ) -> None:
        self._owed = owed
        self._racy = racy
        self._volatile = volatile
        self._last_chance = last_chance
        self._matched = 0
        self._repeat = False
        self._missed = False
        self._contradicts: Fact | None = None

    @property
    def owing(self) -> bool:
        return self._matched < len(self._owed)

    @property
    def matched(self) -> bool:
        return bool(self._owed) and not self.owing

    @property
    def repeat(self) -> bool:
        return self._repeat

    @property
    def missed(self) -> bool:
        return self._missed

    def opened(self, opening: Opening) -> Iterable[Fact]:
        return ()

    def arrived(self, frame: Frame) -> Iterable[Fact]:
        self._repeat = False
        if frame.data is None or self._missed or not self.owing:
            return
        mark = self._owed[self._matched]
        if matches(mark, frame, self._volatile):
            self._repeat = True
            self._matched += 1
            if not self.owing:
                yield from self._proofs()
            return
        self._missed = True
        self._contradicts = self._contradiction(mark, frame)
        if self._last_chance:
            yield self._contradicts

    def _proofs(self) -> Iterable[Fact]:
        """State what the overlap proves; behind a racy join it does not prove completeness."""
        for facet in Facet:
            if facet is not Facet.COMPLETENESS or not self._racy:
                yield self._fact(facet, Finding.PROVES, Reason.OVERLAP_MATCHED)

    def audited(self, refused: str) -> Iterable[Fact]:
        if refused:
            reason, finding = Reason.AUDIT_REFUSED, Finding.SILENT
        else:
            reason, finding = Reason.AUDIT_DONE, Finding.PROVES
        yield Fact(Facet.COMPLETENESS, finding, self.name, reason, "a second replay", refused)

    def concede(self) -> Iterable[Fact]:
        if self._contradicts is not None and not self._last_chance:
            yield self._contradicts

    def silence(self) -> Iterable[Fact]:
        if self.owing:
            for facet in Facet:
                yield self._fact(facet, Finding.SILENT, Reason.OVERLAP_SILENT)

    def _contradiction(self, mark: Mark, frame: Frame) -> Fact:
        same_id = frame.id_seen and frame.last_event_id == mark.position.id
        if same_id and not mark.position.ordinal:
            return self._fact(
                Facet.IDENTITY, Finding.CONTRADICTS, Reason.OVERLAP_OTHER_BYTES, frame
            )
        return self._fact(Facet.POSITION, Finding.CONTRADICTS, Reason.OVERLAP_MISSED, frame)

    def _fact(
        self, facet: Facet, finding: Finding, reason: Reason, frame: Frame | None = None
    ) -> Fact:
        expected = f"{len(self._owed)} events from {self._owed[0].position}"
        then = f", then {frame.last_event_id}" if frame is not None else ""
        return Fact(facet, finding, self.name, reason, expected, f"{self._matched} back{then}")
