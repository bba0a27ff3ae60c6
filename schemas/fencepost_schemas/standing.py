"""The four words of the house: how much may be believed of a connection, and of a lineage."""

from enum import StrEnum


class Standing(StrEnum):
    """Of a connection it is the judge's verdict; of a lineage, the worst verdict in it.

    One good reconnect does not launder an old doubt, so the lineage's standing is what counts for
    what may be done.
    """

    GENESIS = "genesis"
    RESUMED = "resumed"
    REORIGINATED = "reoriginated"
    UNVERIFIABLE = "unverifiable"

    @property
    def rank(self) -> int:
        """0 is the best; the worst of two standings is the one with the higher rank."""
        return _RANKS[self]

    @property
    def tainted(self) -> bool:
        """True where a key is needed before anything may be applied."""
        return self in _TAINTED


_TAINTED = (Standing.REORIGINATED, Standing.UNVERIFIABLE)
_RANKS = {standing: rank for rank, standing in enumerate(Standing)}


def worst(first: Standing, second: Standing) -> Standing:
    """Return the standing that asks for more care."""
    return max(first, second, key=lambda standing: standing.rank)
