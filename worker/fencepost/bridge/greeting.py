"""The door to a source that sends nothing before somebody has spoken to it.

As the first thing on each stream it names where messages are to be sent; what the dialect has to
say is posted there, in order. So MCP worked over HTTP with SSE, before it had streamable HTTP.
"""

from contextlib import AbstractAsyncContextManager
from urllib.parse import urljoin, urlsplit

import msgspec

from fencepost.ports import Door, Request, SourceResponse, SourceUnreachable, Way
from fencepost_policies.dialects.described import Dialect
from fencepost_policies.redirect import origin
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.sse import Frame


class GreetingDoor:
    """Opens by another door, and greets."""

    session = ""
    answers = True

    def __init__(
        self, door: Door, dialect: Dialect, url: str, headers: dict[str, str], way: Way
    ) -> None:
        self._door = door
        self._dialect = dialect
        self._url = url
        self._headers = headers
        self._way = way
        self._greeted = False

    def open(self, cursor: Cursor, asked: str) -> AbstractAsyncContextManager[SourceResponse]:
        self._greeted = False
        return self._door.open(cursor, asked)

    async def answer(self, frame: Frame) -> None:
        """Say what the dialect has to say, where the first frame of its kind says."""
        if self._greeted or frame.event != self._dialect.endpoint_event or frame.data is None:
            return
        self._greeted = True
        target = _within_origin(self._url, frame.data.strip())
        for message in self._dialect.greeting:
            await self._post(target, msgspec.json.encode(message))

    async def _post(self, target: str, body: bytes) -> None:
        headers = {
            **self._headers,
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        async with self._way.open(Request("POST", target, headers, "", body)) as response:
            if not 200 <= response.status < 300:
                raise SourceUnreachable(f"answered a message with {response.status}")


def _within_origin(url: str, said: str) -> str:
    """Return the url that a source names, if it is of the source's own origin.

    The configured headers may be credentials, and are for the source alone. Raises
    SourceUnreachable for another origin, and for what is no url.
    """
    try:
        target = urljoin(url, said)
        within = origin(urlsplit(target)) == origin(urlsplit(url))
    except ValueError:
        raise SourceUnreachable("names no url as the place to send messages to") from None
    if not within:
        raise SourceUnreachable("names another origin as the place to send messages to")
    return target
