"""The count is honest: each task in one column, a gap only where it was recorded and is true."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fencepost.demo.tally import Announcement, Sent, ServerLog, Tally, Visit, count, read_log
from fencepost_schemas.reason import Reason
from fencepost_schemas.standing import Standing
from fencepost_schemas.verdict import EpochRecord, Gap, Verdict

FIRST, SECOND = "0001-aaaaaaaa", "0002-bbbbbbbb"


def log_of(announced: list[Announcement], visits: list[Visit]) -> ServerLog:
    """Return a log in which what the visits sent is what the replicas announced."""
    keys = {(one.replica, one.id): one.key for one in announced}
    sent = {keys[visit.replica, sent.id] for visit in visits for sent in visit.sent}
    return ServerLog(tuple(announced), tuple(visits), frozenset(sent))


def visit(replica: str, asked: str, *ids: int) -> Visit:
    return Visit(replica, asked, tuple(Sent(id, str(id)) for id in ids))


def record(asked: str, after: str, before: str) -> EpochRecord:
    return EpochRecord(
        source="tasks",
        generation=SECOND,
        parent=FIRST,
        verdict=Verdict(Standing.REORIGINATED, (Reason.ORDER_NOT_AFTER,)),
        standing=Standing.REORIGINATED,
        gap=Gap(FIRST, after, SECOND, before),
        ledger="l",
        bridge="b",
        at_ms=0,
        asked=asked,
        first=before,
    )


TWO_REPLICAS = log_of(
    [
        Announcement("a", 1, "sent on a"),
        Announcement("a", 2, "missed on a"),
        Announcement("b", 4, "missed on b"),
        Announcement("b", 5, "sent on b"),
    ],
    [visit("a", "", 1), visit("b", "1", 5)],
)


def columns(tally: Tally) -> list[int]:
    return [tally.once, tally.twice, tally.lost, tally.in_gap, tally.waiting]


@pytest.mark.parametrize(
    ("executed", "waiting", "records", "expected"),
    [
        ({"sent on a": 1, "sent on b": 1}, (), [record("1", "1", "5")], [2, 0, 0, 2, 0]),
        ({"sent on a": 1, "sent on b": 1}, (), [], [2, 0, 2, 0, 0]),
        ({"sent on a": 2}, (), [record("1", "1", "5")], [0, 1, 1, 2, 0]),
        ({"sent on a": 1}, ("sent on b",), [record("1", "1", "5")], [1, 0, 0, 2, 1]),
        ({"sent on a": 1, "sent on b": 3}, (), [record("7", "1", "5")], [1, 1, 2, 0, 0]),
        ({"sent on a": 1, "sent on b": 1}, (), [record("1", "9", "5")], [2, 0, 2, 0, 0]),
    ],
    ids=[
        "a recorded gap holds what was missed on either side",
        "without a record it is lost",
        "sent and never executed is lost, gap or not",
        "waiting is waiting",
        "a record of another connection excuses nothing",
        "a record that begins where nothing was sent excuses nothing",
    ],
)
def test_each_task_falls_into_one_column(
    executed: dict[str, int],
    waiting: tuple[str, ...],
    records: list[EpochRecord],
    expected: list[int],
) -> None:
    """The columns are what the logs, the sink and the records together say, and add up."""
    tally = count(TWO_REPLICAS, Counter(executed), frozenset(waiting), records)

    assert expected == columns(tally)
    assert tally.emitted == sum(expected)


def test_a_task_that_was_sent_is_never_excused_by_a_gap() -> None:
    """A gap may swallow only what no connection brought."""
    log = log_of(
        [Announcement("a", 1, "x"), Announcement("a", 2, "y"), Announcement("a", 9, "z")],
        [visit("a", "", 1), visit("a", "1", 9), visit("a", "0", 2)],
    )

    tally = count(log, Counter({"x": 1, "z": 1}), records=[record("1", "1", "9")])

    assert 1 == tally.lost
    assert 0 == tally.in_gap


def test_shown_ids_are_traced_to_the_servers_own() -> None:
    """A server that shows other ids than its own cannot move a task into or out of a gap."""
    log = ServerLog(
        tuple(Announcement("a", id, f"k{id}") for id in (1, 2, 300, 301)),
        (visit("a", "", 1), Visit("a", "1", (Sent(301, "2"),))),
        frozenset({"k1", "k301"}),
    )

    tally = count(log, Counter({"k1": 1, "k301": 1}), records=[record("1", "1", "2")])

    assert [2, 0, 0, 2, 0] == columns(tally)


def test_a_log_is_read_for_one_client(tmp_path: Path) -> None:
    """Another client's connections are not this one's."""
    lines: list[dict[str, Any]] = [
        {"what": "emitted", "id": 1, "key": "x"},
        {"what": "connected", "client": "naive", "connection": 1, "asked": ""},
        {"what": "connected", "client": "fencepost", "connection": 2, "asked": "7"},
        {"what": "sent", "client": "naive", "connection": 1, "id": 1, "shown": 1, "key": "x"},
    ]
    path = tmp_path / "a.log"
    path.write_text("".join(json.dumps({"replica": "a", **line}) + "\n" for line in lines))

    log = read_log([path], "fencepost")

    assert (Visit("a", "7", ()),) == log.visits
    assert frozenset() == log.keys_sent
    assert (Announcement("a", 1, "x"),) == log.announcements
