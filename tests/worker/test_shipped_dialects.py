"""What the dialects from documents conclude, on frames as those documents have them.

No server was asked: these tests hold the dialects to the documents, and the documents may be wrong.
"""

from collections.abc import Sequence
from typing import Any

import pytest

from fencepost.registry import described_dialects, shipped
from fencepost_policies.dialects.described import Dialect
from fencepost_schemas.reason import Reason
from fencepost_schemas.standing import Standing
from kit.resume import Answer, Serve, followed, resumed_with

RESUMED, REORIGINATED, UNVERIFIABLE = (
    Standing.RESUMED,
    Standing.REORIGINATED,
    Standing.UNVERIFIABLE,
)
NEWS = described_dialects(
    {
        "news": {
            "like": "centrifugo",
            "generation_control": "/connect/subs/news/epoch",
            "recovered_control": "/connect/subs/news/recovered",
        }
    }
)["news"]


# --- Mercure: the hub says which event it goes on from
def updates(*numbers: int) -> bytes:
    return b"".join(f"id: urn:uuid:{n:08d}\ndata: update {n}\n\n".encode() for n in numbers)


def hub(echo: str | None, *numbers: int) -> Serve:
    """Answer with this echo (None: that of the position), and these updates behind it."""

    def serve(asked: str) -> Answer:
        if not asked:
            return Answer(updates(*numbers))
        first = int(asked.rsplit(":", 1)[1]) + 1
        behind = [number for number in numbers if number >= first] if echo is None else numbers
        headers = {"mercure-last-event-id": asked if echo is None else echo}
        return Answer(updates(*behind), headers=headers)

    return serve


@pytest.mark.parametrize(
    ("serve", "expected", "reason"),
    [
        (hub(None, 1, 2, 3, 4), RESUMED, Reason.RESUME_POINT_EQUAL),
        (hub("earliest", 7, 8), REORIGINATED, Reason.RESUME_POINT_OTHER),
        (hub("earliest"), REORIGINATED, Reason.RESUME_POINT_OTHER),
        (hub("urn:uuid:00000009", 10), REORIGINATED, Reason.RESUME_POINT_OTHER),
    ],
    ids=["known", "unknown", "unknown, and nothing replayed", "a newer one"],
)
def test_mercure(serve: Serve, expected: Standing, reason: Reason) -> None:
    """Only the very position that was asked for is taken, and the overlap says whose it is."""
    dialect = shipped()["mercure"]
    verdict = resumed_with(dialect, followed(dialect, Answer(updates(1, 2, 3))), serve)
    assert expected is verdict.kind
    assert reason in verdict.reasons


# --- EventStreams: a list of partitions
def changes(*offsets: tuple[int, int]) -> bytes:
    texts = []
    for one, other in offsets:
        place = (
            f'[{{"topic":"eqiad","partition":0,"offset":{one}}},'
            f'{{"topic":"codfw","partition":0,"offset":{other}}}]'
        )
        meta = f'{{"stream":"edits","id":"{one}-{other}"}}'
        texts.append(f'event: message\nid: {place}\ndata: {{"meta":{meta}}}\n\n')
    return "".join(texts).encode()


@pytest.mark.parametrize(
    ("again", "expected"),
    [
        (((2, 1), (2, 2), (3, 2)), RESUMED),
        (((3, 2), (4, 2)), REORIGINATED),
        (((1, 2), (2, 2)), REORIGINATED),
        ((), UNVERIFIABLE),
    ],
    ids=["all of it", "only what is new", "a partition went back", "silence"],
)
def test_eventstreams(again: Sequence[tuple[int, int]], expected: Standing) -> None:
    """What we had comes back in its order, or it is another stream."""
    dialect = shipped()["eventstreams"]
    cursor = followed(dialect, Answer(changes((1, 1), (2, 1), (2, 2))))
    verdict = resumed_with(dialect, cursor, lambda asked: Answer(changes(*again)))
    assert expected is verdict.kind


# --- Centrifugo: an epoch, and a word on whether it recovered
def pushes(epoch: str, recovered: bool | None, *offsets: int) -> bytes:
    word = "" if recovered is None else f',"recovered":{str(recovered).lower()}'
    news = f'{{"epoch":"{epoch}","offset":9{word}}}'
    connect = f'data: {{"connect":{{"client":"x","subs":{{"news":{news}}}}}}}\n\n'
    texts = [f'data: {{"channel":"news","pub":{{"data":{n},"offset":{n}}}}}\n\n' for n in offsets]
    return "".join([connect, "data: {}\n\n", *texts]).encode()


