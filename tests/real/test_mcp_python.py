"""The official MCP Python SDK, 2.x: what else there is in the protocol, on a real server."""

from pathlib import Path

from fencepost.broker.embedded import EmbeddedBroker
from fencepost_schemas.reason import Reason
from fencepost_schemas.standing import Standing
from real.gate import Visit
from real.mcp_server import WORK, second_sdk
from real.rig import followed, running, tell
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
from real.truth import check


async def test_what_is_emitted_during_the_replay_is_not_lost(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """The SDK loses what comes between the replay and the live stream; the audit brings it."""
    async with followed(second_sdk(tmp_path), broker) as rig:
        await begin(rig)
        await rig.gate.shut()
        await rig.emit(*keys("missed", 3))
        await tell(rig.process, "busy", *keys("busy", 20))
        await rig.come_back()

        records = await end(rig, 2)
        assert Reason.AUDIT_DONE in records[1].verdict.reasons
        assert ["genesis", "resumed"] == [record.verdict.kind for record in records]


async def test_what_cannot_be_audited_is_in_a_gap(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """So much comes between the two replays that the log no longer holds what we had."""
    async with followed(second_sdk(tmp_path, "--window", "12"), broker) as rig:
        await begin(rig)
        await rig.gate.shut()
        await rig.emit(*keys("missed", 3))
        await tell(rig.process, "busy", *keys("busy", 20))
        await rig.come_back()
        await tell(rig.process, "settle")
        await rig.emit(*keys("live", 2))
        await rig.published(*keys("live", 2))
        await rig.gate.shut()
        await rig.come_back()

        records = await end(rig, 3)
        assert Standing.UNVERIFIABLE is records[1].verdict.kind
        assert Reason.AUDIT_REFUSED in records[1].verdict.reasons


async def test_breaks_under_load_lose_nothing(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Events flow all the time, and nobody waits for anybody."""
    async with followed(second_sdk(tmp_path), broker) as rig:
        records = await break_under_load(rig, 3)
        assert {"resumed"} == {record.verdict.kind for record in records[1:]}


async def test_a_join_that_is_not_known_is_looked_at_by_the_next_resume(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """Without an audit, what this SDK loses at the join of one connection comes with the next."""
    async with followed(second_sdk(tmp_path, join="unknown"), broker) as rig:
        records = await lose_at_join(rig)
        assert ["genesis", "resumed", "resumed"] == [record.verdict.kind for record in records]
        assert Reason.JOIN_RECOVERED in records[2].verdict.reasons


async def test_one_generation_however_often_it_breaks(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    async with followed(second_sdk(tmp_path), broker) as rig:
        records = await break_often(rig, 4)
        assert ["genesis", *["resumed"] * 4] == [record.verdict.kind for record in records]
        assert 1 == len({event.generation for event in await rig.home.events()})


async def test_a_break_that_the_server_does_not_notice(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """It replays and ends the answer, for the stream is attached elsewhere, until it notices."""
    async with followed(second_sdk(tmp_path), broker) as rig:
        records = await break_unnoticed(rig)
        assert {"resumed"} == {record.verdict.kind.value for record in records[1:]}


async def test_a_ping_is_answered_and_is_no_event(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """The server has its answer; in the replay the ping comes again, and changes nothing."""
    async with followed(second_sdk(tmp_path), broker) as rig:
        await rig.attached()
        await rig.emit(*keys("before", 3))
        await tell(rig.process, "ping")
        await rig.emit(*keys("then", 3))
        await rig.published(*keys("then", 3))
        await rig.gate.shut()
        await rig.come_back()

        _, seam = await end(rig, 2)
        assert Standing.RESUMED is seam.verdict.kind
        assert 8 == len(await rig.home.events())


def statuses(visits: list[Visit], method: str = "GET") -> list[int]:
    return [visit.status for visit in visits if visit.method == method]


async def test_the_wrong_replica_is_asked_once_more(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """A balancer picks a replica that has never heard of the session: 404, then the right one."""
    other = second_sdk(tmp_path / "other")
    async with running(other) as wrong, followed(second_sdk(tmp_path), broker) as rig:
        await begin(rig)
        await rig.gate.shut()
        await rig.emit(*keys("missed", 3))
        rig.gate.detour = [wrong.port]
        await rig.come_back()

        _, seam = await end(rig, 2)
        assert Standing.RESUMED is seam.verdict.kind
        assert [200, 404, 200] == statuses(rig.gate.visits)[:3]


async def test_nothing_but_wrong_replicas_is_the_end_of_the_session(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """Nobody can tell that from a restart: another session, another generation, and a gap.

    Two positions are asked for, each of them twice.
    """
    other = second_sdk(tmp_path / "other")
    async with running(other) as wrong, followed(second_sdk(tmp_path), broker) as rig:
        await begin(rig)
        await rig.gate.shut()
        await rig.emit(*keys("missed", 3))
        rig.gate.detour = [wrong.port] * 4
        await rig.come_back()

        _, seam = await end(rig, 2)
        assert Standing.REORIGINATED is seam.verdict.kind
        assert Reason.SESSION_CHANGED in seam.verdict.reasons


async def test_the_stream_of_a_call_is_resumed_and_ends_with_its_result(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """It is opened by a POST, which happens once: after a break a GET goes on behind it."""
    async with followed(second_sdk(tmp_path, requests=[], call=WORK), broker) as rig:
        records = await follow_call(rig)
        assert ["genesis", "resumed"] == [record.verdict.kind for record in records]


async def test_a_kept_log_does_not_make_up_for_a_lost_session(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """The new process knows the ids, and would go on from there to what is live in it.

    What it lost in between is behind the replay, where no gap would be: so it is not asked.
    """
    async with followed(second_sdk(tmp_path, "--file", str(tmp_path / "store")), broker) as rig:
        await begin(rig)
        await rig.gate.shut()
        await rig.emit(*keys("missed", 3))
        await rig.restart()
        await rig.emit(*keys("unheard", 2))
        await rig.come_back()

        _, seam = await end(rig, 2)
        assert Standing.REORIGINATED is seam.verdict.kind
        assert Reason.SESSION_CHANGED in seam.verdict.reasons


async def test_without_a_log_nothing_can_be_proven(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Without an event store the SDK sends no ids, so there is nothing to resume from."""
    async with followed(second_sdk(tmp_path, "--ids", "none"), broker) as rig:
        await begin(rig)
        await rig.gate.shut()
        await rig.emit(*keys("missed", 3))
        await rig.come_back()

        _, seam = await end(rig, 2)
        assert Standing.UNVERIFIABLE is seam.verdict.kind, seam


async def test_another_sessions_events_in_a_shared_log_are_noticed(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """The SDK keeps every session's stream under one name: a resume brings the others' as well."""
    others = {"method": "tools/call", "params": {"name": "follow", "arguments": {"topic": "b"}}}
    server = second_sdk(tmp_path)
    beside = {**server.source, "mcp": {"requests": [others]}}
    async with followed(server, broker, beside) as rig:
        await rig.gate.visited(lambda visits: 2 == statuses(visits).count(200), "two streams")
        for number in range(1, 7):
            await rig.emit(f"before-{number}")
            await tell(rig.process, "emit", f"foreign-{number}", topic="b")
        await rig.published("before-6")
        await rig.gate.shut()
        rig.gate.open()

        _, seam = await rig.judged(2)
        assert Standing.REORIGINATED is seam.verdict.kind
        assert Reason.OVERLAP_MISSED in seam.verdict.reasons


LISTEN = {"resourceSubscriptions": [*keys("before", 6), *keys("missed", 3), *keys("after", 2)]}


async def test_since_2026_each_connection_begins_anew(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """`subscriptions/listen` has no resumption: what was missed is in a gap, by that reason."""
    server = second_sdk(tmp_path, protocol="2026-07-28", notifications=LISTEN)
    server.source = {**server.source, "key": "/params/uri"}
    async with followed(server, broker) as rig:
        await rig.gate.visited(lambda visits: [200] == statuses(visits, "POST"), "subscription")
        await tell(rig.process, "touch", *keys("before", 6))
        await rig.published(*keys("before", 6))
        await rig.gate.shut()
        await tell(rig.process, "touch", *keys("missed", 3))
        rig.gate.open()
        await rig.gate.visited(lambda visits: [200, 200] == statuses(visits, "POST"), "another")
        await tell(rig.process, "touch", *keys("after", 2))
        await rig.published(*keys("after", 2))

        first, seam = await rig.judged(2)
        assert Standing.GENESIS is first.verdict.kind
        assert Standing.REORIGINATED is seam.verdict.kind
        assert (Reason.NO_RESUMPTION,) == seam.verdict.reasons
        check(rig.server.emitted(), await rig.home.events(), [first, seam])
