"""The broker as the rooms see it: a connection with its consumers."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from fencepost.broker import state
from fencepost.broker.connection import Connection
from fencepost.broker.login import close, new_client, open_client
from fencepost.broker.puller import Puller
from fencepost.broker.topology import broker_clock_ms, ensure_consumer, find_drifts
from fencepost.errors import FencepostError
from fencepost.ports import ConsumerPlan, ConsumerState, Delivery, Pull, Stood, StreamState
from fencepost.settings import Broker, Login
from fencepost_policies.drift import Drift

log = logging.getLogger("fencepost.broker")


class JetStream(Connection):
    async def clock_ms(self, stream: str) -> int:
        return await broker_clock_ms(self, stream)

    async def ensure_consumer(self, plan: ConsumerPlan) -> None:
        for drift in await ensure_consumer(self, plan):
            log.warning("%s: it is set right", drift)

    async def stream_state(self, stream: str) -> StreamState:
        return await state.stream_state(self, stream)

    async def consumer_state(self, stream: str, consumer: str) -> ConsumerState | None:
        return await state.consumer_state(self, stream, consumer)

    async def first_behind(self, stream: str, subject: str, sequence: int) -> Stood | None:
        return await state.first_behind(self, stream, subject, sequence)

    async def count(self, stream: str, subject: str) -> int:
        return await state.count(self, stream, subject)

    async def drifts(self) -> list[Drift]:
        return await find_drifts(self, self.settings)

    def puller(self, stream: str, consumer: str, take: Callable[[Delivery], None]) -> Pull:
        return Puller(self, stream, consumer, take)

    async def settle(self, delivery: Delivery, word: bytes) -> None:
        await self.post(delivery.reply, word)

    async def settle_all(self, words: Sequence[tuple[Delivery, bytes]]) -> None:
        await self._send_all([(delivery.reply, word, "", None, "") for delivery, word in words])


async def connect(broker: Broker, login: Login, role: str) -> JetStream:
    """Return an open connection; raise UsageError, Denied or Unreachable in one clear line."""
    client = new_client(login)
    connection = JetStream(client, broker, role)

    async def disconnected() -> None:
        if not client.is_closed:
            log.warning("broker: connection lost; trying again")

    callbacks = {
        "error_cb": connection.failed,
        "disconnected_cb": disconnected,
        "reconnected_cb": connection.reconnected,
    }
    try:
        await open_client(client, broker, login, role, callbacks)
        await connection.listen()
    except (FencepostError, asyncio.CancelledError):
        # Whoever was told to stop meanwhile leaves no client behind that reconnects for ever.
        await close(client)
        raise
    return connection
