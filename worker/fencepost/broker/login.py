"""Log in at the broker, or say in one line why not."""

import asyncio
import contextlib
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nats.errors
from nats.aio.client import Client

from fencepost.broker.client import QuickClient
from fencepost.errors import Denied, Unreachable, UsageError
from fencepost.settings import Broker, Login

SERVER_VERSION_LEAST = (2, 14)
PING_INTERVAL_S = 10
RECONNECT_WAIT_S = 0.25
CLOSE_S = 1.0
PENDING_BYTES_MAX = 8 * 1024 * 1024


class _SecureClient(QuickClient):
    """Sends no login in the clear: a server that offers no TLS is refused before it.

    The library takes `tls` for a wish, and sends user and password to a server that does without.
    """

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        if initial_connection and not info.get("tls_required"):
            raise nats.errors.Error("the server speaks no TLS")
        await super()._process_info(info, initial_connection)


def new_client(login: Login) -> QuickClient:
    """Return a client for this login, not connected yet."""
    return QuickClient() if _tls(login) is None else _SecureClient()


async def open_client(
    client: Client, broker: Broker, login: Login, role: str, callbacks: Mapping[str, Any]
) -> None:
    """Connect the client for good: it reconnects for ever.

    Raises UsageError, Denied or Unreachable; no password is shown.
    """
    servers = ", ".join(_shown(server) for server in login.servers or ())
    _check_credentials(login)
    options: dict[str, Any] = {
        "servers": list(login.servers or ()),
        "name": f"fencepost-{role}",
        "user": login.user,
        "password": login.password,
        "user_credentials": login.credentials,
        "tls": _tls(login),
        "inbox_prefix": f"_INBOX_{role}",
        "ping_interval": PING_INTERVAL_S,
        "pending_size": PENDING_BYTES_MAX,
        "connect_timeout": broker.connect_s,
        "reconnect_time_wait": RECONNECT_WAIT_S,
    }
    await _probe(type(client), options, servers, role, broker.connect_s)
    try:
        async with asyncio.timeout(broker.connect_s):
            await client.connect(max_reconnect_attempts=-1, **options, **callbacks)
    except (OSError, TimeoutError, nats.errors.Error) as error:
        raise Unreachable(f"no broker answers at {servers}: {error}") from None
    _check_version(client, servers)


async def close(client: Client) -> None:
    """Close the client, however far it came."""
    # The library asserts that there was a socket; where there was none, there is none to close.
    # And after a failed handshake it waits for a goodbye that does not come.
    with contextlib.suppress(AssertionError, TimeoutError):
        async with asyncio.timeout(CLOSE_S):
            await client.close()


async def _probe(
    new: type[Client], options: dict[str, Any], servers: str, role: str, limit_s: float
) -> None:
    """Try once without reconnecting: with it, a wrong login or certificate loops for ever."""
    refusals: list[Exception] = []

    async def refused(error: Exception) -> None:
        refusals.append(error)

    trial = new()
    attempt = {**options, "error_cb": refused}
    try:
        async with asyncio.timeout(limit_s):
            await trial.connect(allow_reconnect=False, **attempt)
        return
    except (OSError, TimeoutError, ValueError, nats.errors.Error) as error:
        problem = refusals[-1] if refusals else error
    finally:
        await close(trial)
    text = f"{problem} {refusals}".lower()
    if "authorization" in text or "authentication" in text:
        raise Denied(
            f"the broker at {servers} refuses the {role} login: check user, password or "
            f"credentials under [broker] or [broker.roles.{role}]"
        )
    if isinstance(problem, ssl.SSLError) or "ssl" in text or "tls" in text:
        raise Unreachable(
            f"no TLS connection to the broker at {servers}: {problem}; check tls_ca, tls_cert, "
            "tls_key"
        )
    reason = str(problem) or type(problem).__name__
    raise Unreachable(
        f"no broker answers at {servers} ({reason}): start one, or name it with --server"
    )


def _check_credentials(login: Login) -> None:
    """Find a missing file at once: the library looks for it only where the server asks."""
    if login.credentials and not Path(login.credentials).is_file():
        raise UsageError(f"broker credentials: there is no file {login.credentials}")


def _shown(server: str) -> str:
    """Return a server's url without the user and password that it may carry."""
    scheme, found, rest = server.rpartition("://")
    return scheme + found + rest.rsplit("@", 1)[-1]


def _tls(login: Login) -> ssl.SSLContext | None:
    """Return a verifying context where any TLS file is named; tls:// servers get the default."""
    wanted = login.tls_ca or login.tls_cert or login.tls_key
    if not wanted and not any(server.startswith("tls://") for server in login.servers or ()):
        return None
    try:
        context = ssl.create_default_context(cafile=login.tls_ca)
        if login.tls_cert:
            context.load_cert_chain(login.tls_cert, login.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"broker TLS files cannot be used: {error}") from None
    return context


def _check_version(client: Client, servers: str) -> None:
    version = client.connected_server_version
    if (version.major, version.minor) < SERVER_VERSION_LEAST:
        least = ".".join(str(part) for part in SERVER_VERSION_LEAST)
        raise Unreachable(
            f"the broker at {servers} is nats-server {version.major}.{version.minor}: "
            f"fencepost needs {least} or newer"
        )
