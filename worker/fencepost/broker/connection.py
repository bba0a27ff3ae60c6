"""One connection to the broker, and every request over it.

Requests, publishes and atomic batches share one reply inbox and one table of waiting calls. The
client library's own helpers lose futures on errors and reconnects, and show a denied subject as a
plain timeout; here each call ends in a reply, in Denied, or in Unanswered (outcome unknown).
"""

import asyncio
import base64
import contextlib
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import msgspec
import nats.errors
from nats.aio.msg import Msg

from fencepost.awake import Awake
from fencepost.broker.client import Outgoing, QuickClient
from fencepost.broker.login import close
from fencepost.broker.wire import GetReply, InfoReply, PubAck, parse_headers
from fencepost.clock import random_name
from fencepost.errors import Denied, FencepostError, NotFine, Unanswered, Unreachable
from fencepost.ports import Message, NotStored, Stored, StoredMessage
from fencepost.settings import Broker

log = logging.getLogger("fencepost.broker")

STILL_AWAY_S = 30.0
"""Before it is said again that the broker cannot be reached."""
NOT_SENT = (
    nats.errors.MaxPayloadError,
    nats.errors.ConnectionClosedError,
    nats.errors.OutboundBufferLimitError,
)
"""Why the library may not have sent anything."""
EXPECTED = "Nats-Expected-Last-Subject-Sequence"
NO_STREAM = 10059
NO_CONSUMER = 10014
PASSING = {
    10005: "there are not enough servers for it just now",
    10008: "the broker has nobody to answer for it just now",
    10009: "it has no leader just now",
    10039: "the broker has no JetStream for this account, or not yet",
    10076: "the broker has no JetStream, or not yet",
    10118: "it is offline",
    10119: "its consumer is offline",
}
"""The broker's numbers for what may be over in a moment: a cluster elects, a server starts."""
_DENIED = re.compile(r"permissions violation for (publish|subscription) to \"([^\"]*)\"", re.I)


class _Waiting(msgspec.Struct):
    """A call that awaits its reply; `subjects` is what it published to, the last one answers."""

    subjects: tuple[str, ...]
    reply: asyncio.Future[Msg]


