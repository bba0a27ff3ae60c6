"""The streams and consumers on a real broker: made once, and brought up to date."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fencepost.broker.connection import Connection
from fencepost.broker.embedded import EmbeddedBroker
from fencepost.broker.jetstream import connect
from fencepost.broker.topology import (
    Ensured,
    broker_clock_ms,
    ensure_consumer,
    ensure_streams,
    find_drifts,
    stream_config,
)
from fencepost.clock import wall_ms
from fencepost.errors import NotFine
from fencepost.ports import ConsumerPlan, Message, NotStored, Stored
from fencepost.settings import Broker, Login
from fencepost_policies.drift import Drift
from fencepost_schemas.subject import EVENTS, LEDGER, QUESTIONS, SOURCES, stream_plans

SETTINGS = Broker(reply_s=2.0)


@pytest.fixture
async def connection(broker: EmbeddedBroker) -> AsyncIterator[Connection]:
    opened = await connect(SETTINGS, Login(servers=(broker.url,)), "init")
    yield opened
    await opened.close()


async def _config(connection: Connection, name: str) -> dict[str, Any]:
    config: dict[str, Any] = (await connection.api(f"STREAM.INFO.{name}"))["config"]
    return config


async def test_streams_are_made_once(connection: Connection) -> None:
    """As the table wants each of them; the second time there is nothing to make."""
    plans = stream_plans("fp")
    assert [plan.name for plan in plans] == (await ensure_streams(connection, SETTINGS)).made
    updates = await connection.client.subscribe("$JS.EVENT.ADVISORY.STREAM.UPDATED.>")
    assert Ensured([], []) == await ensure_streams(connection, SETTINGS)
    assert [] == await find_drifts(connection, SETTINGS)
    for _ in range(2):  # the first one may overtake what it is to wait for
        await connection.client.flush()
    assert 0 == updates.pending_msgs, "nothing was to be changed"
    for plan in plans:
        made = await _config(connection, plan.name)
        wanted = stream_config(plan, SETTINGS)
        assert wanted == {field: made.get(field, type(wanted[field])()) for field in wanted}


async def test_a_stream_is_brought_up_to_date(connection: Connection) -> None:
    """A changed age is carried out, and what the table does not speak of is left alone."""
    await ensure_streams(connection, SETTINGS)
    before = await _config(connection, EVENTS)
    note = {**before, "metadata": {"team": "shop"}}
    await connection.api(f"STREAM.UPDATE.{EVENTS}", note)
    ensured = await ensure_streams(connection, Broker(events_age_s=3600))
    week = 7 * 24 * 3600 * 10**9
    assert [Drift(f"stream {EVENTS}", "max_age", week, 3600 * 10**9)] == ensured.mended
    after = await _config(connection, EVENTS)
    assert (3600 * 10**9, "shop") == (after["max_age"], after["metadata"]["team"])


async def test_what_the_broker_refuses_is_told(connection: Connection) -> None:
    """Three replicas on one server: the stream and the broker's own words."""
    with pytest.raises(NotFine, match=rf"stream {EVENTS}: .*replicas"):
        await ensure_streams(connection, Broker(replicas=3))


async def test_a_consumer_without_its_stream(connection: Connection) -> None:
    """The stream is named, and what makes it."""
    plan = ConsumerPlan(EVENTS, "c", ("fp.events.>",), 30.0, 10)
    with pytest.raises(NotFine, match=f"the broker has no stream {EVENTS}: run `fencepost init`"):
        await ensure_consumer(connection, plan)
    with pytest.raises(NotFine, match=f"no stream {EVENTS}"):
        await broker_clock_ms(connection, EVENTS)


async def test_a_consumer_is_brought_up_to_date(connection: Connection) -> None:
    """A longer wait for acks is carried out on the consumer that is there."""
    await ensure_streams(connection, SETTINGS)
    for ack_wait_s in (30.0, 45.0):
        plan = ConsumerPlan(EVENTS, "c", ("fp.events.>",), ack_wait_s, 10)
        await ensure_consumer(connection, plan)
        info = await connection.api(f"CONSUMER.INFO.{EVENTS}.c")
        assert int(ack_wait_s * 10**9) == info["config"]["ack_wait"]
    assert abs(await broker_clock_ms(connection, EVENTS) - wall_ms()) < 5_000


