"""Count what became of every task, from what the servers logged and what the sinks hold.

Neither client's code is used here. A task is what the servers emitted under one idempotency key,
on whichever replica and however often. Each is counted in exactly one column.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from fencepost_schemas.verdict import EpochRecord


class Announcement(msgspec.Struct, frozen=True):
    """A task as one replica emitted it."""

    replica: str
    id: int
    key: str


class Sent(msgspec.Struct, frozen=True):
    """An event as it was sent: its own id at the replica, and the id that it was shown under."""

    id: int
    shown: str


class Visit(msgspec.Struct, frozen=True):
    """One connection of a client, as the replica saw it, and what was sent on it."""

    replica: str
    asked: str
    sent: tuple[Sent, ...]


class ServerLog(msgspec.Struct, frozen=True):
    announcements: tuple[Announcement, ...]
    visits: tuple[Visit, ...]
    keys_sent: frozenset[str]


class Tally(msgspec.Struct, frozen=True):
    """What became of the tasks that were emitted; the columns add up to `emitted`."""

    emitted: int
    once: int
    twice: int
    lost: int
    in_gap: int
    waiting: int


def read_log(paths: Iterable[Path], client: str) -> ServerLog:
    """Read the replicas' logs as they concern one client."""
    announcements: list[Announcement] = []
    visits: dict[tuple[str, int], tuple[str, list[Sent]]] = {}
    keys_sent: set[str] = set()
    for path in paths:
        for line in path.read_text("utf-8").splitlines():
            noted = json.loads(line)
            replica = noted["replica"]
            if noted["what"] == "emitted":
                announcements.append(Announcement(replica, noted["id"], noted["key"]))
            elif noted["client"] != client:
                continue
            elif noted["what"] == "connected":
                visits[replica, noted["connection"]] = (noted["asked"], [])
            elif noted["what"] == "sent":
                sent = Sent(noted["id"], str(noted["shown"]))
                visits[replica, noted["connection"]][1].append(sent)
                keys_sent.add(noted["key"])
    return ServerLog(
        tuple(announcements),
        tuple(Visit(replica, asked, tuple(sent)) for (replica, _), (asked, sent) in visits.items()),
        frozenset(keys_sent),
    )


def executions(sink: Path) -> Counter[str]:
    if not sink.exists():
        return Counter()
    return Counter(json.loads(line)["key"] for line in sink.read_text("utf-8").splitlines())


def count(
    log: ServerLog,
    executed: Counter[str],
    waiting: frozenset[str] = frozenset(),
    records: Sequence[EpochRecord] = (),
) -> Tally:
    """Put every emitted task into its column."""
    by_key: dict[str, list[Announcement]] = {}
    for announcement in log.announcements:
        by_key.setdefault(announcement.key, []).append(announcement)
    gaps = [gap for record in records if (gap := _gap_on_servers(log, record)) is not None]
    columns: Counter[str] = Counter()
    for key, announced in by_key.items():
        if executed[key]:
            columns["once" if executed[key] == 1 else "twice"] += 1
        elif key in waiting:
            columns["waiting"] += 1
        elif key not in log.keys_sent and _inside(announced, gaps):
            columns["in_gap"] += 1
        else:
            columns["lost"] += 1
    return Tally(
        emitted=len(by_key),
        once=columns["once"],
        twice=columns["twice"],
        lost=columns["lost"],
        in_gap=columns["in_gap"],
        waiting=columns["waiting"],
    )


class _GapOnServers(msgspec.Struct, frozen=True):
    """A recorded gap in the servers' own terms: after one replica's id, before another's."""

    after_replica: str
    after_id: int
    before_replica: str
    before_id: int

    def holds(self, announcement: Announcement) -> bool:
        behind = announcement.replica == self.after_replica and announcement.id > self.after_id
        ahead = announcement.replica == self.before_replica and announcement.id < self.before_id
        if self.after_replica == self.before_replica:
            return behind and ahead
        return behind or ahead


def _gap_on_servers(log: ServerLog, record: EpochRecord) -> _GapOnServers | None:
    """Find between which connections a recorded gap lies, by the ids that were asked and sent."""
    gap = record.gap
    if gap is None or not gap.after_position or not gap.before_position:
        return None
    right = [
        visit
        for visit in log.visits
        if visit.asked == record.asked and visit.sent and visit.sent[0].shown == gap.before_position
    ]
    left = [
        (visit.replica, sent.id)
        for visit in log.visits
        if visit not in right
        for sent in visit.sent
        if sent.shown == gap.after_position
    ]
    if not left or not right:
        return None
    # An id may be shown again later, for another event; what we had came first.
    return _GapOnServers(*left[0], right[0].replica, right[0].sent[0].id)


def _inside(announced: list[Announcement], gaps: list[_GapOnServers]) -> bool:
    """Return True if every announcement of a task lies in some recorded gap."""
    return all(any(gap.holds(announcement) for gap in gaps) for announcement in announced)
