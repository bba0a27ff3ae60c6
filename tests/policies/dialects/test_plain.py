"""Proves that a source is described without slips, and read as it is described."""

from typing import Any

import msgspec
import pytest

from fencepost_policies.dialects.plain import Dialect
from fencepost_policies.judge import judge
from fencepost_policies.overlap import digest_of
from fencepost_policies.schemes.named import SCHEMES
from fencepost_policies.witness import Opening
from fencepost_schemas.cursor import Cursor, Mark, Position
from fencepost_schemas.evidence import Facet, Finding
from fencepost_schemas.limits import TYPE_BYTES_MAX
from fencepost_schemas.reason import Reason
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
        ({"position": "seq"}, "'seq' is not a JSON pointer: begin with '/'"),
        ({"resume_control": "at"}, "'at' is not a JSON pointer: begin with '/'"),
        ({"reset_pointer": "/a~2", "reset_codes": ["x"]}, "write '~' as '~0'"),
        ({"id_pattern": "gen"}, "has no group (?P<pos>...); write gen:pos, gen-pos, or"),
        ({"id_pattern": "(?P<pos>[0-9"}, "is not a regular expression"),
        ({"position_pattern": "(a+)+"}, "repeats a group, which can take for ever: write it out"),
        ({"reset_comments": ["("]}, "is not a regular expression"),
        ({"generation_url": "/sessions/[^/]+"}, "generation_url needs the group gen, as in /sess"),
        ({"window_count": 100}, "it needs scheme integer-dense and resume_control"),
        ({"window_count": -1}, "window_count and window_age_s must be at least 0"),
        ({"window_age_s": float("nan")}, "window_count and window_age_s must be at least 0"),
        ({"reset_codes": ["x"]}, "reset_pointer and reset_codes come together"),
        ({"reset_pointer": "/code"}, "reset_pointer and reset_codes come together"),
        ({"reset_code_events": ["error"]}, "reset_code_events needs reset_codes"),
        ({"uptime_control": "/up", "generation_header": "x"}, "there is one already"),
        ({"uptime_control": "/up", "id_pattern": "gen:pos"}, "there is one already"),
        ({"generation_cookie": "run", "generation_header": "x"}, "only one of generation_cookie"),
        ({"generation_first_id": True, "generation_cookie": "run"}, "only one of generation_cook"),
        ({"resumes": "before"}, "Invalid enum value 'before'"),
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


AT_5 = Cursor("crm", "0001-aaaaaaaa", Standing.GENESIS, "l", "o", position=Position("5"), token="a")
RINGED = msgspec.structs.replace(
    AT_5, ring=tuple(Mark(Position(number), f"digest {number}") for number in ("3", "4", "5"))
)
NAMED = {"generation_header": "x-epoch"}


@pytest.mark.parametrize(
    ("settings", "probes"),
    [
        ({}, True),
        (NAMED, True),
        ({"window_header": "x-floor"}, True),
        ({**NAMED, "window_header": "x-floor"}, False),
        ({**NAMED, "window_header": "x-floor", "overlap": "on"}, True),
        ({"overlap": "off"}, False),
        ({**NAMED, "scheme": "integer-dense"}, False),
        ({**NAMED, "echo_header": "x-last"}, False),
        ({**NAMED, "status_header": "x-status"}, False),
        ({**NAMED, "recovered_control": "/recovered"}, False),
        ({**NAMED, "window_control": "/floor"}, False),
        ({**NAMED, "resume_control": "/newest"}, True),
        ({**NAMED, "window_age_s": 60.0}, True),
        ({"uptime_control": "/up", "window_header": "x-floor"}, True),
        ({"generation_cookie": "run", "window_header": "x-floor"}, False),
        ({"generation_url": "/(?P<gen>.+)", "window_header": "x-floor"}, False),
        ({"generation_first_id": True, "window_header": "x-floor"}, False),
        ({"generation_control": "/epoch", "window_header": "x-floor"}, False),
        ({"id_pattern": "gen:pos", "window_header": "x-floor"}, False),
        ({"id_pattern": "(?P<pos>.+)", "window_header": "x-floor"}, True),
    ],
)
def test_what_proves_nothing_by_itself_is_probed(settings: dict[str, Any], probes: bool) -> None:
    """Whoever names no generation, or shows no losses, is asked from further back."""
    first = Dialect(**settings).asks(RINGED)[0]
    assert probes is bool(first.owed)


def test_an_inclusive_source_owes_what_it_is_asked_for() -> None:
    """It begins with the very event, so that one has to come back, too."""
    first, last = Dialect(resumes="from").asks(RINGED)
    assert (Position("3"), RINGED.ring) == (first.position, first.owed)
    assert (Position("4"), RINGED.ring[1:]) == (last.position, last.owed)


