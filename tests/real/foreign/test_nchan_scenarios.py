"""The scenarios on nchan, which says nothing: any id is accepted, and 200 is all there is."""

from pathlib import Path

import pytest

from fencepost.broker.embedded import EmbeddedBroker
from fencepost_schemas.reason import Reason
from real.foreign.nchan import Nchan
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

# Its ids are a second and a number in it: within the second they are given out again.
OTHER_LOG = (Reason.OVERLAP_OTHER_BYTES, Reason.OVERLAP_MISSED)
CASES = (
    Case(NOTHING, (Reason.OVERLAP_MATCHED,)),
    Case(WITHIN, (Reason.OVERLAP_MATCHED,)),
    Case(PAST, (Reason.OVERLAP_MISSED,)),
    Case(RESTART_FEWER, OTHER_LOG),
    Case(RESTART_MORE, OTHER_LOG),
    Case(UNKNOWN, OTHER_LOG),
    Case(LITTLE, (Reason.OVERLAP_MATCHED,)),
    Case(LONG, (Reason.OVERLAP_MATCHED,)),
)


@pytest.mark.parametrize("first", ["oldest", "newest"])
@pytest.mark.parametrize("case", CASES, ids=str)
async def test_scenario(broker: EmbeddedBroker, tmp_path: Path, case: Case, first: str) -> None:
    """Whatever a subscriber without a position begins with."""
    server = Nchan(tmp_path, case.scenario.window, first)
    async with followed(server, broker) as rig:
        await play(rig, case)
