"""Something that stays in the way is told from something that came and went."""


class Strikes:
    """How often in a row something stood in the way at the same place."""

    def __init__(self) -> None:
        self._count = 0
        self._place: tuple[str, int] | None = None

    def count(self, place: tuple[str, int]) -> int:
        """Count one more at this place; another place begins anew."""
        self._count = self._count + 1 if place == self._place else 1
        self._place = place
        return self._count
