"""Events that go to the stream without a bridge, apps that note what they run, and crashes."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from fencepost import Context, Fencepost
from fencepost.broker.backlog import nothing_left
from fencepost.errors import NotFine
from fencepost.pool.crash_points import Crash, nothing_reached
from fencepost.pool.worker import Renewal
from fencepost.ports import Message, Stored, StoredMessage
from fencepost_schemas.event import ClassifiedEvent, KeyScope, fingerprint_of, headers_of
from fencepost_schemas.question import Held, Question, QuestionKind, seam_question_id
from fencepost_schemas.row import Row, State, decode_row, encode_row
from fencepost_schemas.standing import Standing
from fencepost_schemas.subject import ANSWERS, DEAD, EVENTS, LEDGER, QUESTIONS, RETRIES, lane_of
from fencepost_schemas.verdict import EpochRecord, Gap, Verdict
from kit.house import House
from kit.wait import until

FIRST, SECOND, THIRD = "0001-aaaaaaaa", "0002-bbbbbbbb", "0003-cccccccc"
"""Generations: the one that init begins, and those behind its seams."""

SOURCE = {"orders": {"url": "http://127.0.0.1:9/", "keys": "durable", "key": "/k"}}
"""A source that nobody follows; its events are published by the test."""

SHORT: dict[str, Any] = {"handler_timeout_s": 0.4, "lease_s": 1.0, "ack_wait_s": 1.2}
"""Durations for tests in which a lease has to run out."""


def event(
    key: str | None = "a",
    position: str = "1",
    *,
    type: str = "task",
    payload: bytes | None = None,
    generation: str = FIRST,
    standing: Standing = Standing.GENESIS,
    scope: KeyScope = KeyScope.DURABLE,
    **fields: Any,
) -> ClassifiedEvent:
    """Return an event as a bridge would have published it."""
    data = payload if payload is not None else f'{{"k":"{key}"}}'.encode()
    return ClassifiedEvent(
        source="orders",
        generation=generation,
        standing=standing,
        verdict=standing,
        type=type,
        position=position,
        fingerprint=fingerprint_of(data),
        time="2026-01-01T00:00:00Z",
        payload=data,
        key=key if scope is not KeyScope.NONE else None,
        key_scope=scope,
        namespace="orders",
        size=len(data),
        **fields,
    )


def doubtful(
    key: str | None = "a", position: str = "1", *, generation: str = SECOND, **fields: Any
) -> ClassifiedEvent:
    """Return an event of a generation that nothing vouches for."""
    standing = Standing.UNVERIFIABLE
    return event(key, position, generation=generation, standing=standing, **fields)


async def publish(home: House, *events: ClassifiedEvent) -> None:
    """Store the events, in order."""
    for one in events:
        lane = lane_of(one.key if one.key is not None else one.position)
        subject = home.subjects.event(one.source, one.generation, one.standing, lane)
        payload = b"" if one.withheld else one.payload
        stored = await home.connection.store(Message(subject, payload, headers_of(one)))
        assert isinstance(stored, Stored)


async def publish_seam(home: House, generation: str = SECOND, parent: str = FIRST) -> None:
    """Store the verdict record that opens a generation behind its parent."""
    record = EpochRecord(
        source="orders",
        generation=generation,
        parent=parent,
        verdict=Verdict(Standing.UNVERIFIABLE, ()),
        standing=Standing.UNVERIFIABLE,
        gap=Gap(parent, "1", generation, "1"),
        ledger="",
        bridge="test",
        at_ms=0,
    )
    subject = home.subjects.epoch(record.source, record.generation)
    await home.connection.store(Message(subject, msgspec.json.encode(record)))


# --- apps ---------------------------------------------------------------------------------------
class Runs:
    """What a handler ran, as (payload, attempt), and what it brought to an end."""

    def __init__(self) -> None:
        self.started: list[tuple[str, int]] = []
        self.done: list[str] = []

    @property
    def keys(self) -> list[str]:
        return [payload for payload, _ in self.started]

    @property
    def most(self) -> int:
        """How often the payload that ran most often has run."""
        return max(Counter(self.keys).values(), default=0)


Behave = Callable[[bytes, Context], Awaitable[object]]


async def nothing(payload: bytes, ctx: Context) -> None:
    """Do the work at once."""


def app_with(
    runs: Runs,
    behave: Behave = nothing,
    *,
    effect: str = "once",
    name: str = "charge",
    app: str = "shop",
    key: str = "",
) -> Fencepost:
    """Return an app whose one handler takes events of type `task`, notes them, and behaves."""
    made = Fencepost(app)

    @made.on("task", name=name, effect=effect, key=key)
    async def handler(payload: bytes, ctx: Context) -> object:
        runs.started.append((payload.decode(), ctx.attempt))
        result = await behave(payload, ctx)
        runs.done.append(payload.decode())
        return result

    return made


@asynccontextmanager
async def working(
    home: House,
    *apps: Fencepost,
    reached: Callable[[str], None] = nothing_reached,
    renewal: Renewal | None = None,
) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Run a worker for each app given (twice for two), and fail if one of them gives up."""
    if not apps:
        yield []
        return
    async with (
        home.worker(apps[0], reached, renewal) as running,
        working(home, *apps[1:], reached=reached, renewal=renewal) as others,
    ):
        yield [running, *others]
        if running.done() and not running.cancelled():
            running.result()