@pytest.mark.parametrize("name", [plan.name for plan in stream_plans("fp")])
@pytest.mark.parametrize(
    ("changes", "forgets"),
    [
        ({"max_bytes": 10_000_000}, False),
        ({"max_msgs": 100}, False),
        ({"discard": "old"}, False),
        ({"discard": "old", "max_bytes": 10_000_000}, True),
        ({"discard": "old", "max_msgs": 100}, True),
        ({"max_msg_size": 60_000}, False),
        ({"max_age": 3600 * 10**9}, True),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
async def test_what_an_operator_changed_is_found_and_set_right(
    connection: Connection, name: str, changes: dict[str, Any], forgets: bool
) -> None:
    """Each field by its name, and whether such a stream forgets; `init` sets it right."""
    await ensure_streams(connection, SETTINGS)
    before = await _config(connection, name)
    if "discard" in changes and before.get("discard_new_per_subject"):
        # The broker itself keeps this one from forgetting.
        reply = await connection.api(f"STREAM.UPDATE.{name}", {**before, **changes})
        assert "error" in reply
        return
    reply = await connection.api(f"STREAM.UPDATE.{name}", {**before, **changes})
    assert "error" not in reply
    found = await find_drifts(connection, SETTINGS)
    assert {(f"stream {name}", field) for field in changes} == {
        (one.what, one.field) for one in found
    }
    aged = name == EVENTS and "max_age" in changes
    assert (forgets and not aged) == any(drift.forgets for drift in found)
    assert found == (await ensure_streams(connection, SETTINGS)).mended
    assert [] == await find_drifts(connection, SETTINGS)


async def test_a_full_stream_refuses_what_is_new_and_forgets_nothing(
    connection: Connection,
) -> None:
    """Rows, questions and wishes that stand can still be replaced by smaller ones."""
    await ensure_streams(connection, SETTINGS)
    subjects = {
        LEDGER: "fp.ledger.charge.orders.{}",
        QUESTIONS: "fp.questions.orders.{}",
        SOURCES: "fp.intentions.{}",
    }
    for name, subject in subjects.items():
        before = await _config(connection, name)
        await connection.api(f"STREAM.UPDATE.{name}", {**before, "max_msgs": 3})
        for number in range(3):
            assert isinstance(await connection.store(Message(subject.format(number), b"x")), Stored)
        assert isinstance(await connection.store(Message(subject.format(9), b"x")), NotStored)
        assert isinstance(await connection.store(Message(subject.format(0), b"y")), Stored)
        kept = [one async for one in connection.scan(name, subject.format("*"))]
        assert 3 == len(kept)


async def test_nothing_of_ours_can_be_purged(connection: Connection) -> None:
    """Single dead letters may be deleted, for `fencepost dead drop` does that."""
    await ensure_streams(connection, SETTINGS)
    for plan in stream_plans("fp"):
        assert "error" in await connection.api(f"STREAM.PURGE.{plan.name}")
        reply = await connection.api(f"STREAM.MSG.DELETE.{plan.name}", {"seq": 1})
        deletable = "not permitted" not in str(reply["error"]["description"])
        assert deletable == plan.deletable


async def test_a_stream_that_the_broker_does_not_change(connection: Connection) -> None:
    """It is named with what differs and what to do, and nothing is half done."""
    plan = next(one for one in stream_plans("fp") if one.name == LEDGER)
    made = {**stream_config(plan, SETTINGS), "storage": "memory"}
    await connection.api(f"STREAM.CREATE.{LEDGER}", made)
    with pytest.raises(NotFine, match=r"FENCEPOST_LEDGER: storage is 'memory'.*by hand"):
        await ensure_streams(connection, SETTINGS)
    assert [True] == [one.forgets for one in await find_drifts(connection, SETTINGS)]


async def test_a_consumer_that_an_operator_changed_is_set_right(connection: Connection) -> None:
    """Where it begins is left as it was made."""
    await ensure_streams(connection, SETTINGS)
    plan = ConsumerPlan(EVENTS, "c", ("fp.events.>",), 30.0, 10)
    assert [] == await ensure_consumer(connection, plan)
    info = await connection.api(f"CONSUMER.INFO.{EVENTS}.c")
    changed = {**info["config"], "max_ack_pending": 1}
    request = {"stream_name": EVENTS, "config": changed}
    assert "error" not in await connection.api(f"CONSUMER.CREATE.{EVENTS}.c", request)
    begins_now = msgspec.structs.replace(plan, behind=7)
    assert [Drift("consumer c", "max_ack_pending", 1, 10)] == (
        await ensure_consumer(connection, begins_now)
    )
    assert [] == await ensure_consumer(connection, plan)


@pytest.mark.parametrize("size", [8 * 1024, 31 * 1024])
async def test_a_broker_whose_messages_are_too_small(size: int, tmp_path: Path) -> None:
    """Before any stream is made, with what to raise."""
    async with EmbeddedBroker(tmp_path / "broker", extra=f"max_payload: {size}\n") as server:
        opened = await connect(SETTINGS, Login(servers=(server.url,)), "init")
        try:
            with pytest.raises(NotFine, match=f"messages of {size} bytes.*raise max_payload"):
                await ensure_streams(opened, SETTINGS)
            assert 0 == (await opened.api("INFO"))["streams"]
        finally:
            await opened.close()
