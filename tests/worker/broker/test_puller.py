"""The continuous pull on a real broker: what is outstanding is counted right, come what may."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from nats.aio.msg import Msg

from fencepost.broker.connection import Connection
from fencepost.broker.embedded import EmbeddedBroker
from fencepost.broker.jetstream import connect
from fencepost.broker.puller import Puller
from fencepost.broker.topology import ensure_consumer
from fencepost.errors import Denied, NotFine, Unanswered, Unreachable
from fencepost.ports import ConsumerPlan, Delivery, Message
from fencepost.settings import Broker, Login
from kit.users import users
from kit.wait import until

SETTINGS = Broker(reply_s=1.0, connect_s=2.0)


@pytest.fixture(autouse=True)
def _short_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.broker.puller.EXPIRES_S", 0.4)
    monkeypatch.setattr("fencepost.broker.puller.HEARTBEAT_S", 0.1)


class Scene:
    """A stream, a consumer, a puller, and what came."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.came: list[str] = []
        self.puller = Puller(connection, "S", "c", self._take)

    def _take(self, message: Delivery) -> None:
        self.came.append(message.payload.decode())

    async def put(self, *texts: str) -> None:
        for text in texts:
            await self.connection.store(Message("s.a", text.encode()))

    async def waiting(self) -> int:
        """Return how many requests the broker holds."""
        info = await self.connection.api("CONSUMER.INFO.S.c")
        return int(info["num_waiting"])


@asynccontextmanager
async def scene(server: EmbeddedBroker, **login: Any) -> AsyncIterator[Scene]:
    connection = await connect(SETTINGS, Login(servers=(server.url,), **login), "worker")
    try:
        await connection.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
        plan = ConsumerPlan("S", "c", ("s.>",), 30.0, 1000)
        await ensure_consumer(connection, plan)
        made = Scene(connection)
        await made.puller.open()
        yield made
        await made.puller.close()
    finally:
        await connection.close()


async def test_each_message_counts_once(broker: EmbeddedBroker) -> None:
    """What came is no longer outstanding; asking again tops up, and not before half is used."""
    async with scene(broker) as here:
        await here.puller.want(4)
        assert 4 == here.puller.outstanding
        await here.put("a")
        await until(lambda: here.came == ["a"], "one message")
        assert 3 == here.puller.outstanding
        await here.puller.want(4)
        assert 3 == here.puller.outstanding
        await here.put("b", "c")
        await until(lambda: len(here.came) == 3, "three messages")
        await here.puller.want(4)
        assert 4 == here.puller.outstanding


async def test_an_expired_request_is_given_back(broker: EmbeddedBroker) -> None:
    """The broker says how many it did not deliver; two requests are counted apart."""
    async with scene(broker) as here:
        await here.puller.want(2)
        await here.put("a")
        await until(lambda: here.came == ["a"], "one message")
        await here.puller.want(3)
        assert 3 == here.puller.outstanding
        await until(lambda: here.puller.outstanding == 0, "the end of both requests")
        await here.puller.want(2)
        await here.put("b", "c")
        await until(lambda: here.came == ["a", "b", "c"], "the others")


async def test_a_reconnect_forgets_what_was_asked(broker: EmbeddedBroker) -> None:
    """Requests die with the connection; those made anew bring everything."""
    async with scene(broker) as here:
        await here.puller.want(2)
        await broker.kill()
        await broker.start()
        await until(lambda: here.puller.outstanding == 0, "the reconnect")
        await here.puller.want(2)
        await here.put("a", "b")
        await until(lambda: here.came == ["a", "b"], "both messages")
        assert 0 == here.puller.outstanding


async def test_nothing_is_asked_while_the_broker_is_away(broker: EmbeddedBroker) -> None:
    """Requests would pile up in the client's buffer and all be answered at once afterwards."""
    async with scene(broker) as here:
        await here.puller.want(1)
        await broker.kill()
        await until(lambda: not here.connection.client.is_connected, "the break")
        for _ in range(3):
            # Longer than the silence after which the puller asks anew.
            await asyncio.sleep(0.35)
            await here.puller.want(1)
        await broker.start()
        await until(lambda: here.connection.client.is_connected, "the reconnect")
        await until(lambda: here.puller.outstanding == 0, "a clean slate")
        await here.puller.want(1)
        await here.put("a", "b", "c", "d")
        await until(lambda: here.came != [], "the first message")
        for _ in range(2):  # the first one may overtake what it is to wait for
            await here.connection.client.flush()
        assert ["a"] == here.came


