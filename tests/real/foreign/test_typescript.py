"""The official MCP TypeScript SDK, on a real server: breaks that the scenarios do not have."""

from pathlib import Path

from fencepost.broker.embedded import EmbeddedBroker
from fencepost_schemas.reason import Reason
from fencepost_schemas.standing import Standing
from real.foreign.sdks import typescript_sdk
from real.mcp_server import WORK
from real.rig import followed
from real.scenarios import (
    begin,
    break_often,
    break_under_load,
    break_unnoticed,
    end,
    follow_call,
    keys,
    lose_at_join,
)


async def test_what_is_emitted_during_the_replay_comes_with_the_next_resume(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """What a slow store loses at the join of one connection, the next one asks for again."""
    async with followed(typescript_sdk(tmp_path), broker) as rig:
        records = await lose_at_join(rig)
        assert ["genesis", "resumed", "resumed"] == [record.verdict.kind for record in records]
        assert Reason.JOIN_RECOVERED in records[2].verdict.reasons


async def test_breaks_under_load_lose_nothing(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Events flow all the time, and nobody waits for anybody."""
    async with followed(typescript_sdk(tmp_path), broker) as rig:
        records = await break_under_load(rig, 3)
        assert {"resumed"} == {record.verdict.kind for record in records[1:]}


async def test_one_generation_however_often_it_breaks(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    async with followed(typescript_sdk(tmp_path), broker) as rig:
        records = await break_often(rig, 4)
        assert ["genesis", *["resumed"] * 4] == [record.verdict.kind for record in records]
        assert 1 == len({event.generation for event in await rig.home.events()})


async def test_a_break_that_the_server_does_not_notice(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """It answers 409 while it holds on to the stream that is gone, and resumes it afterwards."""
    async with followed(typescript_sdk(tmp_path), broker) as rig:
        records = await break_unnoticed(rig)
        assert 409 in [visit.status for visit in rig.gate.visits]
        assert ["genesis", "resumed"] == [record.verdict.kind for record in records]


async def test_the_stream_of_a_call_is_resumed_and_ends_with_its_result(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    async with followed(typescript_sdk(tmp_path, requests=[], call=WORK), broker) as rig:
        records = await follow_call(rig)
        assert ["genesis", "resumed"] == [record.verdict.kind for record in records]


async def test_without_a_log_the_position_is_ignored(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """Without an event store there are no ids, and a fresh stream comes instead."""
    async with followed(typescript_sdk(tmp_path, "--ids", "none"), broker) as rig:
        await begin(rig)
        await rig.gate.shut()
        await rig.emit(*keys("missed", 3))
        await rig.come_back()

        _, seam = await end(rig, 2)
        assert Standing.UNVERIFIABLE is seam.verdict.kind


async def test_a_server_that_refuses_a_session_with_400(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """The SDK's examples answer a session that they do not know with 400: it is as gone."""
    async with followed(typescript_sdk(tmp_path, "--unknown-session", "400"), broker) as rig:
        await begin(rig)
        await rig.gate.shut()
        await rig.restart()
        await rig.come_back()

        _, seam = await end(rig, 2)
        assert Standing.REORIGINATED is seam.verdict.kind


async def test_a_generation_begins_with_an_event(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """A connection that brought nothing new, and was no resume, leaves what we knew as it was.

    The audit of a join that is taken for racy is refused, for the stream is attached already.
    """
    async with followed(typescript_sdk(tmp_path, join="racy"), broker) as rig:
        await begin(rig)
        await rig.gate.shut()
        rig.gate.open()
        await rig.gate.visited(lambda visits: 409 in [one.status for one in visits], "audit")
        await rig.gate.shut()
        await rig.emit(*keys("missed", 3))
        await rig.come_back()

        records = await end(rig, 2)
        assert ["genesis", "unverifiable"] == [record.verdict.kind for record in records]
        assert set(keys("missed", 3)) <= {event.key for event in await rig.home.events()}
