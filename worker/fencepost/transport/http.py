"""Sources over HTTP. Redirects are never followed: a redirect would carry credentials along."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx2

from fencepost.ports import Request, SourceUnreachable
from fencepost.settings import Bridge
from fencepost_schemas.limits import HEADER_VALUE_BYTES_MAX

# At INFO this library writes whole urls, and a query string may hold a cursor or a token.
logging.getLogger("httpx2").setLevel(logging.WARNING)


class HttpResponse:
    """An open response, its headers bounded and in lower case."""

    def __init__(self, response: httpx2.Response) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = {
            name.lower(): value[:HEADER_VALUE_BYTES_MAX] for name, value in response.headers.items()
        }
        self._response = response

    async def chunks(self) -> AsyncIterator[bytes]:
        encoding = self.headers.get("content-encoding", "identity")
        if encoding.lower() != "identity":
            raise SourceUnreachable(f"sent content-encoding {encoding[:40]!r}, unasked")
        try:
            async for chunk in self._response.aiter_raw():
                yield chunk
        except httpx2.ReadTimeout:
            raise SourceUnreachable("went silent") from None
        except httpx2.HTTPError as error:
            raise SourceUnreachable(_described(error)) from None


class HttpTransport:
    """One client for all sources of a process."""

    def __init__(self, settings: Bridge) -> None:
        # The read timeout is the longest silence between two chunks; headers have their own limit.
        self._client = httpx2.AsyncClient(
            follow_redirects=False,
            trust_env=False,
            timeout=httpx2.Timeout(settings.stall_s, connect=settings.connect_s),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
            # Cookies know no ports: one source's would be sent to another on the same host.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        )
        self._headers_s = settings.headers_s

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[HttpResponse]:
        sent: dict[bytes, bytes] = {
            b"Accept": b"text/event-stream",
            b"Accept-Encoding": b"identity",
            b"Cache-Control": b"no-store",
        }
        sent.update((name.encode(), value.encode()) for name, value in request.headers.items())
        if request.asked:
            sent[b"Last-Event-ID"] = request.asked.encode("utf-8")
        try:
            built = self._client.build_request(
                request.method, request.url, headers=sent, content=request.body or None
            )
            async with asyncio.timeout(self._headers_s):
                response = await self._client.send(built, stream=True)
        except TimeoutError:
            raise SourceUnreachable("sent no response headers in time") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise SourceUnreachable(_described(error)) from None
        try:
            yield HttpResponse(response)
        finally:
            await response.aclose()

    async def close(self) -> None:
        await self._client.aclose()


def _described(error: Exception) -> str:
    """Return what went wrong, without the url: its query string may carry a secret."""
    kind = type(error).__name__
    known = {
        "ConnectError": "does not take connections",
        "ConnectTimeout": "did not take the connection in time",
        "ReadTimeout": "sent no response headers in time",
        "RemoteProtocolError": "broke off in the middle of the response",
        "ReadError": "broke the connection",
        "InvalidURL": "has a url that cannot be used",
    }
    return known.get(kind, f"failed with {kind}")
