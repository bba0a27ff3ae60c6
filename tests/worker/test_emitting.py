"""What may be emitted, and what a unit test of a handler sees of it."""

from typing import Any

import msgspec
import pytest

from fencepost import Context, Fencepost, Gap
from fencepost.emitting import Kept, checked_emission
from fencepost.errors import UsageError
from fencepost_schemas.emission import Emission
from fencepost_schemas.event import ClassifiedEvent
from fencepost_schemas.standing import Standing


class Task(msgspec.Struct):
    k: str


@pytest.mark.parametrize(
    ("data", "payload"),
    [
        (Task("a"), b'{"k":"a"}'),
        ({"k": "a"}, b'{"k":"a"}'),
        ("a", b'"a"'),
        (None, b"null"),
        (b'{"k": "a"}', b'{"k": "a"}'),
    ],
)
def test_data_is_written_as_json_and_bytes_as_they_are(data: object, payload: bytes) -> None:
    assert Emission("task", "a", payload) == checked_emission("task", "a", data)


@pytest.mark.parametrize(
    ("type", "key", "data", "text"),
    [
        ("task", "", {}, "key="),
        ("task", "a\nb", {}, "key="),
        ("task", "k" * 256, {}, "key="),
        ("", "a", {}, "type="),
        ("t" * 256, "a", {}, "type="),
        ("task", "a", object(), "JSON"),
        ("task", 42, {}, "key="),
    ],
)
def test_what_could_not_be_applied_once_is_refused(
    type: Any, key: Any, data: object, text: str
) -> None:
    with pytest.raises(UsageError, match=text):
        checked_emission(type, key, data)


async def test_a_handler_that_emits_can_be_called_directly() -> None:
    """A context that a test makes keeps what is emitted."""
    app = Fencepost("shop")

    @app.reconcile("orders")
    async def fill(gap: Gap, ctx: Context) -> None:
        await ctx.emit(type="task", key=gap.after_position, data=Task("a"))

    standing = Standing.GENESIS
    event = ClassifiedEvent("orders", "0001-aaaaaaaa", standing, standing, "", "", "", "", b"")
    kept = Kept()
    ctx = Context(event=event, handler="fill", idempotency_key="x", attempt=1, emitter=kept)
    await fill(Gap("0001-aaaaaaaa", "5", "0002-aaaaaaaa", "9"), ctx)
    assert [Emission("task", "5", b'{"k":"a"}')] == kept.emitted
    alone = Context(event=event, handler="fill", idempotency_key="x", attempt=1)
    await alone.emit(type="task", key="a")


def test_a_handler_in_a_thread_cannot_emit() -> None:
    """It says so, instead of leaving something that is never awaited."""
    standing = Standing.GENESIS
    event = ClassifiedEvent("orders", "0001-aaaaaaaa", standing, standing, "", "", "", "", b"")
    kept = Kept()
    ctx = Context(event=event, handler="fill", idempotency_key="x", attempt=1, emitter=kept)
    with pytest.raises(UsageError, match="async def"):
        ctx.emit(type="task", key="a")
    assert [] == kept.emitted


# --- registration -------------------------------------------------------------------------------
async def typed(gap: Gap, ctx: Context) -> None: ...
# Its missing annotation is what is tried.
async def untyped(gap, ctx: Context) -> None: ...  # type: ignore[no-untyped-def]
async def alone(gap: Gap) -> None: ...


@pytest.mark.parametrize("function", [typed, untyped, alone])
def test_a_reconciler_takes_a_gap(function: Any) -> None:
    """It is found by its source, and by no event's type."""
    app = Fencepost("shop")
    assert function is app.reconcile("orders")(function)
    reconciler = app.reconcilers["orders"]
    gap = Gap("0001-aaaaaaaa", "5", "0002-aaaaaaaa", "9")
    assert gap == reconciler.decode(msgspec.json.encode(gap))
    assert reconciler is app.handlers[function.__name__]
    standing = Standing.GENESIS
    event = ClassifiedEvent(
        "orders", "0001-aaaaaaaa", standing, standing, reconciler.type, "", "", "", b""
    )
    assert [] == app.handlers_for(event)


def plain(gap: Gap, ctx: Context) -> None: ...
async def of_a_task(task: Task, ctx: Context) -> None: ...
async def without_a_gap(ctx: Context) -> None: ...


@pytest.mark.parametrize(
    ("function", "source", "more"),
    [
        (plain, "orders", {}),
        (of_a_task, "orders", {}),
        (without_a_gap, "orders", {}),
        (typed, "no.source", {}),
        (typed, "orders", {"attempts": 0}),
        (typed, "orders", {"name": "A B"}),
    ],
)
def test_a_reconciler_that_could_not_work_is_refused(
    function: Any, source: str, more: dict[str, Any]
) -> None:
    with pytest.raises(UsageError):
        Fencepost("shop").reconcile(source, **more)(function)


def test_a_source_has_one_reconciler_and_a_name_one_handler() -> None:
    app = Fencepost("shop")
    app.reconcile("orders")(typed)
    with pytest.raises(UsageError, match="has a reconciler already"):
        app.reconcile("orders", name="other")(typed)
    with pytest.raises(UsageError, match="two handlers named"):
        app.reconcile("crm")(typed)
    with pytest.raises(UsageError, match="two handlers named"):
        app.on("task", name="typed")(of_a_task)
