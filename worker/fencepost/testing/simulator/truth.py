"""What is true of what was published: which announcement an event was, and from which log."""

from collections.abc import Sequence

import msgspec

from fencepost.testing.simulator.history import Announcement, Published, Sending


class Log(msgspec.Struct, frozen=True):
    """One epoch of a replica."""

    replica: int
    epoch: int


def origin_of(sendings: Sequence[Sending], published: Published) -> Announcement | None:
    """Return the announcement that was sent last, before this was published, and looks like it."""
    event = published.event
    id = event.position.split("+", 1)[0]
    for sending in reversed(sendings):
        announcement = sending.announcement
        looks = str(announcement.place.id) == id and announcement.data == event.payload
        if looks and sending.at_s <= published.at_s:
            return announcement
    return None


def logs_by_generation(
    sendings: Sequence[Sending], published: Sequence[Published]
) -> dict[str, set[Log | None]]:
    """Return the logs that each generation's events come from, None for an unknown one."""
    logs: dict[str, set[Log | None]] = {}
    for one in published:
        origin = origin_of(sendings, one)
        log = Log(origin.place.replica, origin.place.epoch) if origin is not None else None
        logs.setdefault(one.event.generation, set()).add(log)
    return logs
