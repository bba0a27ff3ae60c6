"""What is done differently from the client library has to come to the same."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats.aio.client import Client
from nats.aio.msg import Msg

from fencepost.broker.client import QuickClient, frame
from fencepost.broker.embedded import EmbeddedBroker
from kit.wait import until

PARTS = [b"Name", b":", b" ", b"\t", b"\r\n", b"\n", b"\x0b", b"\x1c", b"\xc3\xa9", b"\xff", b"x"]
TEXTS = ["ce-key", "Nats-TTL", "", " ", "a b", "\r\n", "\n", "\r", "é", ":", "\t", "5", "\x85"]
HEADERS = b"NATS/1.0\r\nce-key: k\r\n\r\n"
SUBJECTS = ["fp.events.a", "s.b", "a b", "", "a\r\nPUB", "é"]


# --- read ---------------------------------------------------------------------------------------
@given(st.lists(st.sampled_from(PARTS), max_size=20).map(b"".join))
def test_headers_are_read_as_the_library_reads_them(raw: bytes) -> None:
    """Names with white space in them are dropped, values are trimmed, nothing raises."""
    assert Client._parse_header_lines(raw) == QuickClient._parse_header_lines(raw)


# --- written ------------------------------------------------------------------------------------
class Noted(QuickClient):
    """A client that is connected to nobody, and notes what it would send."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self._max_payload = 100

    is_connected = True
    is_closed = False
    is_draining_pubs = False

    async def _send_command(self, command: bytes, priority: bool = False) -> None:
        self.sent.append(command)

    _flush_queue: Any = None


async def sent(client: Noted, way: Any, *message: Any) -> bytes | type[Exception]:
    """Return what is sent that way, or what it raises."""
    client.sent.clear()
    try:
        await way(*message)
    except Exception as error:  # which one is what is compared
        return type(error)
    # Without a reply the library leaves two spaces, and it trims what whoever reads trims anyway.
    return b"".join(client.sent).replace(b"  ", b" ")


@given(
    st.sampled_from(SUBJECTS),
    st.sampled_from(["", "_INBOX.x", "a b"]),
    st.dictionaries(st.sampled_from(["ce-key", "Nats-TTL", "a b", "é", "", "x:"]),
                    st.sampled_from([text for text in TEXTS if text.strip() == text]), max_size=4),
    st.sampled_from([b"", b"payload", b"x" * 101]),
)  # fmt: skip
async def test_a_message_is_written_as_the_library_writes_it(
    subject: str, reply: str, headers: dict[str, str], payload: bytes
) -> None:
    """To the byte, errors included: what could break the protocol is left to the library."""
    client = Noted()
    ours = await sent(client, client.send, subject, payload, reply, headers)
    theirs = await sent(client, client.publish, subject, payload, reply, headers or None)
    assert theirs == ours


@given(
    st.lists(
        st.tuples(
            st.sampled_from(SUBJECTS[:3]),
            st.sampled_from([b"", b"payload", b"x" * 101]),
            st.sampled_from(["", "_INBOX.x"]),
            st.sampled_from([None, {}, {"ce-key": "k"}, {"é": "k"}, {"ce-key": "é"}]),
            st.sampled_from(["", "Nats-TTL: 5\r\n", "Nats-TTL: 5\r\nNats-Batch-Id: b\r\n"]),
        ),
        max_size=5,
    )
)
async def test_many_messages_are_written_as_each_by_itself(messages: list[Any]) -> None:
    """To the byte, and up to the same error: one odd message among them spoils nothing."""
    client = Noted()

    async def one_by_one() -> None:
        for subject, payload, reply, headers, own in messages:
            lines = [line.split(": ") for line in own.splitlines()]
            await client.send(subject, payload, reply, {**(headers or {}), **dict(lines)})

    theirs = await sent(client, one_by_one)
    went_before = b"".join(client.sent)
    ours = await sent(client, client.send_all, messages)
    assert theirs == ours
    assert went_before == b"".join(client.sent)


@pytest.mark.parametrize("bad", ["a\r\nPUB x 0\r\n", "a\n", "\r"])
def test_a_value_that_would_end_its_line_is_not_written(bad: str) -> None:
    """Foreign text is data: the library makes spaces of such characters."""
    assert frame("s", "", {"ce-key": bad}, b"") is None


@pytest.mark.parametrize("bad", ["a b", "a\r\nPUB", "", "a\x00"])
def test_a_subject_that_is_none_is_not_written(bad: str) -> None:
    assert frame(bad, "", None, b"") is None
    assert frame("s", bad, None, b"") is None or not bad


# --- pulled -------------------------------------------------------------------------------------
async def test_what_a_consumer_brings_is_taken_at_once_and_the_rest_is_control(
    broker: EmbeddedBroker,
) -> None:
    """By its reply, with and without headers; what has another is for whoever minds the request."""
    taken: list[tuple[str, bytes, dict[str, str]]] = []
    told: list[bytes] = []

    def take(subject: str, reply: str, data: bytes, headers: dict[str, str]) -> None:
        taken.append((reply, data, headers))

    async def control(message: Msg) -> None:
        told.append(message.data)

    async with _client(broker) as client:
        number = (await client.pull("in.*", take, control))._id
        # The broker lets nobody publish with such a reply, so they are heard as if it had.
        await client._process_msg(number, b"in.1", b"$JS.ACK.x", b"one", HEADERS)
        await client._process_msg(number, b"in.1", b"$JS.ACK.y", b"two", b"")
        await client.publish("in.1", b"status", "elsewhere")
        await until(lambda: bool(told), "what is said of the request")
    assert [("$JS.ACK.x", b"one", {"ce-key": "k"}), ("$JS.ACK.y", b"two", {})] == taken
    assert [b"status"] == told


async def test_a_taker_that_raises_leaves_the_connection_its_ears(broker: EmbeddedBroker) -> None:
    """The error is told, and the next message is taken."""
    taken: list[bytes] = []
    errors: list[Exception] = []

    def take(subject: str, reply: str, data: bytes, headers: dict[str, str]) -> None:
        taken.append(data)
        if len(taken) == 1:
            raise ValueError("a fault of this program")

    async def control(message: Msg) -> None: ...

    async with _client(broker, errors) as client:
        number = (await client.pull("in.*", take, control))._id
        for payload in (b"one", b"two"):
            await client._process_msg(number, b"in.1", b"$JS.ACK.x", payload, b"")
    assert [b"one", b"two"] == taken
    assert [ValueError] == [type(error) for error in errors]


class _client:
    """A client for the length of a test."""

    def __init__(self, broker: EmbeddedBroker, errors: list[Exception] | None = None) -> None:
        self._broker = broker
        self._errors = errors if errors is not None else []
        self._client = QuickClient()

    async def __aenter__(self) -> QuickClient:
        async def failed(error: Exception) -> None:
            self._errors.append(error)

        await self._client.connect(self._broker.url, error_cb=failed)
        return self._client

    async def __aexit__(self, *_: object) -> None:
        await asyncio.wait_for(self._client.close(), 5)