def test_an_inclusive_source_repeats_one_event() -> None:
    """Where nothing is probed, the event that we have is known again and is not new."""
    frame = Frame(data="{}", last_event_id="5", id_seen=True)
    cursor = msgspec.structs.replace(AT_5, ring=(Mark(Position("5"), digest_of(frame)),))
    dialect = Dialect(
        scheme="integer", resumes="from", generation_header="x-epoch", window_header="x-floor"
    )
    (ask,) = dialect.asks(cursor)
    assert ask.owed == ()
    heard = dialect.hearing(cursor, ask)
    heard.opened(Opening(200, {"x-epoch": "a", "x-floor": "5"}, asked="5"))
    heard.arrived(frame)
    assert heard.repeat
    assert judge(heard.evidence()).kind is Standing.RESUMED
    heard.arrived(Frame(data="{}", last_event_id="6", id_seen=True))
    assert not heard.repeat


QUIET = Dialect(
    ignore=("ping",),
    control_events=("hello",),
    bookmarks=("offset-only",),
    heartbeat_data=("ping", ""),
    end_events=("return",),
    end_data=("[DONE]",),
    end_control="/streamClosed",
)


@pytest.mark.parametrize(
    ("frame", "counts", "ends"),
    [
        (Frame(data="{}"), True, False),
        (Frame(data="ping"), False, False),
        (Frame(data=""), False, False),
        (Frame(data="ping "), True, False),
        (Frame("ping", "{}"), False, False),
        (Frame("hello", "{}"), False, False),
        (Frame("hello", '{"streamClosed":true}'), False, True),
        (Frame("hello", '{"streamClosed":"true"}'), False, False),
        (Frame("task", '{"streamClosed":true}'), True, False),
        (Frame("offset-only", "{}"), False, False),
        (Frame("return", "{}"), True, True),
        (Frame("return", None), False, False),
        (Frame(data="[DONE]"), False, True),
        (Frame(comments=("ping",)), False, False),
    ],
)
def test_what_is_no_event_and_what_is_the_end(frame: Frame, counts: bool, ends: bool) -> None:
    """Heartbeats, greetings and bookmarks are none; an end may bring one, or not."""
    assert (counts, ends) == (QUIET.counts(frame), QUIET.ends(frame))


def test_a_source_may_send_fields_of_its_own() -> None:
    """Then lines that nobody knows are not held against it."""
    frame = Frame(data="{}", last_event_id="6", id_seen=True, unknown_lines=3)
    for extra_fields in (True, False):
        heard = Dialect(extra_fields=extra_fields).hearing(AT_5)
        heard.arrived(frame)
        said = Reason.TEXT_INJECTED in {fact.reason for fact in heard.facts}
        assert said is not extra_fields


@pytest.mark.parametrize(
    ("settings", "opening", "frames"),
    [
        (
            {"generation_control": "/e", "recovered_control": "/r", "control_events": ("hello",)},
            Opening(200, {}, "5"),
            [Frame("hello", '{"e":"a","r":true}')],
        ),
        (
            {"id_pattern": "gen-pos", "scheme": "integer-dense"},
            Opening(200, {}, "a-5"),
            [Frame(data="{}", last_event_id="a-6", id_seen=True)],
        ),
        (
            {"generation_header": "x-epoch", "echo_header": "x-last"},
            Opening(200, {"x-epoch": "a", "x-last": "5"}, "5"),
            [],
        ),
        (
            {"generation_header": "x-epoch", "status_header": "x-stream"},
            Opening(200, {"x-epoch": "a", "x-stream": "continue"}, "5"),
            [],
        ),
        (
            {
                "generation_header": "x-epoch",
                "scheme": "integer-dense",
                "window_count": 10,
                "resume_control": "/newest",
                "control_events": ("hello",),
            },
            Opening(200, {"x-epoch": "a"}, "5"),
            [Frame("hello", '{"newest":12}'), Frame(data="{}", last_event_id="6", id_seen=True)],
        ),
    ],
    ids=["centrifugo's way", "all in the id", "an echo", "a status", "a count"],
)
def test_a_described_source_is_resumed(
    settings: dict[str, Any], opening: Opening, frames: list[Frame]
) -> None:
    """Each way of saying all three, by itself, is enough."""
    dialect = Dialect(**settings)
    cursor = msgspec.structs.replace(AT_5, position=Position(opening.asked))
    heard = dialect.hearing(cursor, dialect.asks(cursor)[0])
    heard.opened(opening)
    for frame in frames:
        if dialect.counts(frame):
            heard.arrived(frame)
        else:
            heard.noticed(frame)
    assert judge(heard.evidence()).kind is Standing.RESUMED
