"""Connections of a worker that something happens to: a reply lost, an ack, the whole ledger."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

from fencepost.errors import Unreachable
from fencepost.pool.crash_points import Crash
from fencepost.ports import Broker, Delivery, Message, NotStored, Pull, Stored, StoredMessage
from fencepost_schemas.row import State, decode_row
from fencepost_schemas.subject import LEDGER

Replies = list[Stored | NotStored | None]


class Wall:
    """A machine's wall clock: how far it is wrong, and it may be set at any moment."""

    def __init__(self, ahead_ms: int = 0) -> None:
        self.ahead_ms = ahead_ms


class Wire:
    """A connection as it is, with what was delivered on it and what was said of that."""

    def __init__(self) -> None:
        self.inner: Any = None
        self.deliveries: list[Delivery] = []
        self.words: list[tuple[Delivery, bytes]] = []

    def over(self, inner: Broker) -> Broker:
        """Return a connection that this one stands in for."""
        self.inner = inner
        return cast(Broker, self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def puller(self, stream: str, consumer: str, take: Callable[[Delivery], None]) -> Pull:
        def noted(delivery: Delivery) -> None:
            self.deliveries.append(delivery)
            take(delivery)

        pull: Pull = self.inner.puller(stream, consumer, noted)
        return pull

    async def settle(self, delivery: Delivery, word: bytes) -> None:
        self.words.append((delivery, word))
        await self.inner.settle(delivery, word)

    async def settle_all(self, words: Sequence[tuple[Delivery, bytes]]) -> None:
        for delivery, word in words:
            await self.settle(delivery, word)


class AtWrite(Wire):
    """Struck at the first write of a row in a state, before the broker has it or behind that.

    Then the worker dies, or goes on without a reply.
    """

    def __init__(self, state: State, *, stored: bool, dies: bool) -> None:
        super().__init__()
        self._state = state
        self._stored = stored
        self._dies = dies
        self._struck = False

    async def store_burst(self, messages: Sequence[Message]) -> Replies:
        found = {decode_row(message.payload).state for message in messages}
        if self._struck or self._state not in found:
            replies: Replies = await self.inner.store_burst(messages)
            return replies
        self._struck = True
        if self._stored:
            await self.inner.store_burst(messages)
        if self._dies:
            raise Crash(f"at the write of {self._state}")
        return [None] * len(messages)


class AckLost(Wire):
    """The first ack of an event with this payload does not arrive."""

    def __init__(self, payload: bytes) -> None:
        super().__init__()
        self.lost = False
        self._payload = payload

    async def settle(self, delivery: Delivery, word: bytes) -> None:
        if (delivery.payload, word) == (self._payload, b"+ACK") and not self.lost:
            self.lost = True
            return
        await super().settle(delivery, word)


class BrokerClockSet(Wire):
    """The broker's clock is ahead by as much as a test says, from one moment to the next.

    It is what a worker sees of an election, where the next leader's clock is another one.
    """

    def __init__(self, wall: Wall) -> None:
        super().__init__()
        self._wall = wall
        self.readings = 0

    async def clock_ms(self, stream: str) -> int:
        self.readings += 1
        told_ms: int = await self.inner.clock_ms(stream)
        return told_ms + self._wall.ahead_ms


class LedgerAway(Wire):
    """From the first pull on the ledger does not answer, until it is `back`."""

    def __init__(self) -> None:
        super().__init__()
        self.back = asyncio.Event()
        self.refused = 0
        self._pulled = False

    def puller(self, stream: str, consumer: str, take: Callable[[Delivery], None]) -> Pull:
        self._pulled = True
        return super().puller(stream, consumer, take)

    async def store_burst(self, messages: Sequence[Message]) -> Replies:
        self._refuse()
        replies: Replies = await self.inner.store_burst(messages)
        return replies

    async def last(self, stream: str, subject: str) -> StoredMessage | None:
        if stream == LEDGER:
            self._refuse()
        stored: StoredMessage | None = await self.inner.last(stream, subject)
        return stored

    def _refuse(self) -> None:
        if self._pulled and not self.back.is_set():
            self.refused += 1
            raise Unreachable("the ledger does not answer")
