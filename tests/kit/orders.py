"""The source named `orders` that the bridge's tests follow, and what they look for behind it."""

from typing import Any

from fencepost.ports import StoredMessage
from fencepost_schemas.subject import EVENTS
from kit.house import House
from kit.source import End, Reply, sse, stream
from kit.wait import until

TOKENS = {"scheme": "integer", "generation_header": "gen", "window_header": "floor"}
"""A source that declares all: generation and window by header, ids in order."""
OPAQUE = {**TOKENS, "scheme": "opaque"}
IN_DATA = {"scheme": "integer", "generation_pointer": "/g", "window_header": "floor"}
RESET = {**TOKENS, "reset_events": ["reset"]}

TWO = stream(sse(("1", '{"k":"a"}'), ("2", '{"k":"b"}')), gen="g", floor="1")
"""A first connection that brings two events and ends."""


def live(*events: tuple[str, str], **headers: str) -> Reply:
    """Return an answer that brings these events and stays open."""
    return stream(sse(*events), end=End.HANG, **headers)


def orders(url: str, *, plain: dict[str, Any] = TOKENS, **fields: Any) -> dict[str, Any]:
    """Return the configuration of the source `orders` at this url."""
    return {"orders": {"url": url, "keys": "durable", "key": "/k", "plain": plain, **fields}}


async def see(home: House, events: int) -> None:
    """Return once so many events are published."""

    async def there() -> bool:
        return len(await home.events()) >= events

    await until(there, f"{events} events")


async def see_verdicts(home: House, count: int) -> None:
    """Return once so many connections are judged."""

    async def there() -> bool:
        return len(await home.records()) >= count

    await until(there, f"{count} verdicts")


async def shelf(home: House) -> list[StoredMessage]:
    """Return everything that FENCEPOST_EVENTS holds, in order."""
    return [stored async for stored in home.connection.scan(EVENTS, "fp.>")]


def kind(stored: StoredMessage) -> str:
    """Return "events", "epochs" or "cursors"."""
    return stored.subject.split(".")[1]
