"""The scenarios on the official MCP Python SDK, 2.x: no discontinuity passes, each resume does."""

from pathlib import Path

import pytest

from fencepost.broker.embedded import EmbeddedBroker
from real.mcp_server import PYTHON_CASES, second_sdk
from real.rig import followed
from real.scenarios import Case, play


@pytest.mark.parametrize("case", PYTHON_CASES, ids=str)
async def test_scenario(broker: EmbeddedBroker, tmp_path: Path, case: Case) -> None:
    server = second_sdk(tmp_path, *case.line)
    async with followed(server, broker) as rig:
        await play(rig, case)
