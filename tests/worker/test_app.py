"""What a user decorates: every registration that could not work fails at once, by name."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from fencepost import Context, Fencepost, Retry
from fencepost.errors import UsageError
from fencepost.handler import Undecodable
from fencepost_schemas.event import ClassifiedEvent
from fencepost_schemas.row import Effect
from fencepost_schemas.standing import Standing


class Task(msgspec.Struct):
    k: str


def event(type: str, source: str = "orders") -> ClassifiedEvent:
    standing = Standing.RESUMED
    return ClassifiedEvent(source, "0001-abcdefgh", standing, standing, type, "1", "", "", b"")


def test_a_handler_is_registered_and_stays_a_function() -> None:
    """Its name is made a slug, its effect defaults to the worst, and it can still be called."""
    app = Fencepost("shop")

    @app.on("task", key="/k")
    async def charge_card(task: Task, ctx: Context) -> str:
        return task.k

    handler = app.handlers["charge-card"]
    assert (Effect.ONCE, "/k", "ctx") == (handler.effect, handler.key, handler.context_parameter)
    assert Task("a") == handler.decode(b'{"k":"a"}')
    assert charge_card is handler.function


def test_handlers_are_found_by_type_and_source() -> None:
    """In the order of their registration; one that names a source hears that one only."""
    app = Fencepost("shop")

    @app.on("task")
    async def first(task: Any) -> None: ...

    @app.on("task", source="orders")
    async def second(task: bytes) -> None: ...

    assert ["first", "second"] == [one.name for one in app.handlers_for(event("task"))]
    assert ["first"] == [one.name for one in app.handlers_for(event("task", "other"))]
    assert [] == app.handlers_for(event("other"))


async def no_payload() -> None: ...
async def two_payloads(one: Task, two: Task) -> None: ...
async def context_first(ctx: Context, task: Task) -> None: ...
async def two_contexts(task: Task, ctx: Context, more: Context) -> None: ...
async def only_by_name(*, task: Task) -> None: ...
async def context_by_place(task: Task, ctx: Context, /) -> None: ...
async def variable(*tasks: Task) -> None: ...
async def unresolved(task: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821
async def ambiguous(task: Task | dict[str, int]) -> None: ...
async def buried(task: dict[str, list[Fencepost]]) -> None: ...
async def undecodable(task: Callable[[], None]) -> None: ...
async def Loud(task: Task) -> None: ...
def yielding(task: Task) -> Iterator[None]:
    yield


async def yielding_async(task: Task) -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize(
    ("function", "options", "expected"),
    [
        (yielding, {}, "a generator; return instead of yielding"),
        (yielding_async, {}, "a generator; return instead of yielding"),
        (no_payload, {}, "take the payload first"),
        (two_payloads, {}, "take the payload first"),
        (context_first, {}, "take the payload first"),
        (two_contexts, {}, "take the payload first"),
        (only_by_name, {}, "take the payload first"),
        (context_by_place, {}, "take the payload first"),
        (variable, {}, "take the payload first"),
        (unresolved, {}, "a type hint cannot be resolved: .*Nowhere"),
        (undecodable, {}, "its payload type cannot be decoded"),
        (ambiguous, {}, "its payload type cannot be decoded"),
        (buried, {}, "its payload type cannot be decoded: .*Fencepost"),
        (Loud, {}, "a handler's name: 'Loud'"),
    ],
)
def test_a_function_that_could_not_work(
    function: Callable[..., object], options: dict[str, Any], expected: str
) -> None:
    """It fails at the decorator, with the handler's name and what to change."""
    with pytest.raises(UsageError, match=expected):
        Fencepost("shop").on("task", **options)(function)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"effect": "twice"}, "handler charge: effect 'twice' is not one of"),
        ({"key": "k"}, "handler charge: 'k' is not a JSON pointer"),
        ({"name": "a b"}, "a handler's name: 'a b' is not a name"),
        ({"source": "A"}, "a source's name: 'A' is not a name"),
        ({"attempts": 0}, "handler charge: attempts must be 1 to"),
        ({"effect": "keyed"}, "handler charge: effect='keyed' goes with sink_retention_s="),
        ({"sink_retention_s": 9.0}, "handler charge: effect='keyed' goes with sink_retention_s="),
        ({"barrier": True}, "handler charge: barrier=True needs a `ctx: Context`"),
        ({"barrier": True, "effect": "idempotent"}, "only an effect of 'once' has a barrier"),
    ],
)
def test_an_option_that_could_not_work(options: dict[str, Any], expected: str) -> None:
    """So do options."""

    async def charge(task: Task) -> None: ...

    with pytest.raises(UsageError, match=expected):
        Fencepost("shop").on("task", **options)(charge)


