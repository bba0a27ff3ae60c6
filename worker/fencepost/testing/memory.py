"""A broker in memory, with JetStream's semantics as far as fencepost uses them.

Streams store by subject with compare-and-set, alone or in atomic batches; consumers deliver, wait
for an ack, and deliver again. `Vices` make it behave as a real one does on a bad day; without any
it is a plain broker for tests. What it promises is held against a real nats-server by the same
script (tests/conformance).
"""

import asyncio
import contextvars
from collections.abc import AsyncIterator, Callable, Sequence
from random import Random
from typing import TypeVar

import msgspec

from fencepost.errors import NotFine, Unanswered
from fencepost.ports import (
    ConsumerPlan,
    ConsumerState,
    Delivery,
    Message,
    NotStored,
    Stood,
    Stored,
    StoredMessage,
    StreamState,
)
from fencepost.testing.consumer import Consumer
from fencepost.testing.streams import Stream, takes
from fencepost_policies.drift import Drift
from fencepost_schemas.subject import stream_plans

T = TypeVar("T")

IN_FLIGHT = 10164
PAYLOAD_BYTES_MAX = 1024 * 1024


class Vices(msgspec.Struct):
    """What goes wrong at the broker; probabilities are per call, times in seconds."""

    latency_s: float = 0.0
    reply_lost: float = 0.0
    request_lost: float = 0.0
    ack_lost: float = 0.0
    reply_limit_s: float = 5.0


