"""A whole house for one test: settings, streams, bridges and workers as tasks, on a real broker.

The product's own classes run here; only the processes around them are missing.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from fencepost.app import Fencepost
from fencepost.bridge.run import follow_alone, run_bridge
from fencepost.broker.embedded import EmbeddedBroker
from fencepost.broker.jetstream import JetStream, connect
from fencepost.cli.init import InitReport, initialise
from fencepost.clock import RealWorld
from fencepost.desk.book import Book
from fencepost.ledgers.kv import KvLedger
from fencepost.pool.crash_points import nothing_reached
from fencepost.pool.worker import Renewal, run_worker
from fencepost.settings import Settings
from fencepost.settings_file import login_for, with_dialects
from fencepost.transport.http import HttpTransport
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.event import ClassifiedEvent, event_of
from fencepost_schemas.roster import Roster
from fencepost_schemas.row import Row, decode_row
from fencepost_schemas.subject import EVENTS, LEDGER, SOURCES, Subjects
from fencepost_schemas.verdict import EpochRecord

FAST: dict[str, Any] = {
    "bridge": {
        "retry_first_s": 0.02,
        "retry_longest_s": 0.2,
        "stall_s": 5.0,
        "connects_per_s": 1000.0,
        "lease_s": 1.5,
        "renew_s": 0.3,
    },
    "pool": {
        "slots": 16,
        "handler_timeout_s": 2.0,
        "lease_s": 3.0,
        "ack_wait_s": 4.0,
        "retry_first_s": 0.05,
        "retry_longest_s": 0.2,
        "drain_s": 3.0,
    },
}


class House:
    """Everything of one test. `connection` is one more connection, to look with."""

    def __init__(self, settings: Settings, connection: JetStream) -> None:
        self.settings = settings
        self.connection = connection
        self.subjects = Subjects(settings.broker.prefix)
        self.book = Book(connection, self.subjects)

    async def init(self, start: str = "now") -> InitReport:
        return await initialise(self.settings, list(self.settings.sources), start)

    @asynccontextmanager
    async def bridge(
        self, reached: Callable[[str], None] = nothing_reached, *, shares: bool = False
    ) -> AsyncIterator[asyncio.Task[None]]:
        """Run a bridge; the task is its life, and ends with what ended it.

        Unless it `shares` the sources with others, it takes them over at once.
        """
        connection = await connect(
            self.settings.broker, login_for(self.settings.broker, "bridge"), "bridge"
        )
        transport = HttpTransport(self.settings.bridge)
        run = run_bridge if shares else follow_alone
        running = asyncio.create_task(
            run(self.settings, self.settings.sources, connection, transport, RealWorld(), reached)
        )
        try:
            yield running
        finally:
            running.cancel()
            with contextlib.suppress(BaseException):
                await running
            await transport.close()
            await connection.close()

    @asynccontextmanager
    async def worker(
        self,
        app: Fencepost,
        reached: Callable[[str], None] = nothing_reached,
        renewal: Renewal | None = None,
    ) -> AsyncIterator[asyncio.Task[None]]:
        """Run a worker; it is drained at the end."""
        connection = await connect(
            self.settings.broker, login_for(self.settings.broker, "worker"), "worker"
        )
        stop = asyncio.Event()
        ledger = KvLedger(connection, self.subjects, self.settings.ledger.retention_s)
        running = asyncio.create_task(
            run_worker(self.settings, app, connection, ledger, RealWorld(), stop, reached, renewal)
        )
        try:
            yield running
        finally:
            stop.set()
            with contextlib.suppress(BaseException):
                await asyncio.wait_for(running, 10.0)
            await connection.close()

    # --- looking
    async def events(self, source: str = "orders") -> list[ClassifiedEvent]:
        """Return every published event of a source, in order."""
        scan = self.connection.scan(EVENTS, self.subjects.events_of(source))
        return [event_of(stored.headers, stored.payload) async for stored in scan]

    async def records(self, source: str = "orders") -> list[EpochRecord]:
        """Return the verdict record of each judged connection, without that of init."""
        scan = self.connection.scan(EVENTS, self.subjects.epochs_of(source))
        records = [msgspec.json.decode(one.payload, type=EpochRecord) async for one in scan]
        return [record for record in records if record.bridge != "init" and not record.early]

    async def verdicts(self, source: str = "orders") -> list[str]:
        return [record.verdict.kind.value for record in await self.records(source)]

    async def cursor(self, source: str = "orders") -> Cursor:
        stored = await self.connection.last(EVENTS, self.subjects.cursor(source))
        assert stored is not None
        return msgspec.json.decode(stored.payload, type=Cursor)

    async def roster(self) -> Roster:
        """Return what the bridges wrote down of each other, empty where none has yet."""
        stored = await self.connection.last(SOURCES, self.subjects.roster())
        return msgspec.json.decode(stored.payload, type=Roster) if stored is not None else Roster()

    async def rows(self) -> list[Row]:
        """Return every ledger row, oldest change first."""
        scan = self.connection.scan(LEDGER, self.subjects.rows())
        return [decode_row(stored.payload) async for stored in scan]


def make_settings(url: str, sources: dict[str, Any], **sections: Any) -> Settings:
    """Return settings with short durations; `sections` replace fields of FAST's sections."""
    document: dict[str, Any] = {"broker": {"servers": [url]}, "sources": sources}
    for section in ("broker", "bridge", "pool", "ledger"):
        document[section] = {
            **document.get(section, {}),
            **FAST.get(section, {}),
            **sections.get(section, {}),
        }
    document["dialects"] = sections.get("dialects", {})
    return with_dialects(msgspec.convert(document, Settings))


@asynccontextmanager
async def house(
    server: EmbeddedBroker, sources: dict[str, Any], **sections: Any
) -> AsyncIterator[House]:
    """Yield a house on this broker, with its streams made but its sources not begun."""
    settings = make_settings(server.url, sources, **sections)
    connection = await connect(settings.broker, login_for(settings.broker, "desk"), "desk")
    try:
        yield House(settings, connection)
    finally:
        await connection.close()
