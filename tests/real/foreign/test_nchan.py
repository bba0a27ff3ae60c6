"""nchan, on a real nginx: breaks that the scenarios do not have."""

from pathlib import Path

from fencepost.broker.embedded import EmbeddedBroker
from fencepost_schemas.reason import Reason
from fencepost_schemas.standing import Standing
from real.foreign.nchan import Nchan
from real.rig import followed
from real.scenarios import begin, break_often, break_under_load, end, keys


async def test_breaks_under_load_lose_nothing(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Events flow all the time, and nobody waits for anybody."""
    async with followed(Nchan(tmp_path, window=1_000), broker) as rig:
        records = await break_under_load(rig, 3)
        assert {"resumed"} == {record.verdict.kind for record in records[1:]}


async def test_one_generation_however_often_it_breaks(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    async with followed(Nchan(tmp_path), broker) as rig:
        records = await break_often(rig, 4)
        assert ["genesis", *["resumed"] * 4] == [record.verdict.kind for record in records]
        assert 1 == len({event.generation for event in await rig.home.events()})


async def test_a_restart_and_then_silence(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """It accepts an id that it has never given and waits: nothing proves anything."""
    async with followed(Nchan(tmp_path), broker, overlap_s=0.3) as rig:
        await begin(rig)
        await rig.gate.shut()
        await rig.restart()
        await rig.come_back()

        _, seam = await end(rig, 2)
        assert Standing.UNVERIFIABLE is seam.verdict.kind
        assert Reason.OVERLAP_SILENT in seam.verdict.reasons


async def test_a_channel_deleted_under_an_open_connection(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """The connection ends, and the channel of that name is another one from then on."""
    async with followed(Nchan(tmp_path), broker) as rig:
        await begin(rig)
        await rig.server.forget()
        await rig.emit(*keys("anew", 9))
        await rig.published("anew-9")

        records = await end(rig, 2)
        assert Standing.RESUMED not in [record.verdict.kind for record in records]
