"""Publish what handlers and reconcilers emit, as the app's own source.

It is published at once, while the handler runs. A worker that dies behind it, or an attempt that
fails, emits it again; its key tells then that it is the same.
"""

import asyncio
import logging
from collections.abc import Callable

from fencepost.clock import iso_time
from fencepost.errors import Denied, Unreachable, UsageError
from fencepost.pool.work import Work
from fencepost.ports import Broker, Message, Stored, World
from fencepost.settings import Source
from fencepost.telemetry import trace_headers
from fencepost_policies.emission import emitted_event
from fencepost_schemas.emission import Emission, Origin
from fencepost_schemas.event import KeyScope, bytes_carried, headers_of
from fencepost_schemas.subject import EVENTS, Subjects, app_source, lane_of

log = logging.getLogger("fencepost.pool")

AGAIN_S = 0.5
"""Before another try where the broker is away, or does not take. The attempt's time bounds it."""


class Emissions:
    """The way out of one app. `of` is what one attempt emits through."""

    def __init__(
        self,
        app: str,
        connection: Broker,
        subjects: Subjects,
        sources: dict[str, Source],
        world: World,
        reached: Callable[[str], None],
    ) -> None:
        self._app = app
        self._connection = connection
        self._subjects = subjects
        self._sources = sources
        self._world = world
        self._reached = reached

    def of(self, work: Work) -> "WorkEmitter":
        return WorkEmitter(self, work)

    async def origin(self, work: Work) -> Origin:
        """Return where this work emits from."""
        if not work.handler.reconciles:
            return Origin(self._app, work.row_subject, app_source(self._app))
        source, gap = work.event.source, work.event.key or ""
        namespace = await self._namespace_of(source)
        return Origin(self._app, work.row_subject, namespace, source, gap)

    async def publish(self, emission: Emission, origin: Origin) -> None:
        """Publish, however long the broker takes.

        Raises UsageError for what it could not carry, Denied for what this login may not publish.
        """
        event = emitted_event(emission, origin, iso_time(self._world.wall_ms()))
        headers = {**headers_of(event), **trace_headers()}
        size, most = bytes_carried(headers, event.payload), self._connection.payload_bytes_max
        if size > most:
            raise UsageError(
                f"emit: {emission.type} is {size} bytes with what goes along, and the broker takes "
                f"{most}: emit where it can be fetched instead, or raise max_payload on the broker"
            )
        lane = lane_of(emission.key)
        subject = self._subjects.event(event.source, event.generation, event.standing, lane)
        self._reached("emitting")
        await self._store(Message(subject, event.payload, headers))
        self._reached("emitted")

    async def _store(self, message: Message) -> None:
        while True:
            try:
                reply = await self._connection.store(message)
            except Denied:
                raise
            except Unreachable as error:
                log.warning("emit: %s; trying again", error)
            else:
                if isinstance(reply, Stored):
                    return
                log.error("emit: the broker does not take it: %s (%d)", reply.text, reply.error)
            await asyncio.sleep(AGAIN_S)

    async def _namespace_of(self, source: str) -> str:
        """Return where the keys of a source are unique; raise UsageError where they do not last.

        That is what its bridge puts on its events, for there the rows have to meet; what is
        configured here counts for a source that has brought none.
        """
        last = await self._connection.last(EVENTS, self._subjects.events_of(source))
        if last is not None:
            if last.headers.get("ce-keyscope") == KeyScope.GENERATION:
                raise UsageError(
                    f"emit: the keys of {source} mean nothing beyond their generation, so what is "
                    'fetched could not be told from what came: it takes keys = "durable"'
                )
            return last.headers.get("ce-namespace") or source
        configured = self._sources.get(source)
        return (configured.namespace if configured is not None else None) or source


class WorkEmitter:
    """What one attempt emits through."""

    def __init__(self, emissions: Emissions, work: Work) -> None:
        self._emissions = emissions
        self._work = work
        self._origin: Origin | None = None

    async def emit(self, emission: Emission) -> None:
        if self._origin is None:
            self._origin = await self._emissions.origin(self._work)
        await self._emissions.publish(emission, self._origin)
