"""What a user imports and decorates: an app is a name and a set of handlers.

    app = Fencepost("billing")

    @app.on("task.assigned", key="/task_id")
    async def charge(task: TaskAssigned, ctx: Context) -> None: ...

A handler stays an ordinary function: call it directly in a unit test.
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeVar

import msgspec

from fencepost.errors import UsageError
from fencepost.handler import (
    Handler,
    HandlerFunction,
    Registration,
    checked_slug,
    make_handler,
    make_reconciler,
    parameters_of,
)
from fencepost.registry import checked_policy
from fencepost_policies.dialects.dialect import Speech
from fencepost_schemas.event import ClassifiedEvent
from fencepost_schemas.limits import ATTEMPTS_MAX

F = TypeVar("F", bound=HandlerFunction)
CheckerFunction = Callable[..., Awaitable[bool | None]]
C = TypeVar("C", bound=CheckerFunction)
Lifespan = Callable[[], AbstractAsyncContextManager[None]]


class Checker(msgspec.Struct, frozen=True):
    """Who can say afterwards whether a handler's effect happened."""

    function: CheckerFunction
    context_parameter: str | None


class Fencepost:
    """An app. Its name names its consumers at the broker, so keep it when the code moves."""

    def __init__(self, name: str, *, lifespan: Lifespan | None = None) -> None:
        self.name = checked_slug(name, "the app's name")
        self.handlers: dict[str, Handler] = {}
        self.checkers: dict[str, Checker] = {}
        self.policies: dict[str, Speech] = {}
        self.reconcilers: dict[str, Handler] = {}
        """Those of `handlers` that are called with gaps, by the source that these are in."""
        self._by_type: dict[str, list[Handler]] = {}
        self._lifespan = lifespan

    def on(
        self,
        type: str,
        *,
        name: str | None = None,
        key: str = "",
        effect: str = "once",
        source: str | None = None,
        attempts: int = ATTEMPTS_MAX,
        barrier: bool = False,
        sink_retention_s: float = 0.0,
    ) -> Callable[[F], F]:
        """Register a handler for events of one type.

        `name` (default: the function's) is part of every ledger row: keep it when the function is
        renamed, and use it once on a broker, whichever app it is in. `key` is a JSON pointer that
        overrides the source's.

        `effect` is "once" (the default: never run again after a start that is in doubt), "keyed"
        (the receiver knows `ctx.idempotency_key` for `sink_retention_s`) or "idempotent". With
        `barrier=True` a "once" may be tried again up to where it enters `ctx.effect()`. After
        `attempts` an event goes to the dead.

        A function that is not `async def` runs in a thread of its own. Raises UsageError, now and
        not at the first event, for anything that could not work.
        """
        said = Registration(
            type=type,
            name=name,
            key=key,
            effect=effect,
            source=source,
            attempts=attempts,
            barrier=barrier,
            sink_retention_s=sink_retention_s,
        )

        def register(function: F) -> F:
            handler = make_handler(function, said)
            self._add(handler)
            self._by_type.setdefault(type, []).append(handler)
            return function

        return register

    def verify(self, handler: str) -> Callable[[C], C]:
        """Register who can say whether a handler's effect happened: True, False, or None for

        neither. It takes what the handler takes, and is asked before a person is: never while the
        attempt in question may still be at work. What it says is believed, and recorded.
        """

        def register(function: C) -> C:
            name = handler.replace("_", "-")
            if name not in self.handlers:
                raise UsageError(f"verify: there is no handler {name!r}; register it first")
            if name in self.checkers:
                raise UsageError(f"verify: {name!r} has a checker already")
            if not _is_async(function):
                raise UsageError(f"verify: make the checker of {name!r} `async def`")
            _, context_parameter = parameters_of(function, f"the checker of {name}")
            self.checkers[name] = Checker(function, context_parameter)
            return function

        return register

    def policy(self, dialect: Speech, *, name: str) -> None:
        """Bring a dialect of your own: a source speaks it with `dialect = "NAME"`.

        Bridges import the app for it. Raises UsageError for a name that is taken, or what is no
        dialect.
        """
        if name in self.policies:
            raise UsageError(f"policy: there are two dialects named {name!r} in {self.name!r}")
        self.policies[name] = checked_policy(name, dialect, "policy")

    def reconcile(
        self, source: str, *, name: str | None = None, attempts: int = ATTEMPTS_MAX
    ) -> Callable[[F], F]:
        """Register who knows how to fetch what a source's gap may hide.

            @app.reconcile("crm")
            async def refill(gap: Gap, ctx: Context) -> None:
                for task in await crm.tasks():
                    await ctx.emit(type="task.assigned", key=task.id, data=task)

        It is called for each gap that is recorded from now on, by one worker, again where it fails,
        and may fetch more than was missed: what it emits is applied once by key, beside what the
        source brings under that key, in whatever words. After `attempts` a person is asked. `name`
        is part of its ledger rows: keep it, and use it once on a broker, as a handler's. Raises
        UsageError for what could not work.
        """

        def register(function: F) -> F:
            reconciler = make_reconciler(function, source, name, attempts)
            if source in self.reconcilers:
                raise UsageError(f"reconcile: source {source!r} has a reconciler already")
            self._add(reconciler)
            self.reconcilers[source] = reconciler
            return function

        return register

    def _add(self, handler: Handler) -> None:
        if handler.name in self.handlers:
            raise UsageError(f"there are two handlers named {handler.name!r} in {self.name!r}")
        self.handlers[handler.name] = handler

    def handlers_for(self, event: ClassifiedEvent) -> list[Handler]:
        """Return the handlers of this event, in the order in which they were registered."""
        return [
            handler
            for handler in self._by_type.get(event.type, ())
            if handler.source is None or handler.source == event.told_of
        ]

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Hold what the app opens for as long as its worker runs."""
        if self._lifespan is None:
            yield
        else:
            async with self._lifespan():
                yield


def _is_async(function: object) -> bool:
    return inspect.iscoroutinefunction(function)
