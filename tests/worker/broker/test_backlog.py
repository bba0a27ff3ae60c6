"""Nothing is left where the stream holds nothing more, whatever the broker counts meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from fencepost.broker.backlog import nothing_left
from fencepost.broker.connection import Connection
from fencepost.broker.embedded import EmbeddedBroker
from fencepost.broker.jetstream import connect
from fencepost.broker.topology import ensure_consumer, ensure_streams
from fencepost.ports import ConsumerPlan, Delivery, Message, StoredMessage
from fencepost.settings import Broker, Login
from fencepost_schemas.subject import EVENTS
from kit.wait import until

SETTINGS = Broker(reply_s=2.0)
PLAN = ConsumerPlan(EVENTS, "c", ("fp.events.a.>",), 30.0, 100)
OURS, NOT_OURS = "fp.events.a.g.proven.0", "fp.events.b.g.proven.0"
LOOKS = 200


class Answers:
    """A connection whose consumer says this, over a stream with messages at these sequences."""

    def __init__(self, info: dict[str, Any], held: tuple[int, ...] = ()) -> None:
        self._info = info
        self._held = held

    async def api(self, name: str) -> dict[str, Any]:
        assert name == f"CONSUMER.INFO.{EVENTS}.c"
        return self._info

    async def scan(self, stream: str, subject: str, sequence: int) -> AsyncIterator[StoredMessage]:
        assert (stream, subject) == (EVENTS, "fp.events.a.>")
        for one in self._held:
            if one >= sequence:
                yield StoredMessage(OURS, one, b"", {})


def says(delivered: int, unacked: int) -> dict[str, Any]:
    return {
        "config": {"filter_subjects": ["fp.events.a.>"]},
        "delivered": {"stream_seq": delivered},
        "num_ack_pending": unacked,
        "num_pending": 0,
    }


@pytest.mark.parametrize(
    ("info", "held", "nothing"),
    [
        ({"error": {"err_code": 10014}}, (), False),
        (says(0, 0), (), True),
        (says(0, 0), (1,), False),  # it is still being made, and nothing is counted yet
        (says(1, 0), (1, 2), False),  # the second is stored, and not counted yet
        (says(2, 1), (1, 2), False),
        (says(2, 0), (1, 2), True),
        (says(9, 0), (1, 2), True),
    ],
)
async def test_what_the_stream_holds_decides(
    info: dict[str, Any], held: tuple[int, ...], nothing: bool
) -> None:
    """Each case says that nothing is pending; the broker is believed in none."""
    connection = cast(Connection, Answers(info, held))
    assert nothing is await nothing_left(connection, EVENTS, "c")


async def test_a_message_is_left_from_its_publishers_reply_until_its_ack(
    broker: EmbeddedBroker,
) -> None:
    """However often it is asked at once; the broker's own count lags behind now and then."""
    came: asyncio.Queue[Delivery] = asyncio.Queue()
    connection = await connect(SETTINGS, Login(servers=(broker.url,)), "init")
    await ensure_streams(connection, SETTINGS)
    await ensure_consumer(connection, PLAN)
    pull = connection.puller(EVENTS, "c", came.put_nowait)
    await pull.open()
    for number in range(LOOKS):
        await connection.store(Message(NOT_OURS, b"x"))
        assert await nothing_left(connection, EVENTS, "c"), f"look {number}"
        await connection.store(Message(OURS, b"x"))
        assert not await nothing_left(connection, EVENTS, "c"), f"look {number}, stored"
        await pull.want(1)
        delivery = await came.get()
        assert not await nothing_left(connection, EVENTS, "c"), f"look {number}, delivered"
        await connection.settle(delivery, b"+ACK")
        await until(lambda: nothing_left(connection, EVENTS, "c"), "the ack to be seen")
    await pull.close()
    await connection.close()
