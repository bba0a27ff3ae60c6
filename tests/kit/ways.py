"""The way to one source, as the bridge has it, for tests of the transport alone."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from fencepost import ports
from fencepost.ports import Way
from fencepost.settings import Bridge, Source
from fencepost.transport.http import HttpTransport

HASTY = Bridge(headers_s=0.3, stall_s=0.3, connect_s=0.3)
PATIENT = Bridge(headers_s=10.0, stall_s=10.0, connect_s=10.0)


def source_at(url: str, **fields: Any) -> Source:
    return msgspec.convert({"url": url, "keys": "none", **fields}, Source)


@asynccontextmanager
async def way_to(url: str, settings: Bridge = PATIENT, **fields: Any) -> AsyncIterator[Way]:
    """Yield the way to a source at this url, configured with these fields."""
    http = HttpTransport(settings)
    try:
        yield http.of("orders", source_at(url, **fields))
    finally:
        await http.close()


async def read(
    way: Way, url: str, headers: dict[str, str] | None = None, asked: str = ""
) -> tuple[int, bytes]:
    """Return the status and the body of a GET."""
    async with way.open(ports.Request("GET", url, headers or {}, asked)) as response:
        return response.status, b"".join([chunk async for chunk in response.chunks()])
