"""`<unix seconds>:<n>`, as nchan counts: within a second from 0, and without holes."""

import re

from fencepost_policies.schemes.ordered import Ordered
from fencepost_policies.schemes.scheme import Hole, Order

_TIME_TAG = re.compile("([0-9]{1,20}):([0-9]{1,20})")


def read(text: str) -> tuple[int, int] | None:
    found = _TIME_TAG.fullmatch(text)
    return (int(found[1]), int(found[2])) if found else None


class TimeTag:
    """Within a second holes are exact. A new second has to begin with 0; what the second before it
    held to its end, nobody can tell.
    """

    name = "time-tag"
    dense = True
    ties = False

    def __init__(self) -> None:
        self._ordered = Ordered(self.name, read)

    def compare(self, earlier: str, later: str) -> Order:
        return self._ordered.compare(earlier, later)

    def covers(self, floor: str, asked: str) -> bool | None:
        oldest, last = read(floor), read(asked)
        if oldest is not None and last is not None and oldest[0] == last[0]:
            return oldest[1] <= last[1] + 1
        return self._ordered.covers(floor, asked)

    def hole(self, earlier: str, later: str) -> Hole | None:
        before, after = read(earlier), read(later)
        if before is None or after is None or after <= before:
            return None
        if after[0] == before[0]:
            return Hole(after[1] - before[1] - 1)
        return Hole(after[1], exact=False) if after[1] else None

    def generation(self, event_id: str) -> str:
        return ""