class Tree(msgspec.Struct):
    leaves: list["Tree"]


def test_a_type_that_holds_itself() -> None:
    """It is looked through once, and decodes."""
    app = Fencepost("shop")

    @app.on("task")
    async def grow(tree: Tree) -> None: ...

    assert Tree([Tree([])]) == app.handlers["grow"].decode(b'{"leaves":[{"leaves":[]}]}')


def test_two_handlers_of_one_name() -> None:
    """They would share their rows."""
    app = Fencepost("shop")

    async def charge(task: Task) -> None: ...

    app.on("task")(charge)
    with pytest.raises(UsageError, match="two handlers named 'charge' in 'shop'"):
        app.on("other")(charge)


@pytest.mark.parametrize("name", ["", "Shop", "a.b", "x" * 33, "-a"])
def test_an_app_s_name(name: str) -> None:
    """It names consumers at the broker."""
    with pytest.raises(UsageError, match="the app's name: "):
        Fencepost(name)


@pytest.mark.parametrize("payload", [b"", b"[]", b'{"k":1}', b"[" * 100_000, b'{"k":"\xff"}'])
def test_a_payload_that_is_something_else(payload: bytes) -> None:
    """Whatever the bytes, the decoder has one error for them."""
    app = Fencepost("shop")

    @app.on("task")
    async def charge(task: Task) -> None: ...

    with pytest.raises(Undecodable, match="the payload is not what charge takes"):
        app.handlers["charge"].decode(payload)


async def test_the_lifespan_holds_what_the_app_opens() -> None:
    """It is entered and left; without one there is nothing to hold."""
    seen: list[str] = []

    @asynccontextmanager
    async def lifespan() -> Any:
        seen.append("opened")
        yield
        seen.append("closed")

    async with Fencepost("shop", lifespan=lifespan).lifespan():
        assert ["opened"] == seen
    assert ["opened", "closed"] == seen
    async with Fencepost("shop").lifespan():
        pass


def test_a_plain_function_runs_in_a_thread() -> None:
    """It is taken as it is, and known for what it is."""
    app = Fencepost("shop")

    @app.on("task", effect="keyed", sink_retention_s=60)
    def charge(task: Task) -> None: ...

    handler = app.handlers["charge"]
    assert (True, Effect.KEYED, 60) == (handler.threaded, handler.effect, handler.sink_retention_s)


async def test_the_barrier_is_open_in_a_unit_test() -> None:
    """A handler is called directly, with a context of one's own."""
    context = Context(event("task"), "charge", "k", 1)
    async with context.effect():
        pass
    with context.effect():
        pass


async def known(task: Task, ctx: Context) -> bool:
    return True


def unasked(task: Task) -> bool:
    return True


def test_a_checker_is_registered_for_its_handler() -> None:
    """It takes what the handler takes."""
    app = Fencepost("shop")
    app.on("task", name="charge")(known)
    assert known is app.verify("charge")(known)
    assert "ctx" == app.checkers["charge"].context_parameter


@pytest.mark.parametrize(
    ("handler", "function", "expected"),
    [
        ("refund", known, "there is no handler 'refund'"),
        ("charge", unasked, "make the checker of 'charge' `async def`"),
        ("charge", no_payload, "the checker of charge: take the payload first"),
    ],
)
def test_a_checker_that_could_not_work(
    handler: str, function: Callable[..., Any], expected: str
) -> None:
    """It fails at the decorator."""
    app = Fencepost("shop")
    app.on("task", name="charge")(known)
    with pytest.raises(UsageError, match=expected):
        app.verify(handler)(function)


def test_two_checkers_of_one_handler() -> None:
    """Whom to believe would be anybody's guess."""
    app = Fencepost("shop")
    app.on("task", name="charge")(known)
    app.verify("charge")(known)
    with pytest.raises(UsageError, match="has a checker already"):
        app.verify("charge")(known)


@pytest.mark.parametrize("after", [-1.0, float("nan"), 1e12])
def test_a_retry_that_nobody_would_live_to_see(after: float) -> None:
    """Up to thirty days."""
    with pytest.raises(UsageError, match="Retry"):
        Retry(after=after)
