"""Makes the broker's streams and consumers as the stream table wants them."""

from datetime import datetime
from typing import Any

import msgspec

from fencepost.broker.connection import NO_STREAM, Connection, api_error
from fencepost.errors import NotFine, Unreachable
from fencepost.ports import ConsumerPlan
from fencepost.settings import Broker
from fencepost.soundness import check_payload
from fencepost_policies.drift import Drift, stream_drifts
from fencepost_schemas.subject import StreamPlan, stream_plans

S_TO_NS = 1_000_000_000
BEGINS = ("deliver_policy", "opt_start_seq", "opt_start_time")


def stream_config(plan: StreamPlan, broker: Broker) -> dict[str, Any]:
    """Return the stream's configuration as the broker's API takes it."""
    return {
        "name": plan.name,
        "description": plan.holds,
        "subjects": list(plan.subjects),
        "retention": "workqueue" if plan.work_queue else "limits",
        "storage": "file",
        "num_replicas": broker.replicas,
        # At a limit the broker refuses what is new. It must never forget what is old: an operator
        # may set a limit at any time, and a ledger that forgets lets work be done twice.
        "discard": "new",
        "discard_new_per_subject": plan.first_per_subject,
        "max_age": broker.events_age_s * S_TO_NS if plan.age_limited else 0,
        "max_bytes": -1,
        "max_msgs": -1,
        "max_msg_size": -1,
        "max_consumers": -1,
        "max_msgs_per_subject": 1 if plan.last_per_subject or plan.first_per_subject else -1,
        "sealed": False,
        "deny_delete": not plan.deletable,
        "deny_purge": True,
        "allow_direct": False,
        "allow_rollup_hdrs": False,
        "allow_atomic": plan.atomic,
        "allow_msg_ttl": plan.message_ttl,
    }


class Ensured(msgspec.Struct, frozen=True):
    """What was made, and what was mended: each field that was not as it should be."""

    made: list[str]
    mended: list[Drift]


async def ensure_streams(connection: Connection, broker: Broker) -> Ensured:
    """Create what is missing and bring the rest up to date; return what that was.

    Raises NotFine where the broker refuses a change, or takes messages that are too small.
    """
    info = await connection.api("INFO")
    if "error" in info:
        raise Unreachable(f"the broker has no JetStream: {info['error'].get('description')}")
    check_payload(connection.payload_bytes_max)
    created: list[str] = []
    mended: list[Drift] = []
    for plan in stream_plans(broker.prefix):
        config = stream_config(plan, broker)
        found = await connection.api(f"STREAM.INFO.{plan.name}")
        if found.get("error", {}).get("err_code") == NO_STREAM:
            _check(await connection.api(f"STREAM.CREATE.{plan.name}", config), plan.name)
            created.append(plan.name)
        else:
            _check(found, plan.name)
            drifts = list(stream_drifts(f"stream {plan.name}", found["config"], config))
            if drifts:
                merged = {**found["config"], **config}
                reply = await connection.api(f"STREAM.UPDATE.{plan.name}", merged)
                _check_update(reply, plan.name, drifts)
                mended += drifts
    return Ensured(created, mended)


def _check_update(reply: dict[str, Any], stream: str, drifts: list[Drift]) -> None:
    """Raise NotFine with what differs where the broker does not change a stream that it has."""
    error = reply.get("error")
    if error is None:
        return
    text, code = str(error.get("description")), int(error.get("err_code", 0))
    problem = api_error(stream, code, text)
    if isinstance(problem, Unreachable):
        raise problem
    raise NotFine(
        f"{'; '.join(map(str, drifts))}. The broker does not change that: {text} ({code}). Change "
        "the stream by hand, or copy what it holds, delete it and run `fencepost init`"
    )


async def find_drifts(connection: Connection, broker: Broker) -> list[Drift]:
    """Return where the broker's streams are not as `init` makes them."""
    found: list[Drift] = []
    for plan in stream_plans(broker.prefix):
        reply = await connection.api(f"STREAM.INFO.{plan.name}")
        _check(reply, plan.name)
        config = stream_config(plan, broker)
        found += stream_drifts(f"stream {plan.name}", reply["config"], config)
    return found


async def ensure_consumer(connection: Connection, plan: ConsumerPlan) -> list[Drift]:
    """Create the consumer, or bring it up to date; return what was not as it should be."""
    config: dict[str, Any] = {
        "durable_name": plan.name,
        "name": plan.name,
        "deliver_policy": "by_start_sequence" if plan.behind else "all",
        "ack_policy": "explicit",
        "ack_wait": int(plan.ack_wait_s * S_TO_NS),
        "max_deliver": -1,
        "max_ack_pending": plan.pending_max,
        "filter_subjects": list(plan.subjects),
        "num_replicas": plan.replicas,
    }
    if plan.behind:
        config["opt_start_seq"] = plan.behind + 1
    found = await connection.api(f"CONSUMER.INFO.{plan.stream}.{plan.name}")
    drifts: list[Drift] = []
    if "error" not in found:
        # Where a consumer begins is decided when it is made, and never changed.
        for field in BEGINS:
            config.pop(field, None)
            if field in found["config"]:
                config[field] = found["config"][field]
        drifts = list(stream_drifts(f"consumer {plan.name}", found["config"], config))
    name = f"CONSUMER.CREATE.{plan.stream}.{plan.name}"
    reply = await connection.api(name, {"stream_name": plan.stream, "config": config})
    _check(reply, plan.stream)
    return drifts


async def broker_clock_ms(connection: Connection, stream: str) -> int:
    """Return the broker's clock, as it stood when it answered about this stream."""
    reply = await connection.api(f"STREAM.INFO.{stream}")
    _check(reply, stream)
    return int(msgspec.convert(reply["ts"], datetime).timestamp() * 1000)


def _check(reply: dict[str, Any], stream: str) -> None:
    error = reply.get("error")
    if error is not None:
        raise api_error(stream, int(error.get("err_code", 0)), str(error.get("description")))
