"""The connection to the broker, on a real one: each call ends in a reply or in a clear error."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker.connection import Connection
from fencepost.broker.embedded import EmbeddedBroker
from fencepost.broker.jetstream import connect
from fencepost.errors import Denied, NotFine, Unanswered, Unreachable, UsageError
from fencepost.ports import Message, NotStored, Stored
from fencepost.settings import Broker, Login
from kit.users import users
from kit.wait import until


@asynccontextmanager
async def connected(
    server: EmbeddedBroker, role: str = "test", **login: Any
) -> AsyncIterator[Connection]:
    """Yield a connection that does not wait long for replies."""
    settings = Broker(reply_s=0.5, connect_s=2.0)
    connection = await connect(settings, Login(servers=(server.url,), **login), role)
    try:
        yield connection
    finally:
        await connection.close()


async def make_stream(connection: Connection, **config: Any) -> None:
    plan = {"name": "S", "subjects": ["s.>"], "storage": "file", "allow_atomic": True, **config}
    reply = await connection.api("STREAM.CREATE.S", plan)
    assert "error" not in reply, reply


# --- storing and reading ------------------------------------------------------------------------
async def test_a_store_stands_or_falls_with_its_expectation(broker: EmbeddedBroker) -> None:
    """The right sequence is stored, the wrong one is a conflict, and nothing is changed by it."""
    async with connected(broker) as connection:
        await make_stream(connection)
        assert Stored(1) == await connection.store(Message("s.a", b"1", {"x": "y"}, expect=0))
        refused = await connection.store(Message("s.a", b"2", expect=0))
        assert isinstance(refused, NotStored)
        assert (True, False, False) == (refused.conflict, refused.in_flight, refused.taken)

        last = await connection.last("S", "s.a")
        assert last is not None
        assert ("s.a", 1, b"1", "y") == (
            last.subject,
            last.sequence,
            last.payload,
            last.headers["x"],
        )


async def test_the_first_message_of_a_subject_keeps_it(broker: EmbeddedBroker) -> None:
    """In a stream that keeps the first one, a second is refused as taken, and as nothing else."""
    async with connected(broker) as connection:
        await make_stream(
            connection, max_msgs_per_subject=1, discard="new", discard_new_per_subject=True
        )
        assert isinstance(await connection.store(Message("s.a", b"1")), Stored)
        refused = await connection.store(Message("s.a", b"2"))
        assert isinstance(refused, NotStored)
        assert (False, False, True) == (refused.conflict, refused.in_flight, refused.taken)


async def test_a_full_stream_is_not_a_taken_subject(broker: EmbeddedBroker) -> None:
    """The broker has one number for both; they are told apart."""
    async with connected(broker) as connection:
        await make_stream(connection, max_msgs=1, discard="new")
        await connection.store(Message("s.a", b"1"))
        refused = await connection.store(Message("s.b", b"2"))
        assert isinstance(refused, NotStored)
        assert (False, False, False) == (refused.conflict, refused.in_flight, refused.taken)


def test_a_write_in_flight_is_no_conflict() -> None:
    """10164 asks for patience; it does not say who won."""
    refused = NotStored(10164, "expected last sequence by subject in process")
    assert (False, True, False) == (refused.conflict, refused.in_flight, refused.taken)


async def test_a_batch_is_stored_whole_or_not_at_all(broker: EmbeddedBroker) -> None:
    """In order, with the last one's sequence; one conflict at its end refuses all of it."""
    async with connected(broker) as connection:
        await make_stream(connection)
        sent: list[bool] = []
        batch = [Message("s.a", b"1"), Message("s.b", b"2"), Message("s.c", b"3", expect=0)]
        assert Stored(3) == await connection.store_batch(batch, lambda: sent.append(True))
        assert [True] == sent
        refused = await connection.store_batch([Message("s.a", b"4"), batch[-1]])
        assert isinstance(refused, NotStored)
        assert refused.conflict
        found = [(one.subject, one.payload) async for one in connection.scan("S", "s.>")]
        assert [("s.a", b"1"), ("s.b", b"2"), ("s.c", b"3")] == found


async def test_a_burst_tells_each_message_its_own_fate(broker: EmbeddedBroker) -> None:
    """All are in flight at once; the refused ones do not touch the others."""
    async with connected(broker) as connection:
        await make_stream(connection)
        await connection.store(Message("s.b", b"0"))
        burst = [
            Message("s.a", b"1", expect=0),
            Message("s.b", b"2", expect=0),
            Message("s.c", b"3"),
        ]
        first, second, third = await connection.store_burst(burst)
        assert (Stored(2), Stored(3)) == (first, third)
        assert isinstance(second, NotStored)
        assert second.conflict


async def test_reading_by_filter(broker: EmbeddedBroker) -> None:
    """The newest message of a filter, all from a sequence on, and the subjects there are."""
    async with connected(broker) as connection:
        await make_stream(connection)
        for number in range(6):
            await connection.store(Message(f"s.{number % 3}.x", str(number).encode()))
        last = await connection.last("S", "s.*.x")
        assert last is not None
        assert b"5" == last.payload
        assert None is await connection.last("S", "s.9.x")
        found = [one.payload async for one in connection.scan("S", "s.1.*", 3)]
        assert [b"4"] == found
        assert ["s.0.x", "s.1.x", "s.2.x"] == await connection.subjects("S", "s.>")
        assert [] == await connection.subjects("S", "s.9.>")


