"""One bridge process. Any number of them share the sources: each one is followed by one of them.

A bridge looks around every so often: what is wished of the sources, which of them are its own by
the roster, what became of those that it follows. It takes a cursor over only behind a look that
found the source to be its own.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from fencepost.bridge.catalogue import Catalogue
from fencepost.bridge.doors import door_for
from fencepost.bridge.follow import Follower
from fencepost.bridge.hands import Follow, Hands
from fencepost.bridge.ownership import Ownership
from fencepost.bridge.shelf import Shelf, nothing_reached
from fencepost.errors import Denied, FencepostError, NotFine, Unreachable, UsageError
from fencepost.patience import Patience
from fencepost.ports import Broker, Transport, World
from fencepost.settings import Settings, Source
from fencepost.soundness import check_broker
from fencepost_schemas.roster import Stop
from fencepost_schemas.subject import Subjects

log = logging.getLogger("fencepost.bridge")

NO_SOURCE = (
    "there is no source to follow: add a [sources.NAME] to the configuration, or one for all "
    "bridges with `fencepost sources add`"
)
IDLE_TOUCHES = 20
"""A quiet source's cursor is rewritten this many times within the stream's age."""
LOOKS = 3
"""A bridge looks around this many times for each renewal of its lease."""


async def run_bridge(
    settings: Settings,
    sources: Mapping[str, Source],
    connection: Broker,
    transport: Transport,
    world: World,
    reached: Callable[[str], None] = nothing_reached,
    *,
    only_these: bool = False,
) -> None:
    """Follow this bridge's part of the sources until cancelled; then hand it over at once.

    The sources are those given and, unless `only_these`, those that the broker tells of. One that
    cannot go on stops alone, with its reason in the log and in the roster. Raises NotFine once all
    are stopped, and at once whatever stands in the way of all of them.
    """
    subjects = Subjects(settings.broker.prefix)
    owner = f"bridge-{world.random_name(8)}"
    follow = _following(settings, owner, connection, transport, world, reached)
    hands = Hands(follow, settings.bridge, world)
    ownership = Ownership(connection, subjects, owner, settings.bridge, world)
    catalogue = Catalogue(connection, subjects, settings, sources, only_these=only_these)
    # Who stops a bridge cancels it, so nothing else has to be waited for beside the broker.
    patience = Patience(world, settings.broker.start_wait_s, asyncio.Event())
    await patience.wait_out(partial(check_broker, connection))
    await patience.wait_out(catalogue.refresh)
    if catalogue.empty:
        raise UsageError(NO_SOURCE)
    try:
        await patience.wait_out(partial(_look_around, catalogue, ownership, hands))
        while True:
            await hands.wait(settings.bridge.renew_s / LOOKS)
            try:
                await catalogue.refresh()
                await _look_around(catalogue, ownership, hands)
            except Denied:
                raise
            except Unreachable as error:
                # Sources that run go on: their writes wait for the broker, too.
                log.warning("the other bridges cannot be seen: %s; trying again", error)
    finally:
        await hands.let_go()
        await ownership.leave()


async def _look_around(catalogue: Catalogue, ownership: Ownership, hands: Hands) -> None:
    """Follow what is ours now; raise NotFine where nothing is left that anybody could follow."""
    let_go = True
    while let_go:
        stopped, hands.stopped = hands.stopped, {}
        known = {name: one.revision for name, one in catalogue.followable.items()}
        try:
            ours = await ownership.look(known, hands.running, stopped)
        except BaseException:  # it is still to be told, whatever kept us from it
            hands.stopped = {**stopped, **hands.stopped}
            raise
        let_go = await hands.hold({name: catalogue.followable[name] for name in sorted(ours)})
    stops = [ownership.roster.stops[name] for name in known if name in ownership.roster.stops]
    if stops and len(stops) == len(known) and not catalogue.paused:
        raise _nothing_left(stops)


def _nothing_left(stops: list[Stop]) -> NotFine:
    if len(stops) == 1:
        return NotFine(stops[0].reason)
    return NotFine(f"none of {len(stops)} sources is followed any more; one: {stops[0].reason}")


async def follow_alone(
    settings: Settings,
    sources: Mapping[str, Source],
    connection: Broker,
    transport: Transport,
    world: World,
    reached: Callable[[str], None] = nothing_reached,
) -> None:
    """Take these sources over, whoever follows them, and follow them until cancelled.

    Without a roster two such bridges do meet, and the cursor's compare-and-set alone keeps them
    apart: the older one ends with Fenced. So the simulator runs them. A source that cannot go on
    stops alone; raises the first reason once none is left.
    """
    owner = f"bridge-{world.random_name(8)}"
    follow = _following(settings, owner, connection, transport, world, reached)
    endings = await asyncio.gather(
        *(_to_its_end(follow(name, source)) for name, source in sources.items())
    )
    if len(endings) > 1:
        raise NotFine(f"none of {len(endings)} sources is followed any more; one: {endings[0]}")
    raise endings[0]


async def _to_its_end(following: Coroutine[Any, Any, None]) -> FencepostError:
    """Return why a source is not followed any more; raise only what concerns all sources."""
    try:
        await following
    except NotFine as reason:
        log.error("%s", reason)
        return reason
    raise AssertionError("a follower goes on until something stops it")


def _following(
    settings: Settings,
    owner: str,
    connection: Broker,
    transport: Transport,
    world: World,
    reached: Callable[[str], None],
) -> Follow:
    """Return what follows one source in the name of this bridge."""
    shelf = Shelf(connection, Subjects(settings.broker.prefix), reached)

    async def follow(name: str, source: Source) -> None:
        follower = Follower(
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
        await follower.run()

    return follow
