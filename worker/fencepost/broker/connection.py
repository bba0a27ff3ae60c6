"""One connection to the broker, and every request over it.

Requests, publishes and atomic batches share one reply inbox and one table of waiting calls. The
client library's own helpers lose futures on errors and reconnects, and show a denied subject as a
plain timeout; here each call ends in a reply, in Denied, or in Unanswered (outcome unknown).
"""

import asyncio
import base64
import logging
import re
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import msgspec
import nats
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from fencepost.clock import random_name
from fencepost.errors import Denied, NotFine, Unanswered, Unreachable, UsageError
from fencepost.settings import Broker, Login

log = logging.getLogger("fencepost.broker")

SERVER_VERSION_LEAST = (2, 14)
PING_INTERVAL_S = 10
RECONNECT_WAIT_S = 0.25
PENDING_BYTES_MAX = 8 * 1024 * 1024
_DENIED = re.compile(r"permissions violation for (publish|subscription) to \"([^\"]*)\"", re.I)


class Message(msgspec.Struct, frozen=True):
    """What is to be stored; `expect` is the sequence that its subject must stand at."""

    subject: str
    payload: bytes
    headers: dict[str, str] = {}
    expect: int | None = None


class Stored(msgspec.Struct, frozen=True):
    """The broker holds it durably. `sequence` is that of the last message of a batch."""

    sequence: int


class NotStored(msgspec.Struct, frozen=True):
    """The broker refused it, whole. `error` is its own number for why."""

    error: int
    text: str

    @property
    def conflict(self) -> bool:
        """True where the subject does not stand at the expected sequence."""
        return self.error == 10071

    @property
    def in_flight(self) -> bool:
        """True where another write to the same subject has not been decided yet: ask again."""
        return self.error == 10164

    @property
    def taken(self) -> bool:
        """True where the stream keeps the first message of a subject, and has one.

        The number alone is the broker's word for any failure to store, so the text counts too.
        """
        return self.error == 10077 and "per subject" in self.text


class StoredMessage(msgspec.Struct, frozen=True):
    """A message read back through the stream's leader."""

    subject: str
    sequence: int
    payload: bytes
    headers: dict[str, str]