async def test_a_stream_that_is_not_there(broker: EmbeddedBroker) -> None:
    """The error says what to do about it."""
    async with connected(broker) as connection:
        with pytest.raises(NotFine, match="the broker has no stream S: run `fencepost init`"):
            await connection.last("S", "s.a")
        with pytest.raises(NotFine, match="no stream S"):
            await connection.subjects("S", "s.>")
        with pytest.raises(Unreachable, match=r"nobody answers on s\.a: is JetStream on"):
            await connection.store(Message("s.a", b"1"))


async def test_a_message_that_is_too_large(broker: EmbeddedBroker) -> None:
    """It is found out here: sent, it would close the connection for good."""
    async with connected(broker) as connection:
        await make_stream(connection)
        with pytest.raises(NotFine, match="over the broker's max_payload of 1048576"):
            await connection.store(Message("s.a", b"x" * 1_048_577))
        with pytest.raises(NotFine, match="over the broker's max_payload"):
            await connection.store_batch([Message("s.a", b"x" * 1_048_577), Message("s.b", b"")])
        assert isinstance(await connection.store(Message("s.a", b"1")), Stored)


# --- trouble ------------------------------------------------------------------------------------
async def test_no_reply_in_time_is_unanswered(broker: EmbeddedBroker) -> None:
    """A frozen broker: the outcome is unknown, and that is said; afterwards all goes on."""
    async with connected(broker) as connection:
        await make_stream(connection)
        assert broker.process is not None
        broker.process.send_signal(signal.SIGSTOP)
        try:
            with pytest.raises(Unanswered, match=r"did not answer within 0\.5 s on s\.a"):
                await connection.store(Message("s.a", b"1"))
            burst = [Message("s.b", b"1"), Message("s.c", b"1")]
            assert [None, None] == await connection.store_burst(burst)
        finally:
            broker.process.send_signal(signal.SIGCONT)

        async def stored() -> bool:
            return await connection.subjects("S", "s.>") == ["s.a", "s.b", "s.c"]

        await until(stored, "what was sent meanwhile")


async def test_it_comes_back_after_a_restart(broker: EmbeddedBroker) -> None:
    """The same connection goes on, and whoever has to know of it is told."""
    async with connected(broker) as connection:
        await make_stream(connection)
        back = asyncio.Event()
        connection.on_reconnect(back.set)
        await broker.kill()
        await broker.start()
        async with asyncio.timeout(20):
            await back.wait()
        assert isinstance(await connection.store(Message("s.a", b"1")), Stored)


DENYING = {"publish": {"deny": ["s.no.>"]}}


async def test_a_denied_publish_is_the_error_of_its_call(tmp_path: Path) -> None:
    """Not a timeout: it names the login and the subject, whatever the way it was sent."""
    async with (
        EmbeddedBroker(tmp_path / "broker", extra=users(**DENYING)) as server,
        connected(server, "bridge", user="role", password="pw") as connection,
    ):
        await make_stream(connection)
        expected = r"does not let the bridge login publish to s\.no\.Way: grant it"
        with pytest.raises(Denied, match=expected):
            await connection.store(Message("s.no.Way", b"1"))
        with pytest.raises(Denied, match=expected):
            await connection.ask("s.no.Way")
        with pytest.raises(Denied, match=expected):
            await connection.store_burst([Message("s.a", b"1"), Message("s.no.Way", b"2")])
        assert isinstance(await connection.store(Message("s.a", b"1")), Stored)


async def test_a_denied_subject_in_the_middle_of_a_batch(tmp_path: Path) -> None:
    """The reply is awaited on the last subject, but the error is of any subject of the batch."""
    async with (
        EmbeddedBroker(tmp_path / "broker", extra=users(**DENYING)) as server,
        connected(server, "bridge", user="role", password="pw") as connection,
    ):
        await make_stream(connection)
        batch = [Message("s.a", b"1"), Message("s.no.way", b"2"), Message("s.c", b"3")]
        with pytest.raises(Denied, match=r"publish to s\.no\.way"):
            await connection.store_batch(batch)
        assert [] == await connection.subjects("S", "s.>")


async def test_a_denied_inbox_is_told_at_once(tmp_path: Path) -> None:
    """Without an inbox no reply would ever come; that is known before the first question."""
    extra = users(subscribe={"allow": ["something.else"]})
    async with EmbeddedBroker(tmp_path / "broker", extra=extra) as server:
        with pytest.raises(Denied, match="does not let the desk login subscribe to _inbox_desk"):
            async with connected(server, "desk", user="role", password="pw"):
                pass


