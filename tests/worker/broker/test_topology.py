"""The streams and consumers on a real broker: made once, and brought up to date."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from fencepost.broker.connection import Connection
from fencepost.broker.embedded import EmbeddedBroker
from fencepost.broker.jetstream import connect
from fencepost.broker.topology import (
    broker_clock_ms,
    ensure_consumer,
    ensure_streams,
    stream_config,
)
from fencepost.clock import wall_ms
from fencepost.errors import NotFine
from fencepost.ports import ConsumerPlan
from fencepost.settings import Broker, Login
from fencepost_schemas.subject import EVENTS, stream_plans

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
    assert [plan.name for plan in plans] == await ensure_streams(connection, SETTINGS)
    updates = await connection.client.subscribe("$JS.EVENT.ADVISORY.STREAM.UPDATED.>")
    assert [] == await ensure_streams(connection, SETTINGS)
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
    assert [] == await ensure_streams(connection, Broker(events_age_s=3600))
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
