"""The overlap: events that we had, given back by the log that we read them from."""

from collections.abc import Iterable

from fencepost_policies.cover import Covered, CoverReading, Found
from fencepost_policies.overlap import Ask, matches
from fencepost_policies.schemes.scheme import Scheme
from fencepost_policies.witness import Opening
from fencepost_schemas.cursor import Mark
from fencepost_schemas.evidence import Facet, Fact, Finding
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Frame


class OverlapWitness:
    """Wants the owed marks back in order before anything else.

    Another event in the place of one contradicts only on the last chance: a server that holds
    little is asked once more, from a later mark. With a cover, what was published since an earlier
    join is owed behind the marks, and what comes between was lost at that join.
    """

    name = "overlap"

    def __init__(
        self,
        ask: Ask | None,
        scheme: Scheme,
        *,
        volatile: tuple[str, ...] = (),
        last_chance: bool = True,
        racy: bool = False,
    ) -> None:
        self._owed = ask.owed if ask is not None else ()
        cover = ask.cover if ask is not None else None
        self._cover = CoverReading(cover, scheme, volatile) if cover is not None else None
        self._asked = ask.position if ask is not None else ""
        self._racy = racy
        self._volatile = volatile
        self._last_chance = last_chance
        self._matched = 0
        self._repeat = False
        self._missed = False
        self._contradicts: Fact | None = None

    @property
    def owing(self) -> bool:
        if self._matched < len(self._owed):
            return True
        return self._cover is not None and not self._cover.done

    @property
    def matched(self) -> bool:
        return (bool(self._owed) or self._cover is not None) and not self.owing

    @property
    def covered(self) -> Covered | None:
        return self._cover.covered() if self._cover is not None else None

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
            return ()
        return self._compare(frame)

    def _compare(self, frame: Frame) -> Iterable[Fact]:
        if self._matched == len(self._owed):
            yield from self._look_at_join(frame)
            return
        mark = self._owed[self._matched]
        if matches(mark, frame, self._volatile):
            self._repeat = True
            self._matched += 1
            if not self.owing:
                yield from self._proofs()
            return
        yield from self._miss(self._contradiction(mark, frame))

    def _look_at_join(self, frame: Frame) -> Iterable[Fact]:
        assert self._cover is not None
        found = self._cover.take(frame)
        if found is Found.OTHER_BYTES:
            yield from self._miss(
                self._fact(Facet.IDENTITY, Finding.CONTRADICTS, Reason.OVERLAP_OTHER_BYTES, frame)
            )
            return
        if found is Found.MISS:
            yield from self._miss(
                self._fact(Facet.POSITION, Finding.CONTRADICTS, Reason.OVERLAP_MISSED, frame)
            )
            return
        self._repeat = found is Found.REPEAT
        if not self.owing:
            yield from self._proofs()

    def _miss(self, contradicts: Fact) -> Iterable[Fact]:
        self._missed = True
        self._contradicts = contradicts
        if self._last_chance:
            yield contradicts

    def _proofs(self) -> Iterable[Fact]:
        """State what the overlap proves; behind a racy join it does not prove completeness."""
        covered = self.covered
        for facet in Facet:
            if facet is not Facet.COMPLETENESS:
                yield self._fact(facet, Finding.PROVES, Reason.OVERLAP_MATCHED)
            elif covered is not None:
                # Of a racy join that one is made up for, this one is still to be audited.
                reason = Reason.JOIN_RECOVERED if covered.late else Reason.JOIN_COVERED
                finding = Finding.SILENT if self._racy else Finding.PROVES
                yield self._fact(facet, finding, reason)
            elif not self._racy:
                yield self._fact(facet, Finding.PROVES, Reason.OVERLAP_MATCHED)

    def uncovered(self) -> Iterable[Fact]:
        yield Fact(
            Facet.COMPLETENESS,
            Finding.SILENT,
            self.name,
            Reason.JOIN_UNCOVERED,
            "a replay from before the last join",
            "",
        )

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
        count, back = len(self._owed), self._matched
        if self._cover is not None:
            count, back = count + self._cover.owed, back + self._cover.found
        expected = f"{count} events from behind {self._asked}"
        then = f", then {frame.last_event_id}" if frame is not None else ""
        return Fact(facet, finding, self.name, reason, expected, f"{back} back{then}")
