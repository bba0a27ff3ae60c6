"""How a source is opened: plainly with a GET, or as its protocol wants it."""

from contextlib import AbstractAsyncContextManager

from fencepost.bridge.mcp import McpDoor
from fencepost.ports import Door, Request, SourceResponse, Transport, Way, World
from fencepost.settings import Source
from fencepost.settings_file import source_headers
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.sse import Frame


class PlainDoor:
    """A GET with the configured headers."""

    session = ""
    answers = False

    def __init__(self, source: Source, headers: dict[str, str], way: Way) -> None:
        self._source = source
        self._headers = headers
        self._way = way

    def open(self, cursor: Cursor, asked: str) -> AbstractAsyncContextManager[SourceResponse]:
        return self._way.open(Request("GET", self._source.url, self._headers, asked))

    async def answer(self, frame: Frame) -> None:
        """A plain source asks for nothing."""


def door_for(name: str, source: Source, transport: Transport, world: World) -> Door:
    """Return the door of this source's dialect."""
    headers = source_headers(name, source)
    way = transport.of(name, source)
    if source.dialect == "mcp":
        return McpDoor(source, headers, way, world)
    return PlainDoor(source, headers, way)
