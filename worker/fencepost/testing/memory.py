"""A broker in memory, with JetStream's semantics as far as fencepost uses them.

Streams store by subject with compare-and-set, alone or in atomic batches; consumers deliver, wait
for an ack, and deliver again. `Vices` make it behave as a real one does on a bad day; without any
it is a plain broker for tests. What it promises is checked against a real nats-server by the same
suite (tests/conformance).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from random import Random
from typing import TypeVar

import msgspec

from fencepost.errors import NotFine, Unanswered
from fencepost.ports import ConsumerPlan, Delivery, Message, NotStored, Stored, StoredMessage
from fencepost_schemas.subject import StreamPlan, stream_plans

T = TypeVar("T")

CONFLICT, IN_FLIGHT, TAKEN = 10071, 10164, 10077
PAYLOAD_BYTES_MAX = 1024 * 1024


class Vices(msgspec.Struct):
    """What goes wrong at the broker; probabilities are per call, times in seconds."""

    latency_s: float = 0.0
    reply_lost: float = 0.0
    request_lost: float = 0.0
    ack_lost: float = 0.0
    reply_limit_s: float = 5.0


class _Stream:
    def __init__(self, plan: StreamPlan) -> None:
        self.plan = plan
        self.messages: dict[int, StoredMessage] = {}
        self.last: dict[str, int] = {}
        self.sequence = 0

    def refusal(self, message: Message) -> NotStored | None:
        """Return why this message may not be stored now."""
        stands = self.last.get(message.subject, 0)
        if message.expect is not None and message.expect != stands:
            return NotStored(CONFLICT, f"wrong last sequence: {stands}")
        if self.plan.first_per_subject and stands:
            return NotStored(TAKEN, "maximum messages per subject exceeded")
        return None

    def put(self, message: Message) -> int:
        self.sequence += 1
        before = self.last.get(message.subject)
        if self.plan.last_per_subject and before is not None:
            del self.messages[before]
        self.messages[self.sequence] = StoredMessage(
            message.subject, self.sequence, message.payload, dict(message.headers)
        )
        self.last[message.subject] = self.sequence
        return self.sequence

    def matching(self, subject: str, sequence: int) -> StoredMessage | None:
        """Return the first message from a sequence on that a filter takes."""
        for number in range(sequence, self.sequence + 1):
            message = self.messages.get(number)
            if message is not None and takes(subject, message.subject):
                return message
        return None


class _Consumer:
    """One durable consumer: what was delivered and not acked, and what is acked."""

    def __init__(self, stream: _Stream, plan: ConsumerPlan) -> None:
        self.stream = stream
        self.plan = plan
        self.next_sequence = 1
        self.due: dict[int, float] = {}
        """When each unacked message may be delivered again."""
        self.acked_at: dict[int, float] = {}
        self.pulls: list[MemoryPuller] = []

    @property
    def idle(self) -> bool:
        """True where nothing waits and nothing is unacked."""
        return not self.due and all(
            self.stream.matching(subject, self.next_sequence) is None
            for subject in self.plan.subjects
        )

    def take_due(self, now_s: float) -> StoredMessage | None:
        """Return the next message to deliver: one whose time is over, else a new one."""
        for sequence in sorted(self.due):
            if self.due[sequence] <= now_s:
                message = self.stream.messages.get(sequence)
                if message is None:
                    del self.due[sequence]
                    continue
                self.due[sequence] = now_s + self.plan.ack_wait_s
                return message
        found = [
            message
            for subject in self.plan.subjects
            if (message := self.stream.matching(subject, self.next_sequence)) is not None
        ]
        if not found or len(self.due) >= self.plan.pending_max:
            return None
        message = min(found, key=lambda one: one.sequence)
        self.next_sequence = message.sequence + 1
        self.due[message.sequence] = now_s + self.plan.ack_wait_s
        return message


class MemoryBroker:
    """The server: streams, consumers, and whether it answers."""

    def __init__(self, prefix: str = "fp", chance: Random | None = None) -> None:
        self.prefix = prefix
        self.vices = Vices()
        self.chance = chance if chance is not None else Random(0)
        self.up = asyncio.Event()
        self.up.set()
        self.streams = {plan.name: _Stream(plan) for plan in stream_plans(prefix)}
        self.consumers: dict[tuple[str, str], _Consumer] = {}
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
        self.stir()

    def stream_of(self, subject: str) -> _Stream:
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
    """One process's connection. `gate` holds it up, as a paused process is; `dead` ends it."""

    def __init__(self, broker: MemoryBroker) -> None:
        self.broker = broker
        self.gate = asyncio.Event()
        self.gate.set()
        self.dead = False
        self.payload_bytes_max = PAYLOAD_BYTES_MAX
        self.reply_s = broker.vices.reply_limit_s

    # --- storing
    async def store(self, message: Message) -> Stored | NotStored:
        return await self._call(lambda: self._store_now([message]))

    async def store_burst(self, messages: Sequence[Message]) -> list[Stored | NotStored | None]:
        results: list[Stored | NotStored | None] = []
        for message in messages:
            try:
                results.append(await self.store(message))
            except Unanswered:
                results.append(None)
        return results

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
        return await self._call(lambda: int(loop.time() * 1000))

    # --- delivering
    async def ensure_consumer(self, plan: ConsumerPlan) -> None:
        def ensure() -> None:
            known = self.broker.consumers.get((plan.stream, plan.name))
            if known is None:
                stream = self.broker.streams[plan.stream]
                self.broker.consumers[plan.stream, plan.name] = _Consumer(stream, plan)

        await self._call(ensure)

    def puller(
        self, stream: str, consumer: str, take: Callable[[Delivery], None]
    ) -> "MemoryPuller":
        return MemoryPuller(self, self.broker.consumers[stream, consumer], take)

    async def settle(self, delivery: Delivery, word: bytes) -> None:
        """Take the word on a delivery. As with the real one, an old delivery's word counts too."""
        await self._pass_gate()
        if self.broker.chance.random() < self.broker.vices.ack_lost:
            return
        stream, consumer, sequence = delivery.reply.split(" ")
        _settle(self.broker.consumers[stream, consumer], int(sequence), word)
        self.broker.stir()

    # --- inside
    async def _call(self, do: Callable[[], T], sent: Callable[[], None] = lambda: None) -> T:
        """Travel there, do it, and travel back; either way may be lost."""
        vices, chance = self.broker.vices, self.broker.chance
        await self._pass_gate()
        await asyncio.sleep(chance.random() * vices.latency_s)
        lost = chance.random() < vices.request_lost
        if lost or not self.broker.up.is_set():
            await asyncio.sleep(vices.reply_limit_s)
            raise Unanswered("the broker did not answer")
        result = do()
        self.broker.stir()
        sent()
        await asyncio.sleep(chance.random() * vices.latency_s)
        await self._pass_gate()
        if chance.random() < vices.reply_lost:
            await asyncio.sleep(vices.reply_limit_s)
            raise Unanswered("the broker did not answer")
        return result

    async def _pass_gate(self) -> None:
        if self.dead:
            # A dead process does nothing more, not even fail.
            await asyncio.get_running_loop().create_future()
        await self.gate.wait()

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
        found = [number for name, number in held.last.items() if takes(subject, name)]
        return held.messages[max(found)] if found else None