class _ApiError(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _PubAck(msgspec.Struct):
    error: _ApiError | None = None
    seq: int = 0


class _RawMessage(msgspec.Struct):
    subject: str
    seq: int
    data: str = ""
    hdrs: str = ""


class _GetReply(msgspec.Struct):
    error: _ApiError | None = None
    message: _RawMessage | None = None


class _State(msgspec.Struct):
    subjects: dict[str, int] | None = None


class _InfoReply(msgspec.Struct):
    error: _ApiError | None = None
    total: int = 0
    state: _State = msgspec.field(default_factory=_State)


class _Waiting(msgspec.Struct):
    subject: str
    reply: asyncio.Future[Msg]


class Connection:
    """An open connection. Make one with `connect`; `close` it when done."""

    def __init__(self, client: Client, broker: Broker, role: str) -> None:
        self.client = client
        self.prefix = broker.prefix
        self.reply_s = broker.reply_s
        self.role = role
        self._inbox = client.new_inbox()
        self._calls = 0
        self._waiting: dict[str, _Waiting] = {}
        self._reconnected: list[Callable[[], None]] = []

    async def listen(self) -> None:
        await self.client.subscribe(f"{self._inbox}.*", cb=self._replied)
        await self.client.flush()

    @property
    def payload_bytes_max(self) -> int:
        """The largest message, headers and all, that this broker takes."""
        return self.client.max_payload

    def on_reconnect(self, call: Callable[[], None]) -> None:
        self._reconnected.append(call)

    # --- asking
    async def ask(
        self,
        subject: str,
        payload: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        wait_s: float | None = None,
    ) -> Msg:
        """Send and return the reply; raise Unanswered, Denied, or Unreachable where nobody is."""
        token, waiting = self._expect_reply(subject)
        await self._send(subject, payload, headers, f"{self._inbox}.{token}")
        return await self._await_reply(token, waiting, wait_s)

    async def post(
        self, subject: str, payload: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> None:
        """Send without a reply."""
        await self._send(subject, payload, headers, "")

    async def store(self, message: Message) -> Stored | NotStored:
        """Store one message; raise Unanswered where its fate is unknown."""
        headers = _with_expectation(message)
        return _read_ack(await self.ask(message.subject, message.payload, headers))

    async def store_burst(self, messages: Sequence[Message]) -> list[Stored | NotStored | None]:
        """Store each message on its own, all in flight at once; None where the fate is unknown."""
        tickets = []
        for message in messages:
            token, waiting = self._expect_reply(message.subject)
            reply = f"{self._inbox}.{token}"
            await self._send(message.subject, message.payload, _with_expectation(message), reply)
            tickets.append((token, waiting))
        results: list[Stored | NotStored | None] = []
        for token, waiting in tickets:
            try:
                results.append(_read_ack(await self._await_reply(token, waiting, None)))
            except Unanswered:
                results.append(None)
        return results

    async def store_batch(
        self, messages: Sequence[Message], sent: Callable[[], None] = lambda: None
    ) -> Stored | NotStored:
        """Store all messages or none, in order and without another between them.

        `sent` is called when all are on their way and no reply has been awaited. Raises Unanswered
        where the fate is unknown.
        """
        batch = random_name(20)
        token, waiting = self._expect_reply(messages[-1].subject)
        for number, message in enumerate(messages, 1):
            headers = {
                **_with_expectation(message),
                "Nats-Batch-Id": batch,
                "Nats-Batch-Sequence": str(number),
            }
            last = number == len(messages)
            if last:
                headers["Nats-Batch-Commit"] = "1"
            reply = f"{self._inbox}.{token}" if last else ""
            await self._send(message.subject, message.payload, headers, reply)
        sent()
        return _read_ack(await self._await_reply(token, waiting, None))

    # --- reading, through the leader
    async def last(self, stream: str, subject: str) -> StoredMessage | None:
        """Return the newest message on a subject (a filter will do), or None."""
        return await self._get(stream, {"last_by_subj": subject})

    async def scan(
        self, stream: str, subject: str, sequence: int = 1
    ) -> AsyncIterator[StoredMessage]:
        """Yield each message that matches the filter, oldest first, from a sequence on."""
        while True:
            found = await self._get(stream, {"seq": sequence, "next_by_subj": subject})
            if found is None:
                return
            yield found
            sequence = found.sequence + 1

    async def subjects(self, stream: str, subject: str) -> list[str]:
        """Return the subjects that match a filter and hold a message, sorted."""
        found: list[str] = []
        while True:
            request = {"subjects_filter": subject, "offset": len(found)}
            reply = await self.ask(f"$JS.API.STREAM.INFO.{stream}", msgspec.json.encode(request))
            info = msgspec.json.decode(reply.data, type=_InfoReply)
            if info.error is not None:
                raise _api_error(stream, info.error)
            page = info.state.subjects or {}
            found += page
            if not page or len(found) >= info.total:
                return sorted(found)

    async def api(self, name: str, request: Any = None) -> dict[str, Any]:
        """Call the JetStream API and return the decoded reply, its "error" included."""
        payload = msgspec.json.encode(request) if request is not None else b""
        reply = await self.ask(f"$JS.API.{name}", payload)
        decoded: dict[str, Any] = msgspec.json.decode(reply.data)
        return decoded

    async def close(self) -> None:
        await self.client.close()

    # --- inside
    async def _get(self, stream: str, request: dict[str, Any]) -> StoredMessage | None:
        reply = await self.ask(f"$JS.API.STREAM.MSG.GET.{stream}", msgspec.json.encode(request))
        got = msgspec.json.decode(reply.data, type=_GetReply)
        if got.error is not None:
            if got.error.err_code == 10037:
                return None
            raise _api_error(stream, got.error)
        assert got.message is not None
        raw = got.message
        return StoredMessage(
            raw.subject,
            raw.seq,
            base64.b64decode(raw.data),
            _parse_headers(base64.b64decode(raw.hdrs)),
        )

    async def _send(
        self, subject: str, payload: bytes, headers: Mapping[str, str] | None, reply: str
    ) -> None:
        try:
            await self.client.publish(
                subject, payload, reply=reply, headers=dict(headers) if headers else None
            )
        except nats.errors.MaxPayloadError:
            raise NotFine(
                f"a message of {len(payload)} bytes is over the broker's max_payload of "
                f"{self.client.max_payload}: raise it on the broker"
            ) from None
        except (nats.errors.ConnectionClosedError, nats.errors.OutboundBufferLimitError) as error:
            raise Unanswered(f"the connection to the broker is down: {error}") from None

    def _expect_reply(self, subject: str) -> tuple[str, _Waiting]:
        self._calls += 1
        token = str(self._calls)
        waiting = _Waiting(subject, asyncio.get_running_loop().create_future())
        self._waiting[token] = waiting
        return token, waiting

    async def _await_reply(self, token: str, waiting: _Waiting, wait_s: float | None) -> Msg:
        limit_s = wait_s if wait_s is not None else self.reply_s
        try:
            async with asyncio.timeout(limit_s):
                reply = await waiting.reply
        except TimeoutError:
            raise Unanswered(
                f"the broker did not answer within {limit_s:g} s on {waiting.subject}"
            ) from None
        finally:
            self._waiting.pop(token, None)
        if not reply.data and (reply.headers or {}).get("Status") == "503":
            raise Unreachable(
                f"nobody answers on {waiting.subject}: is JetStream on, and was "
                "`fencepost init` run?"
            )
        return reply

    async def _replied(self, reply: Msg) -> None:
        waiting = self._waiting.get(reply.subject.rsplit(".", 1)[1])
        if waiting is not None and not waiting.reply.done():
            waiting.reply.set_result(reply)

    async def failed(self, error: Exception) -> None:
        """The library's error callback: it must never raise, or the connection goes deaf.

        A permission violation becomes the error of the call that caused it.
        """
        denied = _DENIED.search(str(error))
        if denied is None:
            log.warning("broker: %s", error)
            return
        # The library hands the text on in lower case, subject and all.
        verb, subject = denied.group(1).lower(), denied.group(2).lower()
        blocked = [
            waiting
            for waiting in self._waiting.values()
            if verb == "subscription" or waiting.subject.lower() == subject
        ]
        does = "publish to" if verb == "publish" else "subscribe to"
        for waiting in blocked:
            self._deny(waiting, does, waiting.subject if verb == "publish" else subject)
        if not blocked:
            log.error("%s", _denied(self.role, does, subject))

    def _deny(self, waiting: _Waiting, does: str, subject: str) -> None:
        if not waiting.reply.done():
            waiting.reply.set_exception(_denied(self.role, does, subject))

    async def reconnected(self) -> None:
        log.info("broker: connected again")
        for call in self._reconnected:
            call()


async def connect(broker: Broker, login: Login, role: str) -> Connection:
    """Return an open connection; raise UsageError, Denied or Unreachable in one clear line."""
    client = Client()
    opened: list[Connection] = []

    async def failed(error: Exception) -> None:
        if opened:
            await opened[0].failed(error)

    async def disconnected() -> None:
        if opened and not client.is_closed:
            log.warning("broker: connection lost; trying again")

    async def reconnected() -> None:
        if opened:
            await opened[0].reconnected()

    servers = ", ".join(login.servers or ())
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
        "error_cb": failed,
        "disconnected_cb": disconnected,
        "reconnected_cb": reconnected,
    }
    await _probe(options, servers, role, broker.connect_s)
    try:
        async with asyncio.timeout(broker.connect_s):
            await client.connect(max_reconnect_attempts=-1, **options)
    except (OSError, TimeoutError, nats.errors.Error) as error:
        raise Unreachable(f"no broker answers at {servers}: {error}") from None
    _check_version(client, servers)
    connection = Connection(client, broker, role)
    opened.append(connection)
    await connection.listen()
    return connection


async def _probe(options: dict[str, Any], servers: str, role: str, limit_s: float) -> None:
    """Try once without reconnecting: with it, a wrong login or certificate loops for ever."""
    refusals: list[Exception] = []

    async def refused(error: Exception) -> None:
        refusals.append(error)

    trial = Client()
    attempt = {**options, "error_cb": refused, "disconnected_cb": None, "reconnected_cb": None}
    try:
        async with asyncio.timeout(limit_s):
            await trial.connect(allow_reconnect=False, **attempt)
        await trial.close()
        return
    except FileNotFoundError as error:
        raise UsageError(f"broker credentials: there is no file {error.filename}") from None
    except (OSError, TimeoutError, ValueError, nats.errors.Error) as error:
        problem = refusals[-1] if refusals else error
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


def _denied(role: str, does: str, subject: str) -> Denied:
    return Denied(
        f"the broker does not let the {role} login {does} {subject}: "
        "grant it in the broker's configuration"
    )


def _with_expectation(message: Message) -> dict[str, str]:
    if message.expect is None:
        return dict(message.headers)
    return {**message.headers, "Nats-Expected-Last-Subject-Sequence": str(message.expect)}


def _read_ack(reply: Msg) -> Stored | NotStored:
    ack = msgspec.json.decode(reply.data, type=_PubAck)
    if ack.error is not None:
        return NotStored(ack.error.err_code, ack.error.description)
    return Stored(ack.seq)


def _api_error(stream: str, error: _ApiError) -> NotFine:
    if error.err_code == 10059:
        return NotFine(f"the broker has no stream {stream}: run `fencepost init`")
    return NotFine(f"stream {stream}: {error.description} ({error.err_code})")


def _parse_headers(raw: bytes) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in raw.decode("utf-8", "replace").split("\r\n")[1:]:
        name, colon, value = line.partition(":")
        if colon:
            headers[name] = value.strip()
    return headers
