"""Something that stays in the way is told from something that came and went."""

import logging

from fencepost.errors import SourceStopped
from fencepost_schemas.sse import SseLimitExceeded

log = logging.getLogger("fencepost.bridge")


class Strikes:
    """How often in a row an oversized line or event of a source stood at the same place."""

    def __init__(self, name: str, strikes_max: int) -> None:
        self._name = name
        self._strikes_max = strikes_max
        self._count = 0
        self._place: tuple[str, int] | None = None

    def strike(self, exceeded: SseLimitExceeded, place: tuple[str, int]) -> None:
        """Count one more at this place; raise SourceStopped where it stays in the way."""
        text = f"{self._name}: the source sent more than {exceeded.bytes_max} bytes in one"
        self._count = self._count + 1 if place == self._place else 1
        self._place = place
        if self._count >= self._strikes_max:
            raise SourceStopped(
                f"{text} {exceeded.limit}, {self._count} times at the same place: raise "
                f"sources.{self._name}.{exceeded.limit}_bytes_max, or mend the source"
            )
        log.error("%s %s; dropped, nothing is lost, trying again", text, exceeded.limit)
