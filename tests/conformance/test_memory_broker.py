"""The broker in memory against a real one: one script, played on both, must be answered alike.

A script returns what it saw; sequences count as well, since both begin with empty streams.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fencepost.broker.embedded import EmbeddedBroker
from fencepost.broker.jetstream import connect
from fencepost.broker.topology import ensure_streams
from fencepost.ports import Broker, ConsumerPlan, Delivery, Message, NotStored, Stored
from fencepost.settings import Broker as BrokerSettings
from fencepost.settings import Login
from fencepost.testing.memory import MemoryBroker, MemoryConnection
from fencepost_schemas.subject import ANSWERS, EVENTS, LEDGER, QUESTIONS
from kit.wait import until

Script = Callable[[Broker], Awaitable[list[Any]]]
ACK_WAIT_S = 0.8

SCRIPTS: list[Script] = []


def script(play: Script) -> Script:
    """Have this script played on both."""
    SCRIPTS.append(play)
    return play


@pytest.mark.parametrize("play", SCRIPTS, ids=lambda play: play.__name__)
async def test_both_answer_alike(play: Script, broker: EmbeddedBroker) -> None:
    """What the real broker answers, the one in memory answers."""
    settings = BrokerSettings(reply_s=2.0)
    real = await connect(settings, Login(servers=(broker.url,)), "test")
    memory = MemoryBroker()
    running = asyncio.create_task(memory.run())
    try:
        await ensure_streams(real, settings)
        expected = await play(real)
        assert expected, "a script that sees nothing proves nothing"
        assert expected == await play(MemoryConnection(memory))
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await real.close()


def told(reply: Stored | NotStored | None) -> Any:
    """Return what fencepost reads of a reply."""
    if isinstance(reply, NotStored):
        return {"conflict": reply.conflict, "in_flight": reply.in_flight, "taken": reply.taken}
    return reply


# --- storing ------------------------------------------------------------------------------------
@script
async def expectations(broker: Broker) -> list[Any]:
    """Absent, right, wrong, and none at all."""
    row, other = "fp.ledger.h.n.aaaa", "fp.ledger.h.n.bbbb"
    return [
        told(await broker.store(Message(row, b"1", expect=0))),
        told(await broker.store(Message(row, b"2", expect=0))),
        told(await broker.store(Message(row, b"2", expect=1))),
        told(await broker.store(Message(other, b"1", expect=2))),
        told(await broker.store(Message(other, b"1"))),
        told(await broker.store(Message(row, b"3", expect=2))),
    ]


@script
async def batches(broker: Broker) -> list[Any]:
    """Whole, or not at all, wherever in the batch the conflict is; with one sequence for all."""
    cursor = "fp.cursors.orders"

    def batch(first: bytes, expect: int) -> list[Message]:
        events = [Message(f"fp.epochs.orders.{number}", first) for number in range(3)]
        return [*events, Message(cursor, first, expect=expect)]

    answers = [
        told(await broker.store_batch(batch(b"a", 0))),
        told(await broker.store_batch(batch(b"b", 0))),
        told(await broker.store_batch(batch(b"c", 4))),
        told(await broker.store_batch([*reversed(batch(b"d", 4))])),
    ]
    held = [(one.sequence, one.payload) async for one in broker.scan(EVENTS, "fp.>")]
    return [*answers, held]


@script
async def bursts(broker: Broker) -> list[Any]:
    """Each message has a fate of its own."""
    rows = [f"fp.ledger.h.n.row{number}" for number in range(4)]
    await broker.store(Message(rows[1], b"0"))
    burst = [Message(row, b"1", expect=0) for row in rows]
    return [told(reply) for reply in await broker.store_burst(burst)]


@script
async def first_answer(broker: Broker) -> list[Any]:
    """The first message of a subject keeps it."""
    return [
        told(await broker.store(Message("fp.answers.one", b"yes"))),
        told(await broker.store(Message("fp.answers.one", b"no"))),
        told(await broker.store(Message("fp.answers.two", b"no"))),
        [one.payload async for one in broker.scan(ANSWERS, "fp.answers.*")],
    ]


# --- reading ------------------------------------------------------------------------------------
@script
async def reading(broker: Broker) -> list[Any]:
    """The newest of a filter, all from a sequence on, and the subjects that hold something."""
    for number in range(6):
        subject = f"fp.held.orders.seam-{number % 2}.row{number % 3}"
        await broker.store(Message(subject, str(number).encode(), {"x": str(number)}))
    await broker.store(Message("fp.questions.orders.seam-0", b"?"))
    seen: list[Any] = []
    for wanted in ("fp.held.*.*.row1", "fp.held.orders.seam-1.*", "fp.questions.*.*", "fp.>"):
        last = await broker.last(QUESTIONS, wanted)
        seen.append(last and (last.subject, last.sequence, last.payload, last.headers.get("x")))
        seen.append([(one.sequence, one.payload) async for one in broker.scan(QUESTIONS, wanted)])
        seen.append([one.sequence async for one in broker.scan(QUESTIONS, wanted, 4)])
        seen.append(await broker.subjects(QUESTIONS, wanted))
    seen.append(await broker.last(QUESTIONS, "fp.held.nobody.*.*"))
    seen.append(await broker.subjects(QUESTIONS, "fp.held.nobody.*.*"))
    return seen


@script
async def only_the_last(broker: Broker) -> list[Any]:
    """A stream that keeps the last of a subject drops the one before, and its sequence with it."""
    for text in (b"1", b"2", b"3"):
        await broker.store(Message("fp.ledger.h.n.row", text))
    await broker.store(Message("fp.ledger.identity", b"me"))
    return [(one.sequence, one.payload) async for one in broker.scan(LEDGER, "fp.ledger.>")]


# --- delivering ---------------------------------------------------------------------------------
class Intake:
    """A consumer of the events, and what came of it."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.came: list[Delivery] = []
        self.seen: list[Any] = []

    async def open(self, want: int = 50, pending_max: int = 100, behind: int = 0) -> "Intake":
        plan = ConsumerPlan(
            EVENTS, "fp-app", ("fp.events.>",), ACK_WAIT_S, pending_max, behind=behind
        )
        await self.broker.ensure_consumer(plan)
        self.puller = self.broker.puller(EVENTS, "fp-app", self.came.append)
        await self.puller.open()
        await self.puller.want(want)
        return self

    async def put(self, *texts: str) -> None:
        for text in texts:
            headers = {"ce-id": text, "Nats-TTL": "1h"}
            subject = f"fp.events.orders.0001-aaaaaaaa.genesis.{len(text):02d}"
            await self.broker.store(Message(subject, text.encode(), headers))

    async def next(self, count: int = 1, within_s: float = 4 * ACK_WAIT_S) -> list[Delivery]:
        """Return the next deliveries, and note them."""
        await until(lambda: len(self.came) >= count, f"{count} deliveries", within_s)
        taken, self.came[:count] = self.came[:count], []
        self.seen += [(one.payload, one.again, sorted(one.headers.items())) for one in taken]
        return taken

    async def nothing(self, for_s: float) -> None:
        """Note what comes meanwhile."""
        await asyncio.sleep(for_s)
        self.seen.append(("then", [one.payload for one in self.came]))


