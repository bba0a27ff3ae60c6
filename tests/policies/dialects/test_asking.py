"""Proves that a position goes where the dialect wants it, and cannot become anything else there."""

import json
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost_policies.dialects.asking import Asked, Asking

URL = "http://127.0.0.1:8000/events?topic=a&token=secret#part"
OWN = {"authorization": "Bearer secret"}
QUERY = Asking(where="query", name="since")
NESTED = Asking(
    where="query",
    name="connect",
    json={"subs": {"news": {"offset": "$position:number", "epoch": "$generation"}}},
    json_anew={"subs": {"news": {}}},
)
BODY = Asking(where="body", json={"from": ["$position", 1, None]})
POSITIONS = st.text(st.characters(codec="utf-8"), min_size=1)


def ask(asking: Asking, position: str, generation: str = "", url: str = URL) -> Asked:
    return asking.request(url, OWN, position, generation)


def test_the_header_that_everybody_reads() -> None:
    """Unless something else is said; url and headers stay as they are."""
    assert Asked("GET", URL, OWN, "5") == ask(Asking(), "5")
    assert Asked("GET", URL, OWN) == ask(Asking(), "")


def test_a_header_of_another_name() -> None:
    """It joins those of the configuration."""
    asked = ask(Asking(name="X-Cursor", template="v1:$position"), "5")
    assert Asked("GET", URL, {**OWN, "X-Cursor": "v1:5"}) == asked


def test_a_query_parameter_takes_the_place_of_one_that_is_there() -> None:
    """What is configured under its name was for the beginning."""
    url = "http://127.0.0.1/e?since=now&live=sse&s%69nce=x#part"
    assert "http://127.0.0.1/e?live=sse&since=a%26b%3D%2F" == ask(
        QUERY, "a&b=/", url=url
    ).url.removesuffix("#part")
    assert url == ask(QUERY, "", url=url).url


def test_a_piece_of_the_path() -> None:
    """The query stays behind it."""
    asking = Asking(where="path", template="since/$position")
    assert (
        "http://127.0.0.1/e/since/..%2Fa?live=1"
        == ask(asking, "../a", url="http://127.0.0.1/e/?live=1").url
    )
    assert URL == ask(asking, "").url


def test_json_in_the_query() -> None:
    """A number stays a number, and what has no position is asked for in its own way."""
    said = dict(parse_qsl(urlsplit(ask(NESTED, "7", "e1").url).query))
    assert {"subs": {"news": {"offset": 7, "epoch": "e1"}}} == json.loads(said["connect"])
    anew = dict(parse_qsl(urlsplit(ask(NESTED, "").url).query))
    assert {"subs": {"news": {}}} == json.loads(anew["connect"])


def test_json_in_the_body_of_a_post() -> None:
    """Without a position and without words for that, the body is empty JSON."""
    asked = ask(BODY, "7")
    assert ("POST", URL, b'{"from":["7",1,null]}') == (asked.method, asked.url, asked.body)
    assert "application/json" == asked.headers["Content-Type"]
    assert b"{}" == ask(BODY, "").body


@pytest.mark.parametrize("number", ["007", "-1", "1e9", "", "1.5", "9" * 41, "٣", "NaN"])
def test_what_is_no_number_stays_text(number: str) -> None:
    """A source that sends other text than digits does not break the JSON."""
    body = Asking(where="body", json={"n": "$position:number"}).request(URL, {}, number or "x").body
    assert {"n": number or "x"} == json.loads(body)


@pytest.mark.parametrize(
    ("start", "expected"), [("now", "$"), ("earliest", "0"), ("17-3", ""), ("", "")]
)
def test_the_server_s_words_for_a_beginning(start: str, expected: str) -> None:
    """An id needs no word: it is sent as a position."""
    assert expected == Asking(now="$", earliest="0").start(start)
    assert "" == Asking().start(start)


@given(position=POSITIONS, generation=POSITIONS)
def test_no_position_leaves_its_place(position: str, generation: str) -> None:
    """Whatever a source has sent as an id comes back as that id, and as nothing beside it."""
    asked = urlsplit(ask(QUERY, position).url)
    pairs = parse_qsl(asked.query, keep_blank_values=True)
    assert [("topic", "a"), ("token", "secret"), ("since", position)] == pairs
    (*_, (_, connect)) = parse_qsl(urlsplit(ask(NESTED, position, generation).url).query)
    news = json.loads(connect)["subs"]["news"]
    assert {"offset", "epoch"} == set(news)
    assert generation == news["epoch"]
    assert position == str(news["offset"])
    assert {"from": [position, 1, None]} == json.loads(ask(BODY, position).body)
    path = urlsplit(ask(Asking(where="path", template="at/$position"), position).url).path
    assert ["", "events", "at", position] == [unquote(part) for part in path.split("/")]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"in": "cookie"}, "Invalid enum value 'cookie'"),
        ({"name": "a b"}, "'a b' is not the name of a header"),
        ({"in": "query", "name": ""}, "ask.name is empty"),
        ({"in": "path", "json": {"a": "$position"}}, "not into a path"),
        ({"json": {"a": "$position"}}, "not into a header"),
        ({"in": "body"}, 'ask.in = "body" needs ask.json'),
        ({"in": "query", "name": "q", "json": {"a": 1}}, "$position is nowhere"),
        ({"template": "now"}, "$position is nowhere"),
        ({"template": "$position\n"}, "characters that no request can hold"),
        ({"where": "query"}, "unknown field `where`"),
    ],
)
def test_a_slip_is_named(fields: dict[str, Any], message: str) -> None:
    """Whoever writes a dialect reads which word is wrong."""
    with pytest.raises(msgspec.ValidationError, match=r".") as caught:
        msgspec.convert(fields, Asking)
    assert message in str(caught.value)
