"""The scenarios on every server from outside: no discontinuity passes, each true resume does."""

from pathlib import Path

import pytest

from fencepost.broker.embedded import EmbeddedBroker
from real.foreign.rows import FOREIGN
from real.scenarios import Case, Row, play_on

PLAYS = [(row, case) for row in FOREIGN for case in row.cases]


@pytest.mark.parametrize(("row", "case"), PLAYS, ids=str)
async def test_scenario(broker: EmbeddedBroker, tmp_path: Path, row: Row, case: Case) -> None:
    await play_on(row, case, broker, tmp_path)