class Connection:
    """An open connection. Make one with `connect`; `close` it when done."""

    def __init__(self, client: QuickClient, broker: Broker, role: str) -> None:
        self.client = client
        self.settings = broker
        self.prefix = broker.prefix
        self.reply_s = broker.reply_s
        self.role = role
        self._inbox = ""
        self._calls = 0
        self._waiting: dict[str, _Waiting] = {}
        self._reconnected: list[Callable[[], None]] = []
        self._denied_calls: list[tuple[str, Callable[[Denied], None]]] = []
        self._deaf: Denied | None = None
        self._quiet_until_s = 0.0
        self._awake = Awake()

    async def listen(self) -> None:
        """Open the inbox; raise Denied where this login may not have one."""
        self._inbox = self.client.new_inbox()
        await self.client.subscribe(f"{self._inbox}.*", cb=self._replied)
        # The library's ping overtakes what it has not sent yet; the second one comes behind it.
        await self.client.flush()
        await self.client.flush()
        if self._deaf is not None:
            raise self._deaf

    @property
    def payload_bytes_max(self) -> int:
        """The largest message, headers and all, that this broker takes."""
        return self.client.max_payload

    def on_reconnect(self, call: Callable[[], None]) -> None:
        self._reconnected.append(call)

    def on_denied(self, subject: str, call: Callable[[Denied], None]) -> None:
        """Call where the broker does not let us publish to a subject that no call waits on."""
        self._denied_calls.append((subject, call))

    # --- asking
    async def ask(
        self,
        subject: str,
        payload: bytes = b"",
        headers: dict[str, str] | None = None,
        *,
        wait_s: float | None = None,
    ) -> Msg:
        """Send and return the reply; raise Unanswered, Denied, or Unreachable where nobody is."""
        with self._expect_reply(subject) as (inbox, waiting):
            await self._send(subject, payload, headers, inbox)
            return await self._await_reply(waiting, wait_s)

    async def post(
        self, subject: str, payload: bytes = b"", headers: dict[str, str] | None = None
    ) -> None:
        """Send without a reply."""
        await self._send(subject, payload, headers, "")

    async def store(self, message: Message) -> Stored | NotStored:
        """Store one message; raise Unanswered where its fate is unknown."""
        headers = _with_expectation(message)
        return _read_ack(await self.ask(message.subject, message.payload, headers))

    async def store_burst(self, messages: Sequence[Message]) -> list[Stored | NotStored | None]:
        """Store each message on its own, all in flight at once; None where the fate is unknown."""
        with contextlib.ExitStack() as open_calls:
            calls = []
            for message in messages:
                inbox, waiting = open_calls.enter_context(self._expect_reply(message.subject))
                await self._send(
                    message.subject, message.payload, _with_expectation(message), inbox
                )
                calls.append(waiting)
            return await self._await_burst(calls)

    async def _await_burst(self, calls: list[_Waiting]) -> list[Stored | NotStored | None]:
        """Await all replies under one deadline: a lost connection must not cost it for each."""
        results: list[Stored | NotStored | None] = []
        with self._limited(calls, self.reply_s):
            for waiting in calls:
                try:
                    results.append(_read_ack(_heard(waiting, await waiting.reply)))
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
        batch, last = random_name(20), len(messages)
        with self._expect_reply(*[message.subject for message in messages]) as (inbox, waiting):
            outgoing: list[Outgoing] = []
            for number, message in enumerate(messages, 1):
                own = f"Nats-Batch-Id: {batch}\r\nNats-Batch-Sequence: {number}\r\n"
                if message.expect is not None:
                    own += f"{EXPECTED}: {message.expect}\r\n"
                reply = ""
                if number == last:
                    own, reply = f"{own}Nats-Batch-Commit: 1\r\n", inbox
                outgoing.append((message.subject, message.payload, reply, message.headers, own))
            await self._send_all(outgoing)
            sent()
            return _read_ack(await self._await_reply(waiting, None))

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
            info = msgspec.json.decode(reply.data, type=InfoReply)
            if info.error is not None:
                raise api_error(stream, info.error.err_code, info.error.description)
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
        # A broker that is away cannot be told goodbye, and there is nothing else to do about it.
        with contextlib.suppress(OSError, nats.errors.Error):
            await close(self.client)

    # --- inside
    async def _get(self, stream: str, request: dict[str, Any]) -> StoredMessage | None:
        reply = await self.ask(f"$JS.API.STREAM.MSG.GET.{stream}", msgspec.json.encode(request))
        got = msgspec.json.decode(reply.data, type=GetReply)
        if got.error is not None:
            if got.error.err_code == 10037:
                return None
            raise api_error(stream, got.error.err_code, got.error.description)
        assert got.message is not None
        raw = got.message
        return StoredMessage(
            raw.subject,
            raw.seq,
            base64.b64decode(raw.data),
            parse_headers(base64.b64decode(raw.hdrs)),
        )

    async def _send(
        self, subject: str, payload: bytes, headers: dict[str, str] | None, reply: str
    ) -> None:
        try:
            await self.client.send(subject, payload, reply, headers)
        except NOT_SENT as error:
            raise self._not_sent(error, len(payload)) from None

    async def _send_all(self, messages: Sequence[Outgoing]) -> None:
        try:
            await self.client.send_all(messages)
        except NOT_SENT as error:
            raise self._not_sent(error, max(len(one[1]) for one in messages)) from None

    def _not_sent(self, error: Exception, payload_bytes: int) -> FencepostError:
        """Return what one of NOT_SENT means to the call; the payload is the largest that it had."""
        if isinstance(error, nats.errors.MaxPayloadError):
            return NotFine(
                f"a message of {payload_bytes} bytes is over the broker's max_payload of "
                f"{self.client.max_payload}: raise it on the broker"
            )
        return Unanswered(f"the connection to the broker is down: {error}")

    @contextlib.contextmanager
    def _expect_reply(self, *subjects: str) -> Iterator[tuple[str, _Waiting]]:
        """Yield the subject on which a reply is heard, and the call that waits for it."""
        self._calls += 1
        token = str(self._calls)
        waiting = _Waiting(subjects, asyncio.get_running_loop().create_future())
        self._waiting[token] = waiting
        try:
            yield f"{self._inbox}.{token}", waiting
        finally:
            del self._waiting[token]
            if not waiting.reply.cancel() and not waiting.reply.cancelled():
                # Looked at, or the loop would tell of an error that nobody waits for any more.
                waiting.reply.exception()

    async def _await_reply(self, waiting: _Waiting, wait_s: float | None) -> Msg:
        with self._limited([waiting], self.reply_s if wait_s is None else wait_s):
            return _heard(waiting, await waiting.reply)

    @contextlib.contextmanager
    def _limited(self, calls: Sequence[_Waiting], limit_s: float) -> Iterator[None]:
        """Fail with Unanswered the calls that have no reply by the end of the limit.

        A standstill of the loop does not count: the reply may lie in the socket, unread.
        """

        def end() -> None:
            for waiting in calls:
                text = f"the broker did not answer within {limit_s:g} s on {waiting.subjects[-1]}"
                _fail(waiting, Unanswered(text))

        deadline = self._awake.call_after(limit_s, end)
        try:
            yield
        finally:
            deadline.cancel()

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
            self._tell(error)
            return
        # The library hands the text on in lower case, subject and all.
        verb, subject = denied.group(1).lower(), denied.group(2).lower()
        if verb == "publish":
            self._deny_publish(subject)
        else:
            self._deny_subscription(subject)

    def _tell(self, error: Exception) -> None:
        """Say what is wrong, and not four times a second that the broker is still away."""
        now_s = asyncio.get_running_loop().time()
        if not self.client.is_connected:
            if now_s < self._quiet_until_s:
                return
            self._quiet_until_s = now_s + STILL_AWAY_S
        log.warning("broker: %s", error)

    def _deny_publish(self, subject: str) -> None:
        blocked = False
        for waiting in self._waiting.values():
            named = [one for one in waiting.subjects if one.lower() == subject]
            if named:
                blocked = True
                _fail(waiting, _denied(self.role, "publish to", named[0]))
        for named_one, call in self._denied_calls:
            if named_one.lower() == subject:
                blocked = True
                call(_denied(self.role, "publish to", named_one))
        if not blocked:
            log.error("%s", _denied(self.role, "publish to", subject))

    def _deny_subscription(self, subject: str) -> None:
        problem = _denied(self.role, "subscribe to", subject)
        if subject == f"{self._inbox}.*".lower():
            self._deaf = problem
        else:
            log.error("%s", problem)
        for waiting in self._waiting.values():
            _fail(waiting, problem)

    async def reconnected(self) -> None:
        self._quiet_until_s = 0.0
        log.info("broker: connected again")
        for call in self._reconnected:
            call()