# The library leaves the sockets of its failed reconnects to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_login_that_is_taken_away_and_given_back(tmp_path: Path) -> None:
    """The broker throws the connection out; it goes on as soon as the login counts again."""
    async with (
        EmbeddedBroker(tmp_path / "broker", extra=users()) as server,
        connected(server, "bridge", user="role", password="pw") as connection,
    ):
        await make_stream(connection)
        config = tmp_path / "broker" / "nats.conf"
        text = config.read_text("utf-8")
        assert server.process is not None
        config.write_text(text.replace('"role"', '"gone"'), "utf-8")
        server.process.send_signal(signal.SIGHUP)
        await until(lambda: not connection.client.is_connected, "the end of the connection")
        with pytest.raises(Unanswered):
            await connection.store(Message("s.a", b"1"))
        config.write_text(text, "utf-8")
        server.process.send_signal(signal.SIGHUP)
        await until(lambda: connection.client.is_connected, "the reconnect")
        assert isinstance(await connection.store(Message("s.b", b"1")), Stored)


# --- connecting ---------------------------------------------------------------------------------
async def test_wrong_credentials(tmp_path: Path) -> None:
    """The login is named; the password is not."""
    async with EmbeddedBroker(tmp_path / "broker", extra=users()) as server:
        with pytest.raises(Denied) as denied:
            async with connected(server, "worker", user="role", password="s3cret"):
                pass
    assert "refuses the worker login" in str(denied.value)
    assert "[broker.roles.worker]" in str(denied.value)
    assert "s3cret" not in str(denied.value)


async def test_a_password_in_the_server_s_url_is_not_shown(tmp_path: Path) -> None:
    """It may stand there, and then it must not come out in an error."""
    async with EmbeddedBroker(tmp_path / "broker", extra=users()) as server:
        url = server.url.replace("nats://", "nats://role:s3cret@")
        with pytest.raises(Denied) as denied:
            await connect(Broker(connect_s=2.0), Login(servers=(url,)), "worker")
    with pytest.raises(Unreachable) as unreachable:
        await connect(Broker(connect_s=0.5), Login(servers=(url,)), "worker")
    for error in (denied.value, unreachable.value):
        assert "s3cret" not in str(error)
        assert f"127.0.0.1:{server.port}" in str(error)


@pytest.mark.parametrize("url", ["nats://", "http://127.0.0.1:1", "nats://127.0.0.1:99999", ":::"])
async def test_a_server_s_url_that_is_none(url: str) -> None:
    """It ends in one of our own errors."""
    with pytest.raises((Unreachable, UsageError)):
        await connect(Broker(connect_s=0.5), Login(servers=(url,)), "desk")


async def test_files_that_are_not_there(broker: EmbeddedBroker) -> None:
    """Credentials and certificates that cannot be read are a matter of the configuration."""
    with pytest.raises(UsageError, match=r"no file /nowhere\.creds"):
        async with connected(broker, credentials="/nowhere.creds"):
            pass
    with pytest.raises(UsageError, match="TLS files cannot be used"):
        async with connected(broker, tls_ca="/nowhere.pem"):
            pass


async def test_no_login_is_sent_in_the_clear() -> None:
    """TLS was asked for and the server speaks none: the library alone would send the password."""
    heard = bytearray()

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        info = {"server_id": "x", "version": "2.15.0", "max_payload": 1_048_576, "headers": True}
        writer.write(b"INFO " + json.dumps(info).encode() + b"\r\n")
        while line := await reader.readline():
            heard.extend(line)
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        login = Login(servers=(f"tls://127.0.0.1:{port}",), user="ada", password="s3cret")
        with pytest.raises(Unreachable, match=r"no TLS connection .*speaks no TLS"):
            await connect(Broker(connect_s=2.0), login, "desk")
    assert b"" == heard


async def test_an_old_server_is_refused() -> None:
    """A server from before atomic batches: its version is told, and the one that is needed."""

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        info = {"server_id": "x", "version": "2.10.4", "max_payload": 1_048_576, "headers": True}
        writer.write(b"INFO " + json.dumps(info).encode() + b"\r\n")
        while line := await reader.readline():
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        login = Login(servers=(f"nats://127.0.0.1:{port}",))
        expected = r"is nats-server 2\.10: fencepost needs 2\.14 or newer"
        with pytest.raises(Unreachable, match=expected):
            await connect(Broker(connect_s=2.0), login, "desk")


async def test_that_the_broker_is_still_away_is_not_said_at_every_try(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Four tries a second would bury whatever else there is to read; the next absence is told."""
    caplog.set_level("INFO", "fencepost.broker")
    settings, login = Broker(connect_s=2.0), Login(servers=(broker.url,))
    connection = await connect(settings, login, "worker")
    try:
        for _ in range(2):
            caplog.clear()
            await broker.kill()
            await until(lambda: not connection.client.is_connected, "the connection to be lost")
            for _ in range(20):
                await connection.failed(OSError("nobody there"))
            told = [line for line in caplog.messages if "connection lost" not in line]
            # The library's word for the loss itself, and one for all tries since.
            assert 1 <= len(told) <= 2, told
            await broker.start()
            await until(lambda: "broker: connected again" in caplog.messages, "the broker")
    finally:
        await connection.close()
