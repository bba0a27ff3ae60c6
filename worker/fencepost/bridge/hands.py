"""What a bridge follows right now: one task a source, begun, let go, and begun again."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import msgspec

from fencepost.bridge.catalogue import Known
from fencepost.errors import Denied, Fenced, NotFine, Unreachable, UsageError
from fencepost.ports import World
from fencepost.settings import Bridge, Source
from fencepost_policies.retry import wait_bounds

log = logging.getLogger("fencepost.bridge")

Follow = Callable[[str, Source], Coroutine[Any, Any, None]]
"""Follow a source until something stops it, which is raised."""


class _Task(msgspec.Struct, frozen=True):
    known: Known
    task: asyncio.Task[None]
    began_s: float


class _Rest(msgspec.Struct, frozen=True):
    """How often a source was begun in vain, and when it may be begun again."""

    tries: int
    until_s: float


class Hands:
    def __init__(self, follow: Follow, settings: Bridge, world: World) -> None:
        self.stopped: dict[str, str] = {}
        """Why some sources cannot be followed until somebody acts; empty it once that is known."""
        self._follow = follow
        self._settings = settings
        self._world = world
        self._tasks: dict[str, _Task] = {}
        self._rests: dict[str, _Rest] = {}

    @property
    def running(self) -> frozenset[str]:
        """What is followed, or rests and is begun again: not what was let go."""
        return frozenset(self._tasks) | frozenset(self._rests)

    async def hold(self, wanted: Mapping[str, Known]) -> bool:
        """Follow these sources and no others; return True where one was let go."""
        lost = [name for name, one in self._tasks.items() if wanted.get(name) != one.known]
        await self._let_go(lost)
        for name in [name for name in self._rests if name not in wanted]:
            del self._rests[name]
        now_s = self._world.monotonic_s()
        for name, known in wanted.items():
            rest = self._rests.get(name)
            if name in self._tasks or (rest is not None and rest.until_s > now_s):
                continue
            task = asyncio.create_task(self._follow(name, known.source), name=f"follow {name}")
            self._tasks[name] = _Task(known, task, now_s)
        return any(name not in wanted for name in lost)

    async def wait(self, limit_s: float) -> None:
        """Return once one of them has ended, or the time is over; raise what concerns all."""
        tasks = [one.task for one in self._tasks.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(limit_s)
        for name, one in list(self._tasks.items()):
            if one.task.done():
                del self._tasks[name]
                self._read_end(name, one)

    async def let_go(self) -> None:
        """Follow nothing any more."""
        await self._let_go(list(self._tasks))

    async def _let_go(self, names: list[str]) -> None:
        tasks = [self._tasks.pop(name).task for name in names]
        for task in tasks:
            task.cancel()
        # Whatever it ends with now, it was told to.
        await asyncio.gather(*tasks, return_exceptions=True)

    def _read_end(self, name: str, ended: _Task) -> None:
        """Find out what the end of a task means; raise it where it concerns every source."""
        try:
            ended.task.result()
        except Denied:
            raise
        except (Fenced, Unreachable) as error:
            # Whether it is still ours is for the next look to say.
            log.warning("%s: begun again from its cursor if it is still ours: %s", name, error)
            self._rest(name, ended)
        except (NotFine, UsageError) as error:
            log.error("%s", error)
            self.stopped[name] = str(error)

    def _rest(self, name: str, ended: _Task) -> None:
        now_s = self._world.monotonic_s()
        before = self._rests.get(name)
        healthy = now_s - ended.began_s >= self._settings.healthy_s
        tries = 1 if before is None or healthy else before.tries + 1
        bounds = wait_bounds(
            tries, first_s=self._settings.retry_first_s, longest_s=self._settings.retry_longest_s
        )
        self._rests[name] = _Rest(tries, now_s + self._world.draw_s(bounds))
