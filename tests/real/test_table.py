"""The document on real servers says what the tests on them assert, and speaks of all of them."""

import re
from pathlib import Path

from fencepost_schemas.standing import Standing
from real.foreign.table import ROWS, table
from real.scenarios import SCENARIOS, Case

DOCUMENT = Path(__file__).parents[2] / "docs" / "servers.md"
COMMAND = "PYTHONPATH=tests .venv/bin/python -m real.foreign.table"


def test_the_document_shows_the_table_of_today() -> None:
    marks = f"<!-- Made by: {COMMAND} -->\n(.*?)<!-- end -->\n"
    shown = re.search(marks, DOCUMENT.read_text("utf-8"), re.DOTALL)
    assert shown is not None, f"{DOCUMENT} has lost its marks"
    assert table() == shown[1], f"put between the marks what this prints: {COMMAND}"


def test_the_document_explains_every_scenario_and_verdict() -> None:
    text = DOCUMENT.read_text("utf-8")
    for scenario in SCENARIOS:
        assert f"| {scenario} |" in text
    for standing in (Standing.RESUMED, Standing.REORIGINATED, Standing.UNVERIFIABLE):
        assert f"**{standing.value}**" in text


def test_what_was_lost_is_resumed_nowhere() -> None:
    """Whoever adds a server cannot ask for a verdict that no server can earn."""

    def outlived(case: Case) -> bool:
        return case.scenario.name.startswith("restart")

    assert not [
        f"{row}: {case}"
        for row in ROWS
        for case in row.cases
        if case.due is Standing.RESUMED and not case.scenario.continuous and not outlived(case)
    ]
