"""Proves that a source is described without slips, and read as it is described."""

import msgspec
import pytest

from fencepost_policies.dialects.plain import Dialect
from fencepost_policies.schemes.named import SCHEMES
from fencepost_policies.witness import Opening
from fencepost_schemas.cursor import Cursor, Position
from fencepost_schemas.evidence import Facet, Finding
from fencepost_schemas.limits import TYPE_BYTES_MAX
from fencepost_schemas.sse import Frame
from fencepost_schemas.standing import Standing


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scheme": "numbers"}, "scheme 'numbers' is not one of integer, integer-dense"),
        ({"scheme": ""}, "scheme '' is not one of"),
        ({"generation_pointer": "epoch"}, "'epoch' is not a JSON pointer: begin with '/'"),
        ({"type": "method"}, "'method' is not a JSON pointer: begin with '/'"),
        ({"type": "SSE"}, "'SSE' is not a JSON pointer"),
        ({"window": "x-floor"}, "unknown field `window`"),
        ({"ignore": "ping"}, "Expected `array`"),
        ({"generation_secret": "yes"}, "Expected `bool`"),
    ],
)
def test_a_slip_is_named(settings: dict[str, object], message: str) -> None:
    """Whoever writes the configuration reads which word is wrong, and what to write instead."""
    with pytest.raises(msgspec.ValidationError, match=r".") as caught:
        msgspec.convert(settings, Dialect)
    assert message in str(caught.value)


def test_the_least_description_promises_nothing() -> None:
    """Without a word of configuration a source has no order, no generation and no window."""
    expected = ("opaque", "", "", "", ())
    plain = Dialect()
    assert expected == (
        plain.scheme,
        plain.generation_header,
        plain.generation_pointer,
        plain.window_header,
        plain.reset_events,
    )


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_is_known_by_its_own_name(scheme: str) -> None:
    """The name in the configuration is the scheme's."""
    assert scheme == SCHEMES[scheme].name
    assert scheme == Dialect(scheme=scheme).scheme


def test_the_least_description_never_proves() -> None:
    """A good-looking stream of an undescribed source proves no facet at all."""
    cursor = Cursor(
        "crm", "0001-aaaaaaaa", Standing.GENESIS, "l", "o", position=Position("5"), token="a"
    )
    heard = Dialect().hearing(cursor)
    heard.opened(Opening(200, {"x-generation": "a", "x-floor": "1"}, asked="5"))
    for number in range(6, 9):
        heard.arrived(Frame(data="{}", last_event_id=str(number), id_seen=True))
    assert {fact.finding for fact in heard.facts} == {Finding.SILENT}


def test_a_described_source_is_heard_on_every_facet() -> None:
    """Each signal of the description has its witness in the hearing."""
    dialect = Dialect(
        scheme="integer",
        generation_header="X-Generation",
        window_header="X-Floor",
        reset_events=("reset",),
    )
    cursor = Cursor(
        "crm", "0001-aaaaaaaa", Standing.GENESIS, "l", "o", position=Position("5"), token="a"
    )
    heard = dialect.hearing(cursor)
    heard.opened(Opening(200, {"x-generation": "a", "x-floor": "1"}, asked="5"))
    heard.arrived(Frame(data="{}", last_event_id="6", id_seen=True))
    proven = {fact.facet for fact in heard.facts if fact.finding is Finding.PROVES}
    assert set(Facet) == proven
    (reset,) = heard.arrived(Frame(event="reset", data="", last_event_id="6"))
    assert reset.witness == "reset"


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (Frame(data="{}"), True),
        (Frame(data=""), True),
        (Frame(event="task", data="{}"), True),
        (Frame(event="ping", data="{}"), False),
        (Frame(event="Ping", data="{}"), True),
        (Frame(data=None), False),
        (Frame(event="task", data=None), False),
        (Frame(comments=(" ping",)), False),
    ],
)
def test_a_heartbeat_is_no_event(frame: Frame, expected: bool) -> None:
    """What dispatches nothing, and what the dialect ignores, does not count."""
    assert expected is Dialect(ignore=("ping", "keepalive")).counts(frame)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ('{"method":"tools/call"}', "tools/call"),
        ('{"method":""}', ""),
        ('{"method":7}', ""),
        ('{"method":null}', ""),
        ("{}", ""),
        ("[]", ""),
        ("not json", ""),
        ("", ""),
        (None, ""),
        ("[" * 5_000, ""),
        ('{"method":"' + "x" * TYPE_BYTES_MAX + '"}', "x" * TYPE_BYTES_MAX),
        ('{"method":"' + "x" * (TYPE_BYTES_MAX + 1) + '"}', ""),
        ('{"method":"' + "ä" * TYPE_BYTES_MAX + '"}', ""),
    ],
    ids=lambda value: ascii(value)[:24],
)
def test_the_type_by_pointer(data: str | None, expected: str) -> None:
    """A text under the pointer is the type; all else, too long included, is none."""
    frame = Frame(event="message", data=data)
    assert expected == Dialect(type="/method").type_of(frame)


def test_the_type_of_the_stream_itself() -> None:
    """Without a pointer the SSE field is the type, whatever the data looks like."""
    assert Dialect().type_of(Frame(event="task", data='{"method":"x"}')) == "task"
    assert Dialect().type_of(Frame(data="{}")) == "message"


@pytest.mark.parametrize("kind", ["x" * (TYPE_BYTES_MAX + 1), "ä" * TYPE_BYTES_MAX, "x" * 10**6])
def test_a_type_that_is_too_long_is_none(kind: str) -> None:
    """The type travels in a header: a source may not choose how long that gets."""
    assert Dialect().type_of(Frame(event=kind, data="{}")) == ""
