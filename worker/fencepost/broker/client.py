"""The client library with its two busiest ways made short. What it sends and hears stays the same.

Most of what an event costs between us and the broker is this library's looking at every character
of every header, on the way in, and at each message by itself on the way out. Both are done in one
go here, and by the library where that would not come to the same; tests hold the two together.
"""

import re
from collections.abc import Awaitable, Callable, Sequence

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

WHITE = " \t\n\r\v\f"
ACK_PREFIX = b"$JS.ACK."
VERSION_LINE = b"NATS/1.0\r\n"
PENDING_MESSAGES_MAX = 65_536
NAMES_KNOWN_MAX = 256
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_names_known: set[str] = set()
"""Names of headers that were found to be good ones; they are always the same few."""


Take = Callable[[str, str, bytes, dict[str, str]], None]
"""Takes the subject, the reply, the payload and the headers of a message."""
Outgoing = tuple[str, bytes, str, dict[str, str] | None, str]
"""The subject, the payload, the reply ("" for none) and the headers of a message; and our own lines
of headers behind those, which are known to be good ones, each with its end."""


class QuickClient(Client):
    def __init__(self) -> None:
        super().__init__()
        self._takers: dict[int, Take] = {}

    async def pull(
        self, subject: str, take: Take, control: Callable[[Msg], Awaitable[None]]
    ) -> Subscription:
        """Subscribe to what a consumer is asked for: its messages are handed to `take` as they
        come, whatever else is said there to `control`.

        A subscription of the library's would queue each message for a task of its own.
        """
        subscription = await self.subscribe(
            subject,
            cb=control,
            pending_msgs_limit=PENDING_MESSAGES_MAX,
            pending_bytes_limit=-1,
        )
        self._takers[subscription._id] = take
        return subscription

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes
    ) -> None:
        take = self._takers.get(sid)
        if take is None or not reply.startswith(ACK_PREFIX) or sid not in self._subs:
            await super()._process_msg(sid, subject, reply, data, headers)
            return
        self.stats["in_msgs"] += 1
        self.stats["in_bytes"] += len(data)
        # A message of a stream has no status in the first line of its headers.
        said = self._parse_header_lines(headers[len(VERSION_LINE) :]) if headers else {}
        try:
            take(subject.decode(), reply.decode(), data, said)
        except Exception as error:  # it would end the task that reads the connection
            await self._error_cb(error)

    async def send(
        self, subject: str, payload: bytes, reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        """Publish as `publish` does, which raises the same errors, and takes three times longer."""
        written = frame(subject, reply, headers, payload)
        if written is None or not self.is_connected or len(payload) > self.max_payload:
            await self.publish(subject, payload, reply, headers or None)
            return
        await self._put_out(written, 1, len(payload))

    async def send_all(self, messages: Sequence[Outgoing]) -> None:
        """Send each of them, in one go unless one needs a closer look."""
        written: list[bytes] = []
        for subject, payload, reply, headers, own in messages:
            one = frame(subject, reply, headers, payload, own)
            if one is None or len(payload) > self._max_payload:
                break
            written.append(one)
        if len(written) < len(messages) or not self.is_connected:
            for subject, payload, reply, headers, own in messages:
                await self.send(subject, payload, reply, {**(headers or {}), **_read(own)})
            return
        await self._put_out(b"".join(written), len(messages), sum(len(one[1]) for one in messages))

    async def _put_out(self, written: bytes, messages: int, payload_bytes: int) -> None:
        self.stats["out_msgs"] += messages
        self.stats["out_bytes"] += payload_bytes
        await self._send_command(written)
        if self._flush_queue is not None and self._flush_queue.empty():
            await self._flush_pending()

    @staticmethod
    def _parse_header_lines(raw: bytes) -> dict[str, str]:
        lines = raw.decode("utf-8", "replace").split("\r\n")
        headers: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if colon:
                headers[name] = value.strip(WHITE)
        # Names are nearly always as they should be, and all are looked at for the price of one.
        names = ":".join(headers)
        if names.isascii() and names.split() == [names]:
            return headers
        return _well_named(lines)


def frame(
    subject: str, reply: str, headers: dict[str, str] | None, payload: bytes, own: str = ""
) -> bytes | None:
    """Return the message in the broker's protocol, or None for what needs a closer look."""
    named = subject + reply
    if not subject or " " in named or not named.isprintable():
        return None
    to = f"{subject} {reply} " if reply else f"{subject} "
    lines = own
    if headers:
        theirs = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        one_each = theirs.count("\n") == len(headers) and theirs.count("\r") == len(headers)
        if not one_each or not (_names_known.issuperset(headers) or _are_names(headers)):
            return None
        lines = theirs + own
    if not lines:
        return b"PUB %b%d\r\n%b\r\n" % (to.encode(), len(payload), payload)
    head = f"NATS/1.0\r\n{lines}\r\n"
    head_bytes = len(head) if head.isascii() else len(head.encode())
    sizes = f"{head_bytes} {head_bytes + len(payload)}"
    return f"HPUB {to}{sizes}\r\n{head}".encode() + payload + b"\r\n"


def _read(own: str) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in own.splitlines())


def _are_names(headers: dict[str, str]) -> bool:
    """Return True where all may be names, and know them from now on."""
    if not all(map(_NAME.fullmatch, headers)):
        return False
    if len(_names_known) < NAMES_KNOWN_MAX:
        _names_known.update(headers)
    return True


def _well_named(lines: list[str]) -> dict[str, str]:
    """Return the headers whose names can be names, without white space around these."""
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        key = name.strip(WHITE)
        if colon and name.isascii() and (not key or key.split() == [key]):
            headers[key] = value.strip(WHITE)
    return headers
