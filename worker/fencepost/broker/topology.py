"""Makes the broker's streams and consumers as the stream table wants them."""

from datetime import datetime
from typing import Any

import msgspec

from fencepost.broker.connection import NO_STREAM, Connection, api_error
from fencepost.errors import Unreachable
from fencepost.ports import ConsumerPlan
from fencepost.settings import Broker
from fencepost_schemas.subject import StreamPlan, stream_plans

S_TO_NS = 1_000_000_000


def stream_config(plan: StreamPlan, broker: Broker) -> dict[str, Any]:
    """Return the stream's configuration as the broker's API takes it."""
    return {
        "name": plan.name,
        "description": plan.holds,
        "subjects": list(plan.subjects),
        "retention": "workqueue" if plan.work_queue else "limits",
        "storage": "file",
        "num_replicas": broker.replicas,
        "discard": "old" if plan.last_per_subject else "new",
        "discard_new_per_subject": plan.first_per_subject,
        "max_age": broker.events_age_s * S_TO_NS if plan.age_limited else 0,
        "max_msgs_per_subject": 1 if plan.last_per_subject or plan.first_per_subject else -1,
        "deny_delete": plan.undeletable,
        "deny_purge": plan.undeletable,
        "allow_direct": False,
        "allow_rollup_hdrs": False,
        "allow_atomic": plan.atomic,
        "allow_msg_ttl": plan.message_ttl,
    }


async def ensure_streams(connection: Connection, broker: Broker) -> list[str]:
    """Create what is missing and bring the rest up to date; return the names that were created."""
    info = await connection.api("INFO")
    if "error" in info:
        raise Unreachable(f"the broker has no JetStream: {info['error'].get('description')}")
    created = []
    for plan in stream_plans(broker.prefix):
        config = stream_config(plan, broker)
        found = await connection.api(f"STREAM.INFO.{plan.name}")
        if found.get("error", {}).get("err_code") == NO_STREAM:
            _check(await connection.api(f"STREAM.CREATE.{plan.name}", config), plan.name)
            created.append(plan.name)
        else:
            _check(found, plan.name)
            if _differs(found["config"], config):
                merged = {**found["config"], **config}
                _check(await connection.api(f"STREAM.UPDATE.{plan.name}", merged), plan.name)
    return created


def _differs(found: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Return True if an update is due; the broker leaves out what is false, 0 or empty."""
    return any(found.get(field, type(value)()) != value for field, value in wanted.items())


async def ensure_consumer(connection: Connection, plan: ConsumerPlan) -> None:
    """Create the consumer, or bring it up to date."""
    config = {
        "durable_name": plan.name,
        "name": plan.name,
        "deliver_policy": "new" if plan.from_now else "all",
        "ack_policy": "explicit",
        "ack_wait": int(plan.ack_wait_s * S_TO_NS),
        "max_deliver": -1,
        "max_ack_pending": plan.pending_max,
        "filter_subjects": list(plan.subjects),
        "num_replicas": plan.replicas,
    }
    name = f"CONSUMER.CREATE.{plan.stream}.{plan.name}"
    reply = await connection.api(name, {"stream_name": plan.stream, "config": config})
    _check(reply, plan.stream)


async def broker_clock_ms(connection: Connection, stream: str) -> int:
    """Return the broker's clock, as it stood when it answered about this stream."""
    reply = await connection.api(f"STREAM.INFO.{stream}")
    _check(reply, stream)
    return int(msgspec.convert(reply["ts"], datetime).timestamp() * 1000)


def _check(reply: dict[str, Any], stream: str) -> None:
    error = reply.get("error")
    if error is not None:
        raise api_error(stream, int(error.get("err_code", 0)), str(error.get("description")))