# --- crashes ------------------------------------------------------------------------------------
class CrashAt:
    """Crash when a named point is reached for the nth time."""

    def __init__(self, point: str, nth: int = 1) -> None:
        self.point = point
        self.left = nth

    def __call__(self, point: str) -> None:
        if point == self.point:
            self.left -= 1
            if self.left == 0:
                raise Crash(point)


async def crash(home: House, app: Fencepost, reached: Callable[[str], None]) -> None:
    """Run a worker until it crashes. Nothing of it goes on afterwards."""
    async with home.worker(app, reached) as running:
        await asyncio.wait([running], timeout=20)
        assert running.done(), "the crash point was never reached"
        assert isinstance(running.exception(), Crash)


async def say(
    home: House, question: str, ruling: str, note: str = "", *, actor: str = "ada"
) -> None:
    """Answer a question; "it did not happen" once that can be known."""

    async def taken() -> bool:
        try:
            await home.book.answer(question, ruling, actor, note)
        except NotFine as refused:
            if "may still act" not in str(refused):
                raise
            return False
        return True

    await until(taken, f"{question} to take {ruling}")


# --- looking ------------------------------------------------------------------------------------
async def settle(home: House, app: str = "shop", *, answers: bool = True) -> None:
    """Return once the app's consumers have nothing left: all is acked."""
    # What is worked on may be parked from each of these to the next, and retries may emit events.
    ways = [(EVENTS, f"fp-{app}"), (RETRIES, f"fp-{app}-retries"), (EVENTS, f"fp-{app}")]
    await all_acked(home, [*([(ANSWERS, f"fp-{app}-answers")] if answers else []), *ways])


async def all_acked(home: House, consumers: Sequence[tuple[str, str]]) -> None:
    """Return once these consumers, each with its stream, are there and have nothing left."""

    async def empty() -> bool:
        for stream, name in consumers:
            if not await nothing_left(home.connection, stream, name):
                return False
        return True

    await until(empty, "everything to be acked")


async def rows(home: House) -> dict[str, Row]:
    """Return the rows by their key."""
    return {row.key: row for row in await home.rows()}


async def states(home: House) -> dict[str, State]:
    return {row.key: row.state for row in await home.rows()}


async def dead(home: House) -> list[StoredMessage]:
    return [one async for one in home.connection.scan(DEAD, f"{home.subjects.prefix}.dead.*")]


async def held(home: House) -> list[Held]:
    """Return the events that are still held, bytes and all."""
    under = home.connection.scan(QUESTIONS, f"{home.subjects.prefix}.held.>")
    found = [msgspec.json.decode(one.payload, type=Held) async for one in under]
    return [one for one in found if one.handler]


async def questions(home: House, kind: QuestionKind | None = None) -> list[Question]:
    """Return the open questions of a kind, oldest first."""
    found = [entry.question for entry in await home.book.entries()]
    return [one for one in found if kind is None or one.kind is kind]


async def see_questions(home: House, count: int, kind: QuestionKind) -> list[Question]:
    """Return the open questions of a kind once there are so many."""

    async def there() -> bool:
        return len(await questions(home, kind)) >= count

    await until(there, f"{count} questions of kind {kind}")
    return await questions(home, kind)


async def rule(home: House, ruling: str, generation: str = SECOND, actor: str = "ada") -> None:
    """Answer the question of a generation's seam."""
    await home.book.answer(seam_question_id("orders", generation), ruling, actor)


async def steal(home: House, key: str, *, lease_ms: int = 500) -> Row:
    """Take a row over as another worker would whose clock is ahead; its lease is short."""
    while True:
        async for stored in home.connection.scan(LEDGER, home.subjects.rows()):
            row = decode_row(stored.payload)
            if row.key != key:
                continue
            now_ms = await home.connection.clock_ms(LEDGER)
            taken = msgspec.structs.replace(
                row,
                attempt=row.attempt + 1,
                claim="another",
                owner="worker-another",
                lease_until_ms=now_ms + lease_ms,
                quarantine_until_ms=now_ms + lease_ms,
            )
            message = Message(stored.subject, encode_row(taken), {}, stored.sequence)
            if isinstance(await home.connection.store(message), Stored):
                return taken
