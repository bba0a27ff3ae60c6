"""What was observed of one connection, as facts that the judge weighs.

Three facets must be proven before a stream counts as resumed: that it is the same log (identity),
that it begins right behind what we acknowledged (position), and that nothing between the two was
dropped (completeness). Absence of a fact is never a proof.
"""

from enum import StrEnum

import msgspec

from fencepost_schemas.cursor import Cursor
from fencepost_schemas.reason import Reason


class Facet(StrEnum):
    IDENTITY = "identity"
    POSITION = "position"
    COMPLETENESS = "completeness"


class Finding(StrEnum):
    PROVES = "proves"
    CONTRADICTS = "contradicts"
    SILENT = "silent"


class Fact(msgspec.Struct, frozen=True):
    """One witness's word on one facet. `expected` and `observed` are for people; no secrets.

    `missing` is how many events are not there, where the source's own ids tell.
    """

    facet: Facet
    finding: Finding
    witness: str
    reason: Reason
    expected: str = ""
    observed: str = ""
    missing: int = 0


class Evidence(msgspec.Struct, frozen=True):
    """All that the judge may look at.

    `requested` is the cursor with which the connection was opened (None where the source has
    none); `genesis` is True where init wrote a record that no event has followed yet.
    """

    requested: Cursor | None
    genesis: bool
    facts: tuple[Fact, ...] = ()
