"""One bridge process: follows each of its sources until it is stopped or none is left."""

import asyncio
import logging
from collections.abc import Callable, Mapping

from fencepost.bridge.doors import door_for
from fencepost.bridge.follow import Follower
from fencepost.bridge.shelf import Shelf, nothing_reached
from fencepost.errors import FencepostError, NotFine, UsageError
from fencepost.ports import Broker, Transport, World
from fencepost.settings import Settings, Source
from fencepost_schemas.subject import Subjects

log = logging.getLogger("fencepost.bridge")

NO_SOURCE = "there is no source to follow: add a [sources.NAME] to the configuration"
IDLE_TOUCHES = 20
"""A quiet source's cursor is rewritten this many times within the stream's age."""


async def run_bridge(
    settings: Settings,
    sources: Mapping[str, Source],
    connection: Broker,
    transport: Transport,
    world: World,
    reached: Callable[[str], None] = nothing_reached,
) -> None:
    """Follow the sources until cancelled.

    A source that cannot go on stops alone, with its reason in the log. Raises the first such
    reason once no source is left, and at once whatever stands in the way of all of them.
    """
    if not sources:
        raise UsageError(NO_SOURCE)
    shelf = Shelf(connection, Subjects(settings.broker.prefix), reached)
    owner = f"bridge-{world.random_name(8)}"
    followers = [
        Follower(
            name,
            source,
            door_for(name, source, transport, world),
            shelf,
            settings.bridge,
            world,
            owner=owner,
            idle_touch_s=settings.broker.events_age_s / IDLE_TOUCHES,
            reached=reached,
        )
        for name, source in sources.items()
    ]
    endings = await asyncio.gather(*(_follow_to_the_end(follower) for follower in followers))
    if len(endings) > 1:
        raise NotFine(f"none of {len(endings)} sources is followed any more; one: {endings[0]}")
    raise endings[0]


async def _follow_to_the_end(follower: Follower) -> FencepostError:
    """Return why the source is not followed any more; raise only what concerns all sources."""
    try:
        await follower.run()
    except NotFine as reason:
        log.error("%s", reason)
        return reason
    raise AssertionError("a follower goes on until something stops it")