class MemoryBroker:
    """The server: streams, consumers, and whether it answers."""

    def __init__(self, prefix: str = "fp", chance: Random | None = None) -> None:
        self.prefix = prefix
        self.vices = Vices()
        self.clock_ahead_ms = 0
        """How far its clock was set since it began, or how far the next leader's is ahead."""
        self.chance = chance if chance is not None else Random(0)
        self.up = asyncio.Event()
        self.up.set()
        self.streams = {plan.name: Stream(plan) for plan in stream_plans(prefix)}
        self.consumers: dict[tuple[str, str], Consumer] = {}
        self.connections: list[MemoryConnection] = []
        self._stirred = asyncio.Event()

    async def run(self) -> None:
        """Deliver what is due, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            self._stirred.clear()
            await self.up.wait()
            soonest = self._deliver(loop.time())
            try:
                async with asyncio.timeout(max(soonest - loop.time(), 0.001)):
                    await self._stirred.wait()
            except TimeoutError:
                pass  # something is due

    def stop(self) -> None:
        """Answer nobody, until `start`."""
        self.up.clear()

    def start(self) -> None:
        self.up.set()
        for connection in self.connections:
            connection.reconnected()
        self.stir()

    def stir(self) -> None:
        """Look again: something was stored, asked for, or settled."""
        self._stirred.set()

    def forget_acks(self, since_s: float) -> None:
        """Do what a single server does when it is killed: acks of the last moment never were."""
        now_s = asyncio.get_running_loop().time()
        for consumer in self.consumers.values():
            for sequence, at_s in list(consumer.acked_at.items()):
                if at_s >= since_s:
                    del consumer.acked_at[sequence]
                    consumer.due[sequence] = now_s
            consumer.known.clear()
        self.stir()

    def stream_of(self, subject: str) -> Stream:
        for stream in self.streams.values():
            if any(takes(pattern, subject) for pattern in stream.plan.subjects):
                return stream
        raise NotFine(f"no stream takes {subject}")

    def _deliver(self, now_s: float) -> float:
        """Hand out what is due to whoever asked; return when to look again."""
        soonest = now_s + 60.0
        for consumer in self.consumers.values():
            for pull in list(consumer.pulls):
                while pull.outstanding and (message := consumer.take_due(now_s)) is not None:
                    pull.hand(consumer, message)
            soonest = min([soonest, *(due for due in consumer.due.values() if due > now_s)])
        return soonest


class MemoryConnection:
    """One process's connection. What it has sent is carried out whatever becomes of its process."""

    def __init__(self, broker: MemoryBroker) -> None:
        self.broker = broker
        self.payload_bytes_max = PAYLOAD_BYTES_MAX
        self.deafness = 0.0
        """The part of what comes back to it that is lost, while all that it sends arrives."""
        self._arrives_s = 0.0
        self._over = False
        self._on_reconnect: list[tuple[Callable[[], None], contextvars.Context]] = []
        self._pullers: list[MemoryPuller] = []
        broker.connections.append(self)

    def on_reconnect(self, call: Callable[[], None]) -> None:
        self._on_reconnect.append((call, contextvars.copy_context()))

    def reconnected(self) -> None:
        for call, context in self._on_reconnect:
            asyncio.get_running_loop().call_soon(call, context=context)

    async def close(self) -> None:
        self.cut()

    def cut(self) -> None:
        """End it, as the death of its process does: from now on nothing comes and nothing goes."""
        self._over = True
        for puller in self._pullers:
            puller.leave()
        if self in self.broker.connections:
            self.broker.connections.remove(self)

    def misses(self) -> bool:
        """Return True if something that comes back to it now is lost."""
        return self.deafness > 0.0 and self.broker.chance.random() < self.deafness

    # --- storing
    async def store(self, message: Message) -> Stored | NotStored:
        return await self._call(lambda: self._store_now([message]))

    async def store_burst(self, messages: Sequence[Message]) -> list[Stored | NotStored | None]:
        calls = (self.store(message) for message in messages)
        replies = await asyncio.gather(*calls, return_exceptions=True)
        return [_reply_or_unknown(reply) for reply in replies]

    async def store_batch(
        self, messages: Sequence[Message], sent: Callable[[], None] = lambda: None
    ) -> Stored | NotStored:
        return await self._call(lambda: self._store_now(messages), sent)

    # --- reading
    async def last(self, stream: str, subject: str) -> StoredMessage | None:
        return await self._call(lambda: self._last_now(stream, subject))

    async def scan(
        self, stream: str, subject: str, sequence: int = 1
    ) -> AsyncIterator[StoredMessage]:
        while True:
            after = sequence
            found = await self._call(
                lambda: self.broker.streams[stream].matching(subject, after)  # noqa: B023
            )
            if found is None:
                return
            yield found
            sequence = found.sequence + 1

    async def subjects(self, stream: str, subject: str) -> list[str]:
        held = self.broker.streams[stream].last
        return await self._call(lambda: sorted(name for name in held if takes(subject, name)))

    async def clock_ms(self, stream: str) -> int:
        loop = asyncio.get_running_loop()
        return await self._call(lambda: int(loop.time() * 1000) + self.broker.clock_ahead_ms)

    # --- delivering
    async def ensure_consumer(self, plan: ConsumerPlan) -> None:
        def ensure() -> None:
            known = self.broker.consumers.get((plan.stream, plan.name))
            if known is None:
                stream = self.broker.streams[plan.stream]
                self.broker.consumers[plan.stream, plan.name] = Consumer(stream, plan)

        await self._call(ensure)

    async def stream_state(self, stream: str) -> StreamState:
        loop, held = asyncio.get_running_loop(), self.broker.streams[stream]
        now_ms = int(loop.time() * 1000) + self.broker.clock_ahead_ms
        return await self._call(lambda: StreamState("once", held.sequence, now_ms, 0))

    async def consumer_state(self, stream: str, consumer: str) -> ConsumerState | None:
        def state() -> ConsumerState | None:
            known = self.broker.consumers.get((stream, consumer))
            if known is None:
                return None
            floor = min(known.due, default=known.next_sequence) - 1
            return ConsumerState(floor, known.idle)

        return await self._call(state)

    async def first_behind(self, stream: str, subject: str, sequence: int) -> Stood | None:
        def first() -> Stood | None:
            held = self.broker.streams[stream]
            found = held.matching(subject, sequence + 1)
            if found is None:
                return None
            return Stood(found.sequence, int(held.stored_s[found.sequence] * 1000))

        return await self._call(first)

    async def count(self, stream: str, subject: str) -> int:
        kept = self.broker.streams[stream].messages
        return await self._call(
            lambda: len([one for one in kept.values() if takes(subject, one.subject)])
        )

    async def drifts(self) -> list[Drift]:
        return []

    def puller(
        self, stream: str, consumer: str, take: Callable[[Delivery], None]
    ) -> "MemoryPuller":
        puller = MemoryPuller(self, self.broker.consumers[stream, consumer], take)
        self._pullers.append(puller)
        return puller

    async def settle(self, delivery: Delivery, word: bytes) -> None:
        """Send a word on a delivery. As with the real one, an old delivery's word counts too."""
        stream, consumer, sequence = delivery.reply.split(" ")
        if self.broker.chance.random() >= self.broker.vices.ack_lost:
            held = self.broker.consumers[stream, consumer]
            self._travel(lambda: held.settle(int(sequence), word), None)

    async def settle_all(self, words: Sequence[tuple[Delivery, bytes]]) -> None:
        for delivery, word in words:
            await self.settle(delivery, word)

    # --- inside
    async def _call(self, do: Callable[[], T], sent: Callable[[], None] = lambda: None) -> T:
        """Travel there, do it, and travel back; either way may be lost."""
        vices, chance = self.broker.vices, self.broker.chance
        reply: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if chance.random() >= vices.request_lost:
            self._travel(do, reply)
        sent()
        try:
            async with asyncio.timeout(vices.reply_limit_s):
                return await reply
        except TimeoutError:
            raise Unanswered("the broker did not answer in time") from None

    def _travel(self, do: Callable[[], T], reply: "asyncio.Future[T] | None") -> None:
        """Send something on its way. What one connection sends arrives in its order."""
        if self._over:
            return
        loop, broker = asyncio.get_running_loop(), self.broker
        latency_s = broker.chance.random() * broker.vices.latency_s
        self._arrives_s = max(self._arrives_s + 1e-6, loop.time() + latency_s)
        # A client that waits for the broker to come back keeps some of what it could not send.
        kept = broker.chance.random() < 0.5

        async def travel(arrives_s: float) -> None:
            await asyncio.sleep(arrives_s - loop.time())
            if not broker.up.is_set():
                if not kept:
                    return
                await broker.up.wait()
            try:
                result = do()
            except NotFine as error:
                if reply is not None and not reply.done():
                    reply.set_exception(error)
                return
            broker.stir()
            if reply is None or broker.chance.random() < broker.vices.reply_lost:
                return
            if self.misses():
                return
            await asyncio.sleep(broker.chance.random() * broker.vices.latency_s)
            if not reply.done():
                reply.set_result(result)

        # It belongs to nobody: it goes on when its sender is paused or dead.
        loop.create_task(travel(self._arrives_s), context=contextvars.Context())

    def _store_now(self, messages: Sequence[Message]) -> Stored | NotStored:
        stream = self.broker.stream_of(messages[0].subject)
        subjects = [message.subject for message in messages if message.expect is not None]
        if len(set(subjects)) < len(subjects):
            return NotStored(IN_FLIGHT, "wrong last sequence")
        for message in messages:
            refusal = stream.refusal(message)
            if refusal is not None:
                return refusal
        return Stored([stream.put(message) for message in messages][-1])

    def _last_now(self, stream: str, subject: str) -> StoredMessage | None:
        held = self.broker.streams[stream]
        if not {"*", ">"} & set(subject.split(".")):
            number = held.last.get(subject)
            return held.messages[number] if number is not None else None
        found = [number for name, number in held.last.items() if takes(subject, name)]
        return held.messages[max(found)] if found else None


