"""The servers from npm: breaks that the scenarios do not have."""

from pathlib import Path

import pytest

from fencepost.broker.embedded import EmbeddedBroker
from real.foreign.durable_streams import DurableStreams
from real.foreign.npm import sse_channel
from real.rig import Server, followed
from real.scenarios import break_under_load


def made(name: str, folder: Path) -> Server:
    return DurableStreams(folder, kept=True) if name == "durable" else sse_channel(folder, 1_000)


@pytest.mark.parametrize("name", ["sse-channel", "durable"])
async def test_breaks_under_load_lose_nothing(
    broker: EmbeddedBroker, tmp_path: Path, name: str
) -> None:
    """Events flow all the time, and nobody waits for anybody."""
    async with followed(made(name, tmp_path), broker) as rig:
        records = await break_under_load(rig, 3)
        assert {"resumed"} == {record.verdict.kind for record in records[1:]}
