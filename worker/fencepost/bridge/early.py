"""Tell of a loss that a source has proven before it sends the event that a verdict needs.

It is told a second after it was proven, for mostly an event comes with the headers, and then its
verdict says so. Nothing is concluded here: the next verdict is given as if nothing had been told.
"""

from fencepost.awake import Awake, Deadline
from fencepost.bridge.lineage import Lineage
from fencepost_policies.early import grown, loss_proven
from fencepost_policies.witness import Hearing
from fencepost_schemas.evidence import Evidence

EARLY_S = 1.0
"""For a verdict to come, before it is told that events are gone."""


class Early:
    """What one source has proven and no verdict has said yet. A verdict has to `drop` it.

    A connection that ends drops nothing: what it proved is told, unless the next one is judged
    within that second.
    """

    def __init__(self, lineage: Lineage) -> None:
        self._lineage = lineage
        self._awake = Awake()
        self._proven: tuple[Evidence, bool] | None = None
        self._due: Deadline | None = None

    def hear(self, hearing: Hearing, *, last_chance: bool) -> None:
        """Look at what a connection that is not judged yet has said so far."""
        self.look(hearing.evidence(), last_chance=last_chance)

    def look(self, evidence: Evidence, *, last_chance: bool = True) -> None:
        """Look at what was said so far, and have it told in a second where it proves a loss."""
        loss = loss_proven(evidence, 0, last_chance=last_chance)
        if loss is None or grown(self._lineage.cursor.loss, loss) is None:
            return
        self._proven = (evidence, last_chance)
        if self._due is None:
            self._due = self._awake.call_after(EARLY_S, self.tell)

    def tell(self) -> None:
        """Tell now of what is proven, if anything is."""
        proven = self._proven
        self.drop()
        if proven is not None:
            self._lineage.tell_early(proven[0], last_chance=proven[1])

    def drop(self) -> None:
        """Forget what is proven: a verdict says it now, or says that it is not so."""
        self._proven = None
        if self._due is not None:
            self._due.cancel()
            self._due = None