def _heard(waiting: _Waiting, reply: Msg) -> Msg:
    """Return the reply; raise Unreachable where it says that nobody is there to answer."""
    if not reply.data and (reply.headers or {}).get("Status") == "503":
        raise Unreachable(
            f"nobody answers on {waiting.subjects[-1]}: is JetStream on, and was `fencepost init` "
            "run?"
        )
    return reply


def _fail(waiting: _Waiting, problem: Denied | Unanswered) -> None:
    if not waiting.reply.done():
        waiting.reply.set_exception(problem)


def _denied(role: str, does: str, subject: str) -> Denied:
    return Denied(
        f"the broker does not let the {role} login {does} {subject}: "
        "grant it in the broker's configuration"
    )


def _with_expectation(message: Message) -> dict[str, str]:
    headers = dict(message.headers)
    if message.expect is not None:
        headers[EXPECTED] = str(message.expect)
    return headers


def _read_ack(reply: Msg) -> Stored | NotStored:
    ack = msgspec.json.decode(reply.data, type=PubAck)
    if ack.error is not None:
        return NotStored(ack.error.err_code, ack.error.description)
    return Stored(ack.seq)


def api_error(stream: str, code: int, text: str) -> FencepostError:
    """Return what the JetStream API's error about a stream means to us."""
    if code == NO_STREAM:
        return NotFine(f"the broker has no stream {stream}: run `fencepost init`")
    if code in PASSING:
        return Unreachable(f"stream {stream}: {PASSING[code]} ({code})")
    return NotFine(f"stream {stream}: {text} ({code})")