async def test_a_broker_is_not_silent_because_nobody_listened(broker: EmbeddedBroker) -> None:
    """The loop stood still, and the heartbeats lie in the socket: no second request is made."""
    async with scene(broker) as here:
        await here.puller.want(2)
        time.sleep(0.5)  # noqa: ASYNC251 - a loop that stands still is what is tested
        await here.puller.want(1)
        assert 2 == here.puller.outstanding


async def test_a_silent_broker_is_asked_anew(broker: EmbeddedBroker) -> None:
    """No heartbeat for three times its interval: the request is given up, and made again."""
    async with scene(broker) as here:
        await here.puller.want(2)
        assert broker.process is not None
        broker.process.send_signal(signal.SIGSTOP)

        async def asked_anew() -> bool:
            await here.puller.want(1)
            return here.puller.outstanding == 1

        await until(asked_anew, "the silence to be noticed")
        broker.process.send_signal(signal.SIGCONT)
        await here.put("a")
        await until(lambda: here.came == ["a"], "the message")


async def test_a_consumer_that_is_deleted(broker: EmbeddedBroker) -> None:
    """With a request open the broker says so; without one, nobody answers the next."""
    async with scene(broker) as here:
        await here.puller.want(2)
        await until(lambda: _waits(here), "the request at the broker")
        await here.connection.api("CONSUMER.DELETE.S.c")
        await until(lambda: _is_gone(here), "the news")
        assert 0 == here.puller.outstanding


async def test_a_consumer_that_was_never_there(broker: EmbeddedBroker) -> None:
    """The first request has no answer but "nobody here", and that is enough."""
    async with scene(broker) as here:
        await here.connection.api("CONSUMER.DELETE.S.c")
        await until(lambda: _is_gone(here), "the news")


@pytest.mark.parametrize("said", [{"Status": "503"}, {"Status": "409", "Description": "deleted"}])
async def test_a_consumer_that_only_seems_to_be_gone(
    broker: EmbeddedBroker, said: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody answers for it while a cluster elects, and the question what it is goes unanswered."""
    async with scene(broker) as here:
        await here.puller.want(2)
        await here.puller._told(_word(here, said))
        unanswered = [Unanswered("nobody yet"), Unreachable("no leader")]
        api = here.connection.api

        async def elects(name: str, request: Any = None) -> dict[str, Any]:
            if unanswered:
                raise unanswered.pop()
            return await api(name, request)

        monkeypatch.setattr(here.connection, "api", elects)
        for _ in range(2):
            await here.puller.want(2)
            assert 0 == here.puller.outstanding
        await here.puller.want(2)
        assert 2 == here.puller.outstanding and not here.puller.gone.is_set()
        await here.put("a")
        await until(lambda: here.came == ["a"], "the message")


async def test_a_stream_that_is_gone(broker: EmbeddedBroker) -> None:
    """Nobody but `fencepost init` makes it again."""
    async with scene(broker) as here:
        await here.puller.want(2)
        await until(lambda: _waits(here), "the request at the broker")
        await here.connection.api("STREAM.DELETE.S")

        async def told() -> bool:
            try:
                await here.puller.want(2)
            except NotFine as error:
                return "run `fencepost init`" in str(error)
            return False

        await until(told, "the news")


def _word(here: Scene, headers: dict[str, str]) -> Msg:
    subject = f"{here.puller._inbox}.{here.puller._generation}"
    return Msg(here.connection.client, subject, headers=headers)


async def _is_gone(here: Scene) -> bool:
    await here.puller.want(2)
    return here.puller.gone.is_set()


async def _waits(here: Scene) -> bool:
    return await here.waiting() == 1


async def test_a_login_that_may_not_ask(tmp_path: Path) -> None:
    """There is no call that waits, so the next one raises what the broker said."""
    extra = users(publish={"deny": ["$JS.API.CONSUMER.MSG.NEXT.>"]})
    async with (
        EmbeddedBroker(tmp_path / "broker", extra=extra) as server,
        scene(server, user="role", password="pw") as here,
    ):
        await here.puller.want(1)
        for _ in range(2):  # the first one may overtake what it is to wait for
            await here.connection.client.flush()
        expected = r"does not let the worker login publish to \$JS\.API\.CONSUMER\.MSG\.NEXT"
        with pytest.raises(Denied, match=expected):
            await here.puller.want(1)
