"""Every row of the table of HTTP, and every public bug of a stream: what the bridge makes of it.

All servers are followed by one bridge at the same time. A case's id names its row.
"""

import asyncio

import pytest

from kit import hostile_bugs, hostile_http
from kit.hostile import Case, Seen, follow_all

CASES = [*hostile_http.CASES, *hostile_bugs.CASES]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Seen]:
    """What came of all cases, followed at once by one bridge."""
    return asyncio.run(follow_all(tmp_path_factory.mktemp("hostile"), CASES))


@pytest.mark.parametrize("case", CASES, ids=[f"{case.row}: {case.name}" for case in CASES])
def test_a_hostile_server(case: Case, seen: dict[str, Seen]) -> None:
    """What the row says is to be seen: events, positions, verdicts, requests, and the log."""
    found = seen[case.name]
    if case.keys:
        assert list(case.keys) == [one.key for one in found.events]
    assert list(case.asked) == found.asked[: len(case.asked)]
    assert list(case.verdicts) == found.verdicts[: len(case.verdicts)]
    assert set(case.reasons) <= found.reasons
    for part in case.said:
        assert any(part in line for line in found.said), found.said
    if case.requests is not None:
        assert case.requests == len(found.requests)
    case.also(found)
    assert case.settled(found)
    assert "s3cret" not in " ".join(found.said)


def test_no_row_is_missing() -> None:
    """Each row of the tables has a case, and each case a row."""
    assert {*hostile_http.ROWS, *hostile_bugs.ROWS} == {case.row for case in CASES}
    assert len(CASES) == len({case.name for case in CASES})
