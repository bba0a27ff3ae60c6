"""The scenarios on the official MCP Python SDK, 1.x: as on 2.x, to the reason."""

from pathlib import Path

import pytest

from fencepost.broker.embedded import EmbeddedBroker
from real.foreign.sdks import first_sdk
from real.mcp_server import PYTHON_CASES
from real.rig import followed
from real.scenarios import Case, play


@pytest.mark.parametrize("case", PYTHON_CASES, ids=str)
async def test_scenario(broker: EmbeddedBroker, tmp_path: Path, case: Case) -> None:
    server = first_sdk(tmp_path, *case.line)
    async with followed(server, broker) as rig:
        await play(rig, case)
