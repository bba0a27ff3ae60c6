"""One event's life under each effect that a handler can declare, and what its receiver saw of it.

Every life has an app, a handler and a type of event of its own, so that many can go through the
same trouble on one broker without seeing each other.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from fencepost import Context, Fencepost
from fencepost.pool.crash_points import Crash, nothing_reached
from fencepost.pool.worker import Renewal
from fencepost_schemas.question import QuestionKind
from fencepost_schemas.row import Row, State
from kit.anywhere import worker
from kit.house import House
from kit.pool import dead, event, publish, questions, settle
from kit.wires import Wall, Wire

EFFECTS = ("once", "barrier", "keyed", "idempotent")
SINK_S = 600.0

Before = Callable[[Context], Awaitable[None]]
Reached = Callable[[str], None]


async def at_once(ctx: Context) -> None:
    """Go straight to the effect."""


class Receiver:
    """Where effects land. It knows a key that it has seen, if the effect's author says so."""

    def __init__(self, effect: str) -> None:
        self._knows_keys = effect == "keyed"
        self.keys: list[str] = []

    def take(self, key: str) -> None:
        self.keys.append(key)

    @property
    def effects(self) -> int:
        """How much has happened there: what it knew already made no difference."""
        return len(set(self.keys)) if self._knows_keys else len(self.keys)


class Life:
    """One event. What its handler does is up to the test: `before` the effect, `inside` of it at
    its beginning, and `behind` what the receiver got, where the effect is not over yet.
    """

    def __init__(self, home: House, effect: str, name: str = "") -> None:
        self.home = home
        self.effect = effect
        self.name = name or effect
        self.receiver = Receiver(effect)
        self.started: list[int] = []
        """The attempts of the handler, in the order in which they began."""
        self.ended: list[int] = []
        self.most_at_once = 0
        self.begun = asyncio.Event()
        self.checked = 0
        self.before: Before = at_once
        self.inside: Before = at_once
        self.behind: Before = at_once
        self.checker: Callable[[], bool | None] | None = None
        self.sink_s = SINK_S

    @property
    def payload(self) -> bytes:
        return f'{{"k":"{self.name}"}}'.encode()

    def app(self) -> Fencepost:
        """Return the app of this effect; where its checker shall say something, it has one."""
        app = Fencepost(f"shop-{self.name}")
        declared: dict[str, Any] = {"effect": self.effect}
        if self.effect == "barrier":
            declared = {"barrier": True}
        if self.effect == "keyed":
            declared["sink_retention_s"] = self.sink_s

        @app.on(f"task.{self.name}", name=self.name, **declared)
        async def handler(payload: bytes, ctx: Context) -> None:
            self.started.append(ctx.attempt)
            self.most_at_once = max(self.most_at_once, len(self.started) - len(self.ended))
            self.begun.set()
            try:
                await self.before(ctx)
                async with ctx.effect():
                    await self.inside(ctx)
                    self.receiver.take(ctx.idempotency_key)
                    await self.behind(ctx)
            finally:
                self.ended.append(ctx.attempt)

        if self.checker is not None:
            checker = self.checker

            @app.verify(self.name)
            async def check(payload: bytes, ctx: Context) -> bool | None:
                self.checked += 1
                return checker()

        return app

    # --- what happens to it
    async def comes(self, **fields: Any) -> None:
        """Publish its event: the first of a proven lineage, unless `fields` say otherwise."""
        plain = {"key": self.name, "type": f"task.{self.name}"}
        await publish(self.home, event(**{**plain, **fields}))

    def worker(
        self,
        *,
        reached: Reached = nothing_reached,
        wire: Wire | None = None,
        wall: Wall | None = None,
        renewal: Renewal | None = None,
    ) -> AbstractAsyncContextManager[asyncio.Task[None]]:
        return worker(
            self.home,
            self.app(),
            reached=reached,
            wire=wire,
            wall=wall,
            renewal=renewal,
        )

    async def is_cut_short(
        self,
        *,
        reached: Reached = nothing_reached,
        wire: Wire | None = None,
        wall: Wall | None = None,
    ) -> None:
        """Run a worker until it crashes. Nothing of it goes on afterwards."""
        async with self.worker(reached=reached, wire=wire, wall=wall) as running:
            await asyncio.wait([running], timeout=20)
            assert running.done(), "it did not crash"
            assert isinstance(running.exception(), Crash)

    async def goes_on(self, *, wire: Wire | None = None, wall: Wall | None = None) -> None:
        """Run a worker until nothing is left to be done."""
        async with self.worker(wire=wire, wall=wall) as running:
            await self.rests()
            if running.done():
                running.result()

    async def rests(self) -> None:
        await settle(self.home, f"shop-{self.name}")

    # --- what came of it
    async def rows(self) -> list[Row]:
        """Return its row, and behind it the records of what conflicted with it."""
        found = [row for row in await self.home.rows() if row.handler == self.name]
        return sorted(found, key=lambda row: row.state is State.CONFLICT)

    async def row(self) -> Row:
        return (await self.rows())[0]

    async def is_one(self) -> str:
        """Return `state runs/effects`, having checked what holds for every life."""
        row = await self.row()
        asked = [
            one
            for one in await questions(self.home, QuestionKind.DOUBT)
            if one.row.split(".")[2] == self.name
        ]
        assert len(asked) == (row.state is State.IN_DOUBT), "a doubt is asked about, and once"
        buried = [one.subject.rsplit(".", 1)[1] for one in await dead(self.home)]
        conflicts = len(await self.rows()) - 1
        # After a crash an event may be buried twice, which does no harm.
        assert (self.name in buried) == (row.state is State.REJECTED or conflicts > 0)
        assert len(set(self.receiver.keys)) <= 1, "every attempt hands on the same key"
        assert sorted(set(self.started)) == self.started, "an attempt has a number of its own"
        return f"{row.state} {len(self.started)}/{self.receiver.effects}"