class MemoryPuller:
    """As the real one: asks for messages, counts what is outstanding."""

    def __init__(
        self, connection: MemoryConnection, consumer: Consumer, take: Callable[[Delivery], None]
    ) -> None:
        self.outstanding = 0
        self.gone = asyncio.Event()
        self._connection = connection
        self._consumer = consumer
        self._take = take
        self._context = contextvars.copy_context()

    async def open(self) -> None:
        self._consumer.pulls.append(self)

    async def close(self) -> None:
        self.leave()

    def leave(self) -> None:
        if self in self._consumer.pulls:
            self._consumer.pulls.remove(self)

    async def want(self, count: int) -> None:
        self.outstanding = max(self.outstanding, count)
        self._connection.broker.stir()

    def hand(self, consumer: Consumer, message: StoredMessage) -> None:
        """Deliver one message to the puller's process, whatever state that is in."""
        self.outstanding -= 1
        again = message.sequence in consumer.known
        consumer.known.add(message.sequence)
        reply = f"{consumer.plan.stream} {consumer.plan.name} {message.sequence}"
        headers = {
            name: value
            for name, value in message.headers.items()
            if not name.lower().startswith("nats-")
        }
        if self._connection.misses():
            return
        delivery = Delivery(message.subject, headers, message.payload, reply, again)
        asyncio.get_running_loop().call_soon(self._arrived, delivery, context=self._context)

    def _arrived(self, delivery: Delivery) -> None:
        # What comes behind the end of a subscription is nobody's, and comes again.
        if self in self._consumer.pulls:
            self._take(delivery)


def _reply_or_unknown(
    reply: "Stored | NotStored | BaseException",
) -> Stored | NotStored | None:
    if isinstance(reply, Unanswered):
        return None
    if isinstance(reply, BaseException):
        raise reply
    return reply
