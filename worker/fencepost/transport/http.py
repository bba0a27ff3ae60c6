"""Sources over HTTP: the connections of one process, and the way to each source.

Redirects are followed here, hop by hop, and never by the client library: that one would carry
configured headers and our position along to wherever it is sent.
"""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from urllib.parse import urlsplit

import httpx2

from fencepost.ports import Request, SourceUnreachable
from fencepost.settings import Bridge, Source
from fencepost.transport.addresses import addresses_of
from fencepost.transport.budgets import HostBudgets
from fencepost.transport.credentials import Provider, Token
from fencepost.transport.tls import tls_of
from fencepost_policies.address import written_down
from fencepost_policies.redirect import REDIRECTS_MAX, Hop, next_hop
from fencepost_schemas.limits import (
    HEADER_VALUE_BYTES_MAX,
    HEADERS_BYTES_MAX,
    HEADERS_COUNT_MAX,
)

REFUSALS = (401, 403)

# At INFO this library writes whole urls, and a query string may hold a cursor or a token.
logging.getLogger("httpx2").setLevel(logging.WARNING)


class HttpResponse:
    """An open response, its headers bounded and in lower case.

    `url` is where it came from in the end, and may hold secrets. `own` is False where another
    origin answered, which got nothing of what is configured.
    """

    def __init__(self, response: httpx2.Response, hop: Hop) -> None:
        self.status = response.status_code
        self.url = hop.url
        self.own = hop.own
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
        except (httpx2.HTTPError, OSError) as error:
            raise SourceUnreachable(_described(error)) from None

    async def close(self) -> None:
        """Close the connection; what is left of the body is not read, however long it is."""
        await self._response.aclose()


class HttpTransport:
    """The connections of one process. Sources with the same certificates share a client."""

    def __init__(self, settings: Bridge) -> None:
        # Its log shows whole urls, with their query strings.
        for name in ("httpx2", "httpcore2"):
            logging.getLogger(name).setLevel(logging.WARNING)
        self.budgets = HostBudgets(settings.connects_per_s, settings.connects_burst)
        self.headers_s = settings.headers_s
        # The read timeout is the longest silence between two chunks; headers have their own limit.
        self._timeout = httpx2.Timeout(settings.stall_s, connect=settings.connect_s)
        self.plain = self._client(True)
        """Shows no certificate, and trusts whom this machine trusts."""
        self._clients: dict[tuple[str | None, ...], httpx2.AsyncClient] = {}

    def of(self, name: str, source: Source) -> "HttpWay":
        """Return the way to one source; raise UsageError where its certificates are wrong."""
        context = tls_of(name, source)
        key = (source.tls_ca, source.tls_cert, source.tls_key)
        if context is not None and key not in self._clients:
            self._clients[key] = self._client(context)
        return HttpWay(self, source, self._clients.get(key, self.plain))

    async def close(self) -> None:
        for client in (self.plain, *self._clients.values()):
            await client.aclose()

    def _client(self, verify: ssl.SSLContext | bool) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            verify=verify,
            follow_redirects=False,
            trust_env=False,
            timeout=self._timeout,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
            # Cookies know no ports: one source's would be sent to another on the same host.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        )


class HttpWay:
    """The way to one source, over its redirects and with its credentials."""

    def __init__(self, http: HttpTransport, source: Source, own_client: httpx2.AsyncClient) -> None:
        self._http = http
        self._source = source
        self._own_client = own_client
        self._provider = Provider(source.credentials) if source.credentials is not None else None
        self._written = written_down(urlsplit(source.url).hostname or "")

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[HttpResponse]:
        """Send a request and hold its response open; a refusal asks once for other credentials."""
        provider = self._provider
        token = await provider.token() if provider is not None else None
        response = await self._follow(request, token)
        if response.status in REFUSALS and response.own and provider is not None:
            assert token is not None
            try:
                renewed = await provider.renewed(token)
            except SourceUnreachable:
                await response.close()
                raise
            if renewed.value != token.value:
                await response.close()
                response = await self._follow(request, renewed)
        try:
            yield response
        finally:
            await response.close()

    # --- inside
    async def _follow(self, request: Request, token: Token | None) -> HttpResponse:
        """Return the first answer that is not a redirect to be followed."""
        hop = Hop(request.method, request.url)
        for _ in range(REDIRECTS_MAX + 1):
            response = await self._send(hop, request, token)
            location = response.headers.get("location", "")
            following = next_hop(hop, response.status_code, location, self._source.redirects)
            if following is None:
                return HttpResponse(response, hop)
            await response.aclose()
            hop = following
        raise SourceUnreachable(f"redirects more than {REDIRECTS_MAX} times in a row")

    async def _send(self, hop: Hop, request: Request, token: Token | None) -> httpx2.Response:
        try:
            url = httpx2.URL(hop.url)
            await self._http.budgets.turn(url.host)
            async with asyncio.timeout(self._http.headers_s):
                response = await self._connect(url, hop, request, token)
        except TimeoutError:
            raise SourceUnreachable("sent no response headers in time") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise SourceUnreachable(_described(error)) from None
        sent = response.headers.raw
        if len(sent) > HEADERS_COUNT_MAX or _size(sent) > HEADERS_BYTES_MAX:
            await response.aclose()
            raise SourceUnreachable("sent more response headers than anybody needs")
        return response

    async def _connect(
        self, url: httpx2.URL, hop: Hop, request: Request, token: Token | None
    ) -> httpx2.Response:
        """Ask the first address that takes the connection, under the name that the url has."""
        name = url.raw_host.decode("ascii")
        addresses = await addresses_of(
            name,
            url.port or 0,
            written=self._written and hop.own,
            allow_private=self._source.allow_private,
        )
        client = self._own_client if hop.own else self._http.plain
        headers = self._headers(url, hop, request, token)
        for number, address in enumerate(addresses, 1):
            built = client.build_request(
                hop.method,
                url.copy_with(host=address),
                headers=headers,
                content=request.body if hop.method == request.method and request.body else None,
                extensions={"sni_hostname": name},
            )
            try:
                return await client.send(built, stream=True)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                if number == len(addresses):
                    raise
        raise AssertionError("there is an address, or addresses_of had raised")

    def _headers(
        self, url: httpx2.URL, hop: Hop, request: Request, token: Token | None
    ) -> dict[bytes, bytes]:
        """Return what is sent; to another origin, nothing that was configured or kept."""
        sent: dict[bytes, bytes] = {
            b"Host": url.netloc,
            b"Accept": b"text/event-stream",
            b"Accept-Encoding": b"identity",
            b"Cache-Control": b"no-store",
        }
        if not hop.own:
            return sent
        sent.update((_bytes(name), _bytes(value)) for name, value in request.headers.items())
        if token is not None and self._provider is not None:
            sent[_bytes(self._provider.header)] = _bytes(token.value)
        if request.asked:
            sent[b"Last-Event-ID"] = request.asked.encode("utf-8")
        return sent


def _bytes(text: str) -> bytes:
    """Return text as it travels; what a variable holds need not be UTF-8."""
    return text.encode("utf-8", "surrogateescape")


def _size(headers: list[tuple[bytes, bytes]]) -> int:
    return sum(len(name) + len(value) + 4 for name, value in headers)


def _described(error: BaseException) -> str:
    """Return what went wrong, without the url: its query string may carry a secret."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return "shows a certificate that is not trusted: check its name, and tls_ca"
        if isinstance(cause, ssl.SSLError):
            return "broke off the TLS handshake: check that it speaks TLS, and tls_cert"
        cause = cause.__cause__ or cause.__context__
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
