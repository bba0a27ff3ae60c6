"""What is to be pasted: it is TOML whatever a server calls its things, and holds no secret."""

import tomllib

import msgspec
import pytest

from fencepost.settings import Source
from fencepost_policies.dialects.described import Dialect as Plain
from fencepost_policies.dialects.mcp import Dialect as Mcp
from fencepost_policies.dialects.named import NAMED
from fencepost_policies.probe.ids import Kind, Shape
from fencepost_policies.probe.proposal import mcp_for, plain_for, toml_for, without_secrets
from fencepost_policies.probe.signals import Signals
from fencepost_policies.probe.steady import Comparison
from fencepost_schemas.event import KeyScope

URL = "https://events.example/stream"
NOTHING = Signals()
ACCESS = {"headers_env": {"X-Key": "SHOP_KEY"}, "allow_private": True, "tls_ca": None}
ODD = 'a"b\\c\n\x7f\x1bé'


def source_in(text: str) -> Source:
    return msgspec.convert(tomllib.loads(text)["sources"]["orders"], Source, strict=False)


def pasted(speech: Plain | Mcp, signals: Signals = NOTHING) -> Source:
    return source_in(toml_for("orders", URL, speech, signals, ACCESS))


@pytest.mark.parametrize(
    "speech",
    [
        Plain(),
        Plain(scheme="integer", ignore=("ping", ODD), reset_events=(ODD,), overlap="on"),
        Plain(generation_header="x-epoch", window_header="oldest", volatile=(f"/{ODD[:3]}",)),
    ],
)
def test_a_plain_dialect_comes_back_from_what_is_pasted(speech: Plain) -> None:
    source = pasted(speech)
    assert (speech, {"X-Key": "SHOP_KEY"}) == (source.plain, source.headers_env)
    assert (True, None) == (source.allow_private, source.tls_ca)


def test_an_mcp_dialect_comes_back_from_what_is_pasted() -> None:
    request = {"method": "tools/call", "params": {"name": "f", "deep": {"o d d": [1, True, "x"]}}}
    speech = Mcp(requests=(request,), join="unknown", volatile=("/params/at",))
    source = pasted(speech)
    assert ("mcp", speech) == (source.dialect, source.mcp)


def test_null_is_left_out_for_toml_has_none() -> None:
    source = pasted(Mcp(call={"method": "m", "params": {"cursor": None, "n": 1}}))
    assert {"method": "m", "params": {"n": 1}} == source.mcp.call


def test_a_key_is_a_guess_and_says_so() -> None:
    signals = Signals(key="/task_id", keys=KeyScope.GENERATION)
    assert "a guess" in toml_for("orders", URL, Plain(), signals, {})
    source = pasted(Plain(), signals)
    assert ("/task_id", KeyScope.GENERATION) == (source.key, source.keys)


def test_a_query_and_a_login_are_not_in_it() -> None:
    url = "https://me:pw@events.example:8443/stream?token=s3cret#x"
    assert "https://events.example:8443/stream" == without_secrets(url)
    text = toml_for("orders", url, Plain(), Signals(), {})
    assert "s3cret" not in text
    assert "pw" not in text
    assert "add the query or login" in text


def test_what_is_declared_is_not_trusted_alone() -> None:
    """Beside a declared generation and window the overlap is asked for, where it can be."""
    shape = Shape(Kind.INTEGER)
    signals = Signals(shape=shape, generation_header="x-epoch", window_header="oldest")
    (declared,) = plain_for(signals)
    assert "on" == declared.overlap
    (half,) = plain_for(Signals(shape=shape, generation_header="x-epoch"))
    assert "auto" == half.overlap


def test_an_mcp_join_is_audited_where_it_can_be() -> None:
    told = Mcp(requests=({"method": "m"},))
    signals = Signals(comparison=Comparison(2, ("/params/at",)))
    assert ["racy", "unknown"] == [one.join for one in mcp_for(told, signals)]
    assert {("/params/at",)} == {one.volatile for one in mcp_for(told, signals)}


@pytest.mark.parametrize(
    ("kind", "scheme"),
    [
        (Kind.INTEGER, "integer"),
        (Kind.TIME_TAG, "time-tag"),
        (Kind.MS_SEQ, "ms-seq"),
        (Kind.ULID, "ulid"),
        (Kind.UUID7, "uuidv7"),
        (Kind.VECTOR, "vector"),
        (Kind.UUID, "opaque"),
        (Kind.PREFIXED, "opaque"),
        (Kind.OPAQUE, "opaque"),
        (Kind.NONE, "opaque"),
    ],
)
def test_each_kind_of_id_has_its_scheme(kind: Kind, scheme: str) -> None:
    (speech,) = plain_for(Signals(shape=Shape(kind)))
    assert scheme == speech.scheme
    assert scheme == pasted(speech, Signals(shape=Shape(kind))).plain.scheme


def test_ids_that_carry_their_generation() -> None:
    (speech,) = plain_for(Signals(shape=Shape(Kind.PREFIXED), id_pattern="gen-pos"))
    assert ("integer", "gen-pos") == (speech.scheme, speech.id_pattern)


def test_one_generation_is_proposed_where_two_places_might_name_it() -> None:
    """A header and the ids would each have to say the very same word."""
    signals = Signals(
        shape=Shape(Kind.PREFIXED), id_pattern="gen-pos", generation_header="stream-generation"
    )
    (speech,) = plain_for(signals)
    assert ("opaque", "", "stream-generation") == (
        speech.scheme,
        speech.id_pattern,
        speech.generation_header,
    )


def test_an_echo_is_believed_where_it_was_seen_not_to_repeat_anything() -> None:
    for true, proposed in ((True, "from"), (False, "")):
        (speech,) = plain_for(Signals(echo_header="from", echo_true=true))
        assert proposed == speech.echo_header


def test_a_dialect_that_comes_with_fencepost_is_named_not_taken() -> None:
    for signals, name in (
        (Signals(shape=Shape(Kind.TIME_TAG)), "nchan"),
        (Signals(shape=Shape(Kind.MS_SEQ)), "ms_seq"),
        (Signals(shape=Shape(Kind.PREFIXED), ignore=("stream-open",)), "django_eventstream"),
    ):
        assert name in NAMED
        assert f'# "{name}"' in toml_for("orders", URL, Plain(), signals, {})
        assert "plain" == pasted(Plain(), signals).dialect