@script
async def acked(broker: Broker) -> list[Any]:
    """In order, the broker's own headers left out; what is acked does not come again."""
    here = await Intake(broker).open()
    await broker.store(Message("fp.cursors.orders", b"no event"))
    await here.put("a", "b", "c")
    for delivery in await here.next(3):
        await broker.settle(delivery, b"+ACK")
    await here.nothing(2 * ACK_WAIT_S)
    await here.puller.close()
    return here.seen


@script
async def behind_a_sequence(broker: Broker) -> list[Any]:
    """What is up to it is passed over; what comes while nobody pulls is not."""
    here = Intake(broker)
    await here.put("before")
    last = (await broker.stream_state(EVENTS)).last
    await (await here.open(behind=last)).puller.close()
    await here.put("a")
    await here.open(behind=last + 1)
    await here.put("b")
    for delivery in await here.next(2):
        await broker.settle(delivery, b"+ACK")
    await here.nothing(ACK_WAIT_S / 4)
    await here.puller.close()
    return here.seen


@script
async def how_far_it_is(broker: Broker) -> list[Any]:
    """What a stream holds behind a sequence, and how far a consumer of it is."""
    here = await Intake(broker).open(want=2)
    first = (await broker.stream_state(EVENTS)).last
    assert await broker.consumer_state(EVENTS, "nobody") is None
    assert await broker.first_behind(EVENTS, "fp.events.>", first) is None
    await here.put("a", "b", "c")
    await broker.store(Message("fp.cursors.orders", b"no event"))
    a, b = await here.next(2)
    await broker.settle(b, b"+ACK")
    said: list[Any] = []

    async def note() -> None:
        told = await broker.consumer_state(EVENTS, "fp-app")
        assert told is not None
        stood = await broker.first_behind(EVENTS, "fp.events.>", told.floor)
        assert stood is not None
        said.append((told.floor - first, told.idle, stood.sequence - first))

    await note()
    await broker.settle(a, b"+ACK")

    async def acked() -> bool:
        told = await broker.consumer_state(EVENTS, "fp-app")
        return told is not None and told.floor - first == 2

    await until(acked, "the floor to move")
    await note()
    said.append(await broker.count(EVENTS, "fp.events.orders.>"))
    said.append(await broker.count(EVENTS, "fp.events.crm.>"))
    await here.puller.close()
    return said


