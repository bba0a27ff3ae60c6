"""The scenarios on the official MCP TypeScript SDK."""

from pathlib import Path

import pytest

from fencepost.broker.embedded import EmbeddedBroker
from fencepost_schemas.reason import Reason
from real.foreign.sdks import typescript_sdk
from real.mcp_server import COUNTED
from real.rig import followed
from real.scenarios import (
    LITTLE,
    LONG,
    NOTHING,
    PAST,
    RESTART_FEWER,
    RESTART_MORE,
    UNKNOWN,
    WITHIN,
    Case,
    play,
)

CASES = (
    Case(NOTHING, (Reason.OVERLAP_MATCHED,)),
    Case(WITHIN, (Reason.OVERLAP_MATCHED,)),
    Case(PAST, (Reason.RESET_STATUS,)),
    Case(RESTART_FEWER, (Reason.SESSION_CHANGED,)),
    Case(RESTART_MORE, (Reason.SESSION_CHANGED,)),
    Case(UNKNOWN, (Reason.RESET_STATUS,)),
    Case(UNKNOWN, (Reason.OVERLAP_OTHER_BYTES,), COUNTED),
    Case(LITTLE, (Reason.OVERLAP_MATCHED,)),
    Case(LONG, (Reason.OVERLAP_MATCHED,)),
)


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_scenario(broker: EmbeddedBroker, tmp_path: Path, case: Case) -> None:
    """An id that is not known is refused with 400; a second stream beside the first with 409."""
    server = typescript_sdk(tmp_path, *case.line)
    async with followed(server, broker) as rig:
        await play(rig, case)
