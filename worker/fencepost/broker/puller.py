"""A continuous pull: asks for as many messages as there are free slots, and keeps asking.

The client library's `fetch` makes a task a message and leaves orphan requests behind; here
requests are counted, expire at the broker, and are forgotten when the connection was lost.
"""

import asyncio
import logging
from collections.abc import Callable

import msgspec
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from fencepost.broker.connection import NO_CONSUMER, Connection, api_error
from fencepost.errors import Denied, Unreachable
from fencepost.ports import Delivery

log = logging.getLogger("fencepost.broker")

EXPIRES_S = 20.0
HEARTBEAT_S = 5.0


class Puller:
    """Calls `take` for each message that was asked for with `want`.

    The number asked for and not yet come is `outstanding`; it shrinks with each message, and by
    what the broker gives back when a request expires or fails.
    """

    def __init__(
        self, connection: Connection, stream: str, consumer: str, take: Callable[[Delivery], None]
    ) -> None:
        self.outstanding = 0
        self._connection = connection
        self._next = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._info = f"CONSUMER.INFO.{stream}.{consumer}"
        self._stream = stream
        self._what = f"consumer {consumer} of {stream}"
        self._take = take
        self._inbox = connection.client.new_inbox()
        self._generation = 0
        self._subscription: Subscription | None = None
        self._now_s = asyncio.get_running_loop().time
        self._heard_at = 0.0
        self._looked_at = 0.0
        self._denied: Denied | None = None
        self._doubted = False
        self.gone: asyncio.Event = asyncio.Event()

    async def open(self) -> None:
        self._subscription = await self._connection.client.pull(
            f"{self._inbox}.*", self._arrived, self._told
        )
        self._connection.on_reconnect(self._forget)
        self._connection.on_denied(self._next, self._deny)

    async def close(self) -> None:
        """Stop receiving; what the broker had on its way comes to somebody after ack_wait."""
        if self._subscription is not None and not self._connection.client.is_closed:
            await self._subscription.unsubscribe()
            self._subscription = None

    async def want(self, count: int) -> None:
        """See to it that `count` messages are asked for, counting those asked for before.

        Sets `gone` where the consumer is no longer there. Raises Denied where this login may not
        ask, and NotFine where the stream is gone.
        """
        if self._denied is not None:
            raise self._denied
        if not self._connection.client.is_connected:
            # The library would keep the request and send it later, beside those made then.
            return
        if self._doubted and not await self._is_there():
            return
        self._watch()
        missing = count - self.outstanding
        # Half-empty is soon enough: a request a message would double the traffic.
        if missing <= 0 or (self.outstanding and missing * 2 < count):
            return
        self.outstanding += missing
        request = msgspec.json.encode(
            {
                "batch": missing,
                "expires": int(EXPIRES_S * 1e9),
                "idle_heartbeat": int(HEARTBEAT_S * 1e9),
            }
        )
        if not self._heard_at:
            self._heard_at = self._now_s()
        await self._connection.client.publish(
            self._next, request, reply=f"{self._inbox}.{self._generation}"
        )

    async def _is_there(self) -> bool:
        """Ask whether the consumer is there; only its stream's leader can say that it is not."""
        try:
            reply = await self._connection.api(self._info)
        except Denied:
            raise
        except Unreachable as error:
            log.warning("%s: %s; asking again", self._what, error)
            return False
        code = int(reply.get("error", {}).get("err_code", 0))
        if code == NO_CONSUMER:
            self._doubted = False
            self.gone.set()
            return False
        if code:
            problem = api_error(self._stream, code, str(reply["error"].get("description")))
            if not isinstance(problem, Unreachable):
                raise problem
            log.warning("%s; asking again", problem)
            return False
        self._doubted = False
        return True

    def _watch(self) -> None:
        """Ask anew where the broker has been silent for longer than its heartbeats allow.

        Whoever wants messages looks here every second. So a look that comes late tells that this
        loop stood still, and what the broker said meanwhile may lie in the socket, unread.
        """
        now_s = self._now_s()
        if now_s - self._looked_at > HEARTBEAT_S and self._heard_at:
            self._heard_at = now_s
        self._looked_at = now_s
        if self.outstanding and self._heard_at and now_s - self._heard_at > 3 * HEARTBEAT_S:
            log.warning("%s is silent; asking again", self._what)
            self._forget()

    def _deny(self, problem: Denied) -> None:
        self._denied = problem

    def _forget(self) -> None:
        self.outstanding = 0
        self._generation += 1
        self._heard_at = 0.0

    def _arrived(self, subject: str, reply: str, data: bytes, headers: dict[str, str]) -> None:
        """Take a message of the stream, whatever its headers say: theirs are foreign text."""
        self._heard_at = self._now_s()
        if self.outstanding:
            self.outstanding -= 1
        # The broker's own headers are orders when sent again.
        for name in [name for name in headers if name[:1] in "Nn"]:
            if name[:5].lower() == "nats-":
                del headers[name]
        self._take(Delivery(subject, headers, data, reply, _again(reply)))

    async def _told(self, message: Msg) -> None:
        """Hear what the broker says of a request."""
        self._heard_at = self._now_s()
        headers = message.headers or {}
        status = headers.get("Status")
        if int(message.subject.rsplit(".", 1)[1]) != self._generation or status == "100":
            return
        returned = headers.get("Nats-Pending-Messages")
        self.outstanding = max(0, self.outstanding - int(returned)) if returned else 0
        if status in ("404", "408"):
            return
        if status == "503" or "deleted" in headers.get("Description", "").lower():
            # It may be gone, or nobody answers for it while a cluster elects: `want` asks.
            self._forget()
            self._doubted = True
        else:
            log.warning("%s: %s %s", self._what, status, headers.get("Description", ""))


def _again(reply: str) -> bool:
    """Return True for a message that was delivered before, as its reply subject tells.

    A domain and an account's hash stand before the stream, unless a very old server wrote it.
    """
    tokens = reply.split(".")
    return tokens[4 if len(tokens) == 9 else 6] != "1"
