"""What the broker says of a stream and of its consumers, as far as the rooms ask."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from fencepost.broker.connection import NO_CONSUMER, Connection, api_error
from fencepost.broker.wire import GetReply, InfoReply
from fencepost.ports import ConsumerState, Stood, StreamState

NS_PER_MS = 1_000_000
NO_MESSAGE = 10037


async def stream_state(connection: Connection, stream: str) -> StreamState:
    """Return where a stream stands, by its leader."""
    reply = await connection.api(f"STREAM.INFO.{stream}")
    _check(reply, stream)
    return StreamState(
        made=reply["created"],
        last=reply["state"]["last_seq"],
        now_ms=_ms(reply["ts"]),
        age_ms=reply["config"].get("max_age", 0) // NS_PER_MS,
    )


async def consumer_state(
    connection: Connection, stream: str, consumer: str
) -> ConsumerState | None:
    """Return how far a consumer is, None where it is not there."""
    reply = await connection.api(f"CONSUMER.INFO.{stream}.{consumer}")
    if reply.get("error", {}).get("err_code") == NO_CONSUMER:
        return None
    _check(reply, stream)
    return ConsumerState(
        floor=reply["ack_floor"]["stream_seq"],
        idle=not reply["num_pending"] and not reply["num_ack_pending"],
    )


async def first_behind(
    connection: Connection, stream: str, subject: str, sequence: int
) -> Stood | None:
    """Return the first message that a filter takes behind a sequence, None where there is none."""
    request = {"seq": sequence + 1, "next_by_subj": subject}
    reply = await connection.ask(f"$JS.API.STREAM.MSG.GET.{stream}", msgspec.json.encode(request))
    got = msgspec.json.decode(reply.data, type=GetReply)
    if got.error is not None:
        if got.error.err_code == NO_MESSAGE:
            return None
        raise api_error(stream, got.error.err_code, got.error.description)
    assert got.message is not None
    return Stood(got.message.seq, _ms(got.message.time))


async def count(connection: Connection, stream: str, subject: str) -> int:
    """Return how many messages of a stream a filter takes."""
    found, seen = 0, 0
    while True:
        request = {"subjects_filter": subject, "offset": seen}
        reply = await connection.ask(f"$JS.API.STREAM.INFO.{stream}", msgspec.json.encode(request))
        info = msgspec.json.decode(reply.data, type=InfoReply)
        if info.error is not None:
            raise api_error(stream, info.error.err_code, info.error.description)
        page = info.state.subjects or {}
        found += sum(page.values())
        seen += len(page)
        if not page or seen >= info.total:
            return found


def _ms(time: str) -> int:
    return int(msgspec.convert(time, datetime).timestamp() * 1000)


def _check(reply: Mapping[str, Any], stream: str) -> None:
    error = reply.get("error")
    if error is not None:
        raise api_error(stream, int(error.get("err_code", 0)), str(error.get("description")))
