"""What a bridge stored in a batch goes on its way through the pool without the batch's orders."""

import msgspec

from fencepost import Fencepost, Reject
from fencepost.broker.embedded import EmbeddedBroker
from fencepost_schemas.event import event_of
from fencepost_schemas.question import Held
from fencepost_schemas.row import State
from fencepost_schemas.subject import DEAD, QUESTIONS
from kit.house import house
from kit.source import End, ScriptedSource, sse, stream
from kit.wait import until


def source_at(url: str) -> dict[str, object]:
    return {"orders": {"url": url, "keys": "durable", "key": "/k"}}


async def test_an_event_of_a_batch_can_be_buried(broker: EmbeddedBroker) -> None:
    """The broker's own headers are orders when they are sent again: it would refuse the burial."""
    app = Fencepost("graves")

    @app.on("task")
    async def refuse(task: dict[str, str]) -> None:
        raise Reject("not ours")

    script = stream(sse(("1", '{"k":"a"}'), ("2", '{"k":"b"}')), end=End.HANG)
    async with ScriptedSource(script) as source, house(broker, source_at(source.url)) as home:
        await home.init()
        async with home.bridge(), home.worker(app):

            async def both() -> bool:
                return len(await home.connection.subjects(DEAD, "fp.dead.*")) == 1 and (
                    len([one async for one in home.connection.scan(DEAD, "fp.dead.*")]) >= 2
                )

            await until(both, "two burials")
        buried = [one async for one in home.connection.scan(DEAD, "fp.dead.*")]

        assert {State.REJECTED} == {row.state for row in await home.rows()}
        assert {"a", "b"} == {event_of(one.headers, one.payload).key for one in buried}
        assert not [name for one in buried for name in one.headers if name.startswith("Nats-")]


async def test_an_event_of_a_batch_is_held_without_the_batchs_headers(
    broker: EmbeddedBroker,
) -> None:
    """What is kept at the desk is the event, and nothing of how it once was stored."""
    app = Fencepost("waiting")

    @app.on("task")
    async def never(task: dict[str, str]) -> None:
        raise AssertionError("nothing may run before a ruling")

    script = (
        stream(sse(("1", '{"other":"type"}'), type="passed over")),
        stream(sse(("2", '{"k":"b"}')), end=End.HANG),
    )
    async with ScriptedSource(*script) as source, house(broker, source_at(source.url)) as home:
        await home.init()
        async with home.bridge(), home.worker(app):

            async def is_held() -> bool:
                return bool(await home.connection.subjects(QUESTIONS, "fp.held.>"))

            await until(is_held, "an event under its seam")
        (kept,) = [one async for one in home.connection.scan(QUESTIONS, "fp.held.>")]
        held = msgspec.json.decode(kept.payload, type=Held)

        assert not [name for name in held.headers if name.lower().startswith("nats-")]
