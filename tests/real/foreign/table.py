"""The table of docs/servers.md, from what the tests assert.

`PYTHONPATH=tests .venv/bin/python -m real.foreign.table` prints it.
"""

import sys
from collections.abc import Iterator

from real.foreign.rows import FOREIGN
from real.mcp_server import SECOND_SDK
from real.scenarios import SCENARIOS, Case, Row, Scenario

ROWS = (SECOND_SDK, *FOREIGN)


def table() -> str:
    """Return a line a server, a column a scenario: the verdict, and the reasons for it."""
    return "".join(f"| {' | '.join(cells)} |\n" for cells in _lines())


def _lines() -> Iterator[list[str]]:
    yield ["server", "dialect", *map(str, SCENARIOS)]
    yield ["---"] * (2 + len(SCENARIOS))
    for row in ROWS:
        yield [row.server, f"`{row.dialect}`", *(_cell(row, scenario) for scenario in SCENARIOS)]


def _cell(row: Row, scenario: Scenario) -> str:
    """Return what is due; more than one line where it depends on how ids are made."""
    return "<br>".join(_said(case) for case in row.cases if case.scenario is scenario)


def _said(case: Case) -> str:
    reasons = " or ".join(f"`{reason.value}`" for reason in case.reasons)
    kind = f"{' '.join(case.options[1:])}: " if case.options else ""
    return f"{kind}**{case.due.value}** {reasons}"


if __name__ == "__main__":
    sys.stdout.write(table())