@script
async def not_acked(broker: Broker) -> list[Any]:
    """What is not settled comes again after the wait, and says so; a late ack still counts."""
    here = await Intake(broker).open()
    await here.put("a")
    (first,) = await here.next()
    await here.next()
    await broker.settle(first, b"+ACK")
    await here.nothing(2 * ACK_WAIT_S)
    await here.puller.close()
    return here.seen


@script
async def asked_for_again(broker: Broker) -> list[Any]:
    """A delayed nak holds the message back past the ack wait, and lets the next ones through."""
    here = await Intake(broker).open()
    await here.put("a")
    (first,) = await here.next()
    await broker.settle(first, b'-NAK {"delay": %d}' % int(2.5 * ACK_WAIT_S * 1e9))
    await here.put("b")
    (second,) = await here.next()
    await broker.settle(second, b"+ACK")
    await here.nothing(1.5 * ACK_WAIT_S)
    await here.next()
    (now,) = await _naked(here)
    await broker.settle(now, b"+TERM")
    await here.nothing(2 * ACK_WAIT_S)
    await here.puller.close()
    return here.seen


async def _naked(here: Intake) -> list[Delivery]:
    """Return the delivery that comes at once after a nak without a delay."""
    await here.put("c")
    (third,) = [one for one in await here.next() if one.payload == b"c"]
    await here.broker.settle(third, b"-NAK")
    return await here.next(1, ACK_WAIT_S / 2)


@script
async def in_progress(broker: Broker) -> list[Any]:
    """Who says that it is at it gets the whole wait again."""
    here = await Intake(broker).open()
    await here.put("a")
    (first,) = await here.next()
    for _ in range(3):
        await asyncio.sleep(ACK_WAIT_S * 0.6)
        await broker.settle(first, b"+WPI")
    here.seen.append(("meanwhile", len(here.came)))
    await here.next()
    await here.puller.close()
    return here.seen


@script
async def pending_bound(broker: Broker) -> list[Any]:
    """No more than so many are out unsettled; each ack lets another one go."""
    here = await Intake(broker).open(pending_max=2)
    await here.put("a", "b", "c")
    first, _ = await here.next(2)
    await here.nothing(ACK_WAIT_S * 0.3)
    await broker.settle(first, b"+ACK")
    await here.next(1, ACK_WAIT_S * 0.4)
    await here.puller.close()
    return here.seen
