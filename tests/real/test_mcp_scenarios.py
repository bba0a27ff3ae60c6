"""The scenarios on the official MCP Python SDK, 2.x: no discontinuity passes, each resume does."""

from pathlib import Path

import pytest

from fencepost.broker.embedded import EmbeddedBroker
from real.mcp_server import SECOND_SDK
from real.scenarios import Case, play_on


@pytest.mark.parametrize("case", SECOND_SDK.cases, ids=str)
async def test_scenario(broker: EmbeddedBroker, tmp_path: Path, case: Case) -> None:
    await play_on(SECOND_SDK, case, broker, tmp_path)
