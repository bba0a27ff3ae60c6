"""django-eventstream, on a real server: breaks that the scenarios do not have."""

from pathlib import Path

from fencepost.broker.embedded import EmbeddedBroker
from fencepost_schemas.reason import Reason
from fencepost_schemas.standing import Standing
from real.foreign.django_eventstream import DjangoEventstream
from real.rig import followed
from real.scenarios import break_often, break_under_load


async def test_breaks_under_load_lose_nothing(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Events flow all the time, and nobody waits for anybody.

    What comes while it reads its database has it read it once more, from where it was asked: the
    ids of one connection then go back. That is another generation, whose events come again by key;
    none is lost.
    """
    async with followed(DjangoEventstream(tmp_path, "kept"), broker) as rig:
        records = await break_under_load(rig, 3)
        for record in records[1:]:
            back = Reason.ORDER_NOT_AFTER in record.verdict.reasons
            due = Standing.REORIGINATED if back else Standing.RESUMED
            assert due is record.verdict.kind, record.verdict


async def test_one_generation_however_often_it_breaks(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    async with followed(DjangoEventstream(tmp_path, "kept"), broker) as rig:
        records = await break_often(rig, 4)
        assert ["genesis", *["resumed"] * 4] == [record.verdict.kind for record in records]
        assert 1 == len({event.generation for event in await rig.home.events()})
