"""How a source is opened: plainly with a GET, or as its protocol wants it."""

from contextlib import AbstractAsyncContextManager

from fencepost.bridge.greeting import GreetingDoor
from fencepost.bridge.mcp import McpDoor
from fencepost.ports import Door, Request, SourceResponse, Transport, Way, World
from fencepost.settings import Source
from fencepost.settings_file import source_headers
from fencepost_policies.dialects.described import Dialect as Described
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.sse import Frame


class PlainDoor:
    """One request with the configured headers, and the position where the dialect wants it."""

    session = ""
    answers = False

    def __init__(self, source: Source, headers: dict[str, str], way: Way) -> None:
        self._url = source.url
        self._ask = source.speech.ask
        self._headers = headers
        self._way = way

    def open(self, cursor: Cursor, asked: str) -> AbstractAsyncContextManager[SourceResponse]:
        """Ask for what is behind `asked`, or where a stream without a position is to begin."""
        start = self._ask.start(cursor.start if cursor.fresh else self._ask.anew)
        sent = self._ask.request(self._url, self._headers, asked or start, cursor.token)
        return self._way.open(
            Request(sent.method, sent.url, sent.headers, sent.last_event_id, sent.body)
        )

    async def answer(self, frame: Frame) -> None:
        """A plain source asks for nothing."""


def door_for(name: str, source: Source, transport: Transport, world: World) -> Door:
    """Return the door of this source's dialect."""
    headers = source_headers(name, source)
    way = transport.of(name, source)
    if source.dialect == "mcp":
        return McpDoor(source, headers, way, world)
    door = PlainDoor(source, headers, way)
    speech = source.speech
    if isinstance(speech, Described) and speech.endpoint_event:
        return GreetingDoor(door, speech, source.url, headers, way)
    return door
