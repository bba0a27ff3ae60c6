"""The signals: found by name and by staying the same, and not where only one of the two is so."""

from fencepost_policies.probe.answers import Answer, Question
from fencepost_policies.probe.signals import acknowledged, read_signals
from fencepost_policies.probe.steady import Comparison
from fencepost_schemas.event import KeyScope
from kit.answers import STREAM, answered, listened
from kit.source import sse

LOG = sse(("1", '{"id":"a","epoch":"e1"}'), ("2", '{"id":"b","epoch":"e1"}'))


def with_headers(*each: dict[str, str], body: bytes = LOG) -> list[Answer]:
    questions = (Question.LISTEN, Question.BESIDE)
    named = zip(questions, each, strict=True)
    return [answered(question, body, headers={**STREAM, **own}) for question, own in named]


def test_a_generation_in_a_header() -> None:
    """Named like one, and the same on each connection."""
    same, other = {"x-stream-epoch": "e1"}, {"x-stream-epoch": "e2"}
    assert "x-stream-epoch" == read_signals(with_headers(same, same)).generation_header
    assert "" == read_signals(with_headers(same, other)).generation_header
    assert "" == read_signals(with_headers({"x-worker": "1"}, {"x-worker": "1"})).generation_header


def test_one_connection_alone_does_not_tell() -> None:
    lone = answered(Question.LISTEN, headers={**STREAM, "x-stream-epoch": "e1"})
    assert "" == read_signals([lone]).generation_header


def test_a_generation_in_the_data() -> None:
    assert "/epoch" == read_signals([listened(LOG)]).generation_pointer
    changing = sse(("1", '{"epoch":1}'), ("2", '{"epoch":2}'))
    assert "" == read_signals([listened(changing)]).generation_pointer


def test_the_oldest_id_that_is_held() -> None:
    """Named like one, and made like the ids."""
    number, text = {"oldest-id": "1"}, {"oldest-id": "yesterday"}
    assert "oldest-id" == read_signals(with_headers(number, number)).window_header
    assert "" == read_signals(with_headers(text, text)).window_header


def test_an_event_that_says_a_reset() -> None:
    """It came only where the position was wrong."""
    reset = b"event: stream-reset\ndata: {}\n\n"
    wrong = answered(Question.FUTURE, reset, asked="900")
    assert ("stream-reset",) == read_signals([listened(LOG), wrong]).reset_events
    assert () == read_signals([listened(LOG + reset), wrong]).reset_events


def test_what_is_no_event() -> None:
    """Heartbeats by name, by being empty, and what has an id that is no place."""
    beats = b"event: keep-alive\ndata: {}\n\nevent: tick\ndata:\n\n"
    alien = b"event: stream-error\nid: error\ndata: {}\n\n"
    signals = read_signals([listened(LOG + beats + alien)])
    assert ("keep-alive", "tick", "stream-error") == signals.ignore
    assert ("event keep-alive",) == signals.heartbeats


def test_the_break_is_where_the_first_position_was_asked_for() -> None:
    """What came later on the first connection is what a client would have missed."""
    early, late = sse(("1", '{"k":"a"}')), sse(("2", '{"k":"b"}'))
    first = listened(early, late, every_s=5.0)
    resumed = answered(Question.NEWEST, asked="1", at_s=4.0)
    assert ["1"] == [frame.last_event_id for frame in acknowledged([first, resumed], ())]
    assert ["1", "2"] == [frame.last_event_id for frame in acknowledged([first], ())]


def test_what_a_quiet_server_gave_back_from_its_beginning() -> None:
    beginning = answered(Question.BEGINNING, LOG, asked="0", at_s=5.0)
    assert 2 == len(acknowledged([listened(b": hi\n\n"), beginning], ()))


def test_a_key() -> None:
    """Another in each event, and named like one; a random one is for ever."""
    assert ("/id", KeyScope.GENERATION) == _key(LOG)
    random = [f'{{"task_id":"3f2b1c4d-0a1b-4c2d-8e3f-12345678900{n}"}}' for n in (1, 2)]
    assert ("/task_id", KeyScope.DURABLE) == _key(sse(("1", random[0]), ("2", random[1])))
    assert ("", KeyScope.NONE) == _key(sse(("1", '{"id":"a"}'), ("2", '{"id":"a"}')))
    assert ("", KeyScope.NONE) == _key(sse(("1", '{"name":"a"}'), ("2", '{"name":"b"}')))
    assert ("", KeyScope.NONE) == _key(sse(("1", '{"id":"a"}'), ("2", "no json")))


def _key(body: bytes) -> tuple[str, KeyScope]:
    signals = read_signals([listened(body)])
    return signals.key, signals.keys


def test_what_differs_each_time_is_no_key() -> None:
    first = sse(("1", '{"k":"a","send_id":1}'), ("2", '{"k":"b","send_id":2}'))
    second = sse(("1", '{"k":"a","send_id":3}'), ("2", '{"k":"b","send_id":4}'))
    signals = read_signals([listened(first), answered(Question.BESIDE, second)])
    assert Comparison(2, ("/send_id",)) == signals.comparison
    assert "" == signals.key


def test_a_position_that_is_repeated() -> None:
    """In each answer; and whether the header is true shows only where a false one was asked for."""
    older, last = (
        answered(question, LOG, asked=asked, at_s=1.0, headers={**STREAM, "from": asked})
        for question, asked in ((Question.OLDER, "1"), (Question.LAST_BUT_ONE, "2"))
    )
    refused = answered(Question.FUTURE, asked="900", status=404)
    parrot = answered(Question.FUTURE, asked="900", headers={**STREAM, "from": "900"})
    seen = [
        read_signals([listened(LOG), older, last, *more]) for more in ((), (refused,), (parrot,))
    ]
    assert ["from"] * 3 == [signals.echo_header for signals in seen]
    assert [False, True, False] == [signals.echo_true for signals in seen]
    assert [False, False, True] == [signals.echoes_anything for signals in seen]


def test_a_generation_in_the_ids() -> None:
    """What stands before the number is minted, or somebody has named a channel."""
    for ids, pattern in (
        (("b7f2-1", "b7f2-2"), "gen-pos"),
        (("epoch:1", "epoch:2"), "gen:pos"),
        (("orders:1", "orders:2"), ""),
        (("b7f2/1", "b7f2/2"), ""),
        (("1", "2"), ""),
    ):
        log = sse(*((id, "{}") for id in ids))
        assert pattern == read_signals([listened(log)]).id_pattern