class MemoryPuller:
    """As the real one: asks for messages, counts what is outstanding."""

    def __init__(
        self, connection: MemoryConnection, consumer: _Consumer, take: Callable[[Delivery], None]
    ) -> None:
        self.outstanding = 0
        self.gone = asyncio.Event()
        self._connection = connection
        self._consumer = consumer
        self._take = take

    async def open(self) -> None:
        self._consumer.pulls.append(self)

    async def close(self) -> None:
        if self in self._consumer.pulls:
            self._consumer.pulls.remove(self)

    async def want(self, count: int) -> None:
        self.outstanding = max(self.outstanding, count)
        self._connection.broker.stir()

    def hand(self, consumer: _Consumer, message: StoredMessage) -> None:
        """Deliver one message, unless its process is dead: then it is lost on the way."""
        self.outstanding -= 1
        if self._connection.dead:
            return
        reply = f"{consumer.plan.stream} {consumer.plan.name} {message.sequence}"
        self._take(Delivery(message.subject, message.headers, message.payload, reply))


def _settle(consumer: _Consumer, sequence: int, word: bytes) -> None:
    now_s = asyncio.get_running_loop().time()
    if sequence not in consumer.due:
        return
    if word.startswith((b"+ACK", b"+TERM")):
        del consumer.due[sequence]
        consumer.acked_at[sequence] = now_s
    elif word.startswith(b"+WPI"):
        consumer.due[sequence] = now_s + consumer.plan.ack_wait_s
    elif word.startswith(b"-NAK"):
        told = msgspec.json.decode(word[5:]) if len(word) > 5 else {}
        consumer.due[sequence] = now_s + told.get("delay", 0) / 1e9


def takes(pattern: str, subject: str) -> bool:
    """Return True if a subject filter takes a subject."""
    wanted, parts = pattern.split("."), subject.split(".")
    for number, token in enumerate(wanted):
        if token == ">":
            return len(parts) > number
        if number >= len(parts) or token not in ("*", parts[number]):
            return False
    return len(wanted) == len(parts)