@pytest.mark.parametrize(
    ("body", "expected", "reason"),
    [
        (pushes("e1", True, 4), RESUMED, Reason.RESUME_SAID),
        (pushes("e1", True, 5), REORIGINATED, Reason.DENSE_HOLE),
        (pushes("e1", False, 9), REORIGINATED, Reason.RESUME_DENIED),
        (pushes("e2", True, 4), REORIGINATED, Reason.GENERATION_CHANGED),
        (pushes("e1", None, 9), REORIGINATED, Reason.DENSE_HOLE),
    ],
    ids=["recovered", "recovered, with a hole", "not recovered", "another epoch", "no word"],
)
def test_centrifugo(body: bytes, expected: Standing, reason: Reason) -> None:
    """The model of a server that says what it does: no overlap is needed."""
    cursor = followed(NEWS, Answer(pushes("e1", None, 1, 2, 3)))
    assert ("3", 3, "e1") == (str(cursor.position), cursor.published, cursor.token)
    verdict = resumed_with(NEWS, cursor, lambda asked: Answer(body))
    assert expected is verdict.kind
    assert reason in verdict.reasons


# --- Kubernetes: opaque versions, bookmarks, and 410 in the stream
def objects(*versions: int, type: str = "MODIFIED") -> bytes:
    texts = [f'{{"metadata":{{"resourceVersion":"{version}"}}}}' for version in versions]
    return "".join(f'data: {{"type":"{type}","object":{text}}}\n\n' for text in texts).encode()


GONE = b'data: {"type":"ERROR","object":{"kind":"Status","code":410}}\n\n'


@pytest.mark.parametrize(
    ("serve", "expected"),
    [
        (lambda asked: Answer(objects(*range(int(asked) + 1, 6))), RESUMED),
        (lambda asked: Answer(status=410) if asked else Answer(objects(9)), REORIGINATED),
        (lambda asked: Answer(GONE), REORIGINATED),
        (lambda asked: Answer(objects(7, type="BOOKMARK")), UNVERIFIABLE),
    ],
    ids=["held", "compacted", "compacted, said in the stream", "bookmarks alone"],
)
def test_kubernetes(serve: Serve, expected: Standing) -> None:
    """A bookmark is no event, and proves nothing."""
    dialect = shipped()["kubernetes"]
    cursor = followed(dialect, Answer(objects(1, 2, 3, 4)))
    assert expected is resumed_with(dialect, cursor, serve).kind


# --- MCP over HTTP with SSE: messages
def test_mcp_http_sse() -> None:
    """Notifications are events; answers, requests of the server and the endpoint are none."""
    dialect = shipped()["mcp_http_sse"]
    texts = (
        "event: endpoint\ndata: /messages?session_id=x\n\n",
        'event: message\ndata: {"jsonrpc":"2.0","id":1,"result":{}}\n\n',
        'event: message\ndata: {"jsonrpc":"2.0","id":1,"method":"ping"}\n\n',
        'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/message"}\n\n',
    )
    cursor = followed(dialect, Answer("".join(texts).encode()))
    assert 1 == cursor.published
    assert () == dialect.asks(cursor)


@pytest.mark.parametrize("name", shipped())
def test_each_is_asked_as_it_says(name: str) -> None:
    """The words of the documents, in the places of the documents."""
    expected: dict[str, tuple[str, str]] = {
        "mercure": ("", "5"),
        "eventstreams": ("", "5"),
        "centrifugo": (
            "cf_connect=%7B%22subs%22%3A%7B%22CHANNEL%22%3A%7B%22recover%22%3Atrue%2C"
            "%22offset%22%3A5%2C%22epoch%22%3A%22e1%22%7D%7D%7D",
            "",
        ),
        "kubernetes": ("resourceVersion=5", ""),
        "mcp_http_sse": ("", "5"),
    }
    asked = _ask(shipped()[name], "5")
    assert expected[name] == (asked.url.partition("?")[2], asked.last_event_id)


def _ask(dialect: Dialect, position: str) -> Any:
    return dialect.ask.request("https://x.example/e", {}, position, "e1")
