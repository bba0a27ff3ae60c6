"""Ids that carry their generation: `<gen>:<n>`, `<gen>-<n>`, or as a regular expression says."""

from fencepost_policies.pattern import Pattern
from fencepost_policies.schemes.scheme import Hole, Order, Scheme

SHAPES = {
    "gen:pos": "(?P<gen>.+):(?P<pos>[^:]+)",
    "gen-pos": "(?P<gen>.+)-(?P<pos>[^-]+)",
}


def check_shape(shape: str) -> None:
    """Raise ValueError unless this is "gen:pos", "gen-pos" or a pattern with the group pos."""
    pattern = Pattern(SHAPES.get(shape, shape))
    if "pos" not in pattern.groups:
        raise ValueError(
            f"id_pattern {shape!r} has no group (?P<pos>...); write gen:pos, gen-pos, or a regular "
            "expression with the groups pos and, where ids name their generation, gen"
        )


def names_generation(shape: str) -> bool:
    return "gen" in Pattern(SHAPES.get(shape, shape)).groups


class Prefixed:
    """Another scheme orders the positions; ids of two generations have no order."""

    def __init__(self, shape: str, inner: Scheme) -> None:
        self.name = f"{inner.name} in {shape}"
        self.ties = inner.ties
        self.dense = inner.dense
        self._pattern = Pattern(SHAPES.get(shape, shape))
        self._inner = inner

    def compare(self, earlier: str, later: str) -> Order:
        both = self._positions(earlier, later)
        return self._inner.compare(*both) if both is not None else Order.UNKNOWN

    def covers(self, floor: str, asked: str) -> bool | None:
        both = self._positions(floor, asked)
        return self._inner.covers(*both) if both is not None else None

    def hole(self, earlier: str, later: str) -> Hole | None:
        both = self._positions(earlier, later)
        return self._inner.hole(*both) if both is not None else None

    def generation(self, event_id: str) -> str:
        return self._pattern.read(event_id).get("gen", "")

    def _positions(self, first: str, second: str) -> tuple[str, str] | None:
        """Return both positions, None unless they are readable and of one generation."""
        one, other = self._pattern.read(first), self._pattern.read(second)
        if "pos" not in one or "pos" not in other or one.get("gen") != other.get("gen"):
            return None
        return one["pos"], other["pos"]
