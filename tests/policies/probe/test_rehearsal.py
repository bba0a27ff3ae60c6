"""A break, rehearsed on answers: judged as a bridge would judge the same bytes."""

from typing import Any

import msgspec

from fencepost_policies.dialects.mcp import Dialect as Mcp
from fencepost_policies.dialects.plain import Dialect as Plain
from fencepost_policies.probe.answers import Answer, Ending, Question
from fencepost_policies.probe.rehearsal import (
    Positions,
    cursor_behind,
    cursor_of_another,
    positions_of,
    rehearse,
    resumes_differ,
    token_in,
)
from fencepost_schemas.reason import Reason
from fencepost_schemas.sse import Decoder, Frame
from fencepost_schemas.standing import Standing
from fencepost_schemas.verdict import Verdict
from kit.answers import STREAM, answered
from kit.source import sse

PLAIN = Plain(scheme="integer")
MCP = Mcp()
EACH = [sse((str(n), f'{{"k":"{n}"}}')) for n in range(1, 6)]


def events(*bodies: bytes) -> tuple[Frame, ...]:
    return tuple(Decoder().feed(b"".join(bodies or EACH)))


def older(*bodies: bytes, **more: Any) -> Answer:
    return answered(Question.OLDER, *bodies, asked="1", **more)


def last(*bodies: bytes, **more: Any) -> Answer:
    return answered(Question.LAST_BUT_ONE, *bodies, asked="4", **more)


def judged(*answers: Answer) -> Verdict:
    verdict = rehearse(PLAIN, cursor_behind(events(), ""), answers)
    assert verdict is not None
    return verdict


def test_what_we_had_comes_back() -> None:
    verdict = judged(older(*EACH[1:]))
    assert Standing.RESUMED is verdict.kind
    assert Reason.OVERLAP_MATCHED in verdict.reasons


def test_the_second_way_to_ask_is_tried() -> None:
    """The oldest place is gone, refused, or answered with silence; the last but one is not."""
    for first in (older(EACH[3]), older(status=410), older(), older(ending=Ending.ENDED)):
        assert Standing.RESUMED is judged(first, last(EACH[4])).kind


def test_both_ways_miss() -> None:
    other = sse(("7", "{}"))
    verdict = judged(older(other), last(other))
    assert Standing.REORIGINATED is verdict.kind
    assert Reason.OVERLAP_MISSED in verdict.reasons


def test_an_id_with_other_bytes() -> None:
    verdict = judged(older(sse(("2", "{}"))), last(sse(("5", "{}"))))
    assert (Reason.OVERLAP_OTHER_BYTES,) == verdict.reasons


def test_refused_both_times() -> None:
    verdict = judged(older(status=410), last(status=410))
    assert (Standing.REORIGINATED, (Reason.RESET_STATUS,)) == (verdict.kind, verdict.reasons)


def test_silence_proves_nothing() -> None:
    verdict = judged(older(), last())
    assert Standing.UNVERIFIABLE is verdict.kind
    assert Reason.OVERLAP_SILENT in verdict.reasons


def test_what_was_not_asked_is_passed_over() -> None:
    """The bounds may leave just one way; without any, nothing tells."""
    assert Standing.RESUMED is judged(last(EACH[4])).kind
    assert rehearse(PLAIN, cursor_behind(events(), ""), ()) is None


def test_a_declared_generation_and_window_want_an_event() -> None:
    speech = Plain(scheme="integer", generation_header="gen", window_header="floor")
    headers = {**STREAM, "gen": "g", "floor": "1"}
    cursor = cursor_behind(events(), "g")
    quiet = answered(Question.NEWEST, asked="5", headers=headers)
    verdict = rehearse(speech, cursor, [quiet])
    assert verdict is not None
    assert Standing.UNVERIFIABLE is verdict.kind
    new = answered(Question.NEWEST, sse(("6", "{}")), asked="5", headers=headers)
    verdict = rehearse(speech, cursor, [new])
    assert verdict is not None
    assert Standing.RESUMED is verdict.kind
    assert "g" == token_in(speech, new)


def test_a_server_that_has_lost_its_log() -> None:
    """Whatever it sends to a position that it never gave, it is no resume."""
    cursor = cursor_of_another(cursor_behind(events(), ""), "900", "salt")
    silent = answered(Question.FUTURE, asked="900")
    taken_for_none = answered(Question.FUTURE, *EACH, asked="900")
    refused = answered(Question.FUTURE, asked="900", status=400)
    kinds = [rehearse(PLAIN, cursor, [one]) for one in (silent, taken_for_none, refused)]
    assert ["unverifiable", "reoriginated", "reoriginated"] == [
        verdict.kind.value for verdict in kinds if verdict
    ]


# --- MCP ----------------------------------------------------------------------------------------
def notified(*ids: str) -> bytes:
    return b"".join(
        sse((id, f'{{"jsonrpc":"2.0","method":"n","params":{{"k":"{id}"}}}}')) for id in ids
    )


def in_session(*answers: Answer, speech: Mcp = MCP) -> Verdict:
    had = tuple(frame for frame in events(notified("a", "b", "c")) if speech.counts(frame))
    verdict = rehearse(speech, cursor_behind(had, ""), answers)
    assert verdict is not None
    return verdict


def from_a(question: Question, *bodies: bytes, status: int = 200) -> Answer:
    return answered(question, *bodies, asked="a", status=status)


def test_a_racy_join_is_audited() -> None:
    replay = notified("b", "c") + b"id: prime\ndata:\n\n"
    first = from_a(Question.OLDER, replay)
    verdict = in_session(first, from_a(Question.AGAIN, replay))
    assert Standing.RESUMED is verdict.kind
    assert Reason.AUDIT_DONE in verdict.reasons
    for audits in ((), (from_a(Question.AGAIN, status=409),), (from_a(Question.AGAIN),)):
        verdict = in_session(first, *audits)
        assert (Standing.UNVERIFIABLE, (Reason.AUDIT_REFUSED,)) == (verdict.kind, verdict.reasons)
    assert Standing.RESUMED is in_session(first, speech=Mcp(join="unknown")).kind


def test_an_empty_stream_that_ends_is_a_refusal() -> None:
    cursor = cursor_of_another(cursor_behind((), ""), "x", "salt")
    ended = answered(Question.BOGUS, asked="x", ending=Ending.ENDED)
    verdict = rehearse(Mcp(), cursor, [ended])
    assert verdict is not None
    assert (Reason.RESET_EMPTY_STREAM,) == verdict.reasons


# --- positions ----------------------------------------------------------------------------------
def test_where_a_bridge_would_ask_from() -> None:
    assert Positions("5", "4", "1") == positions_of(events())
    assert Positions("2", "1", "") == positions_of(events(*EACH[:2]))
    assert Positions("1", "", "") == positions_of(events(EACH[0]))
    assert Positions() == positions_of(events(b"data: a\n\ndata: b\n\n"))
    assert Positions() == positions_of(())


def test_events_that_are_alike_can_be_asked_for_all_the_same() -> None:
    alike = events(sse(("1", "{}"), ("2", "{}"), ("3", "{}")))
    assert Positions("3", "2", "") == positions_of(alike)


def test_a_rehearsal_leaves_the_cursor_as_it_is() -> None:
    cursor = cursor_behind(events(), "")
    before = msgspec.json.encode(cursor)
    rehearse(PLAIN, cursor, [older(*EACH[1:])])
    assert before == msgspec.json.encode(cursor)


def test_resumes_that_come_out_differently() -> None:
    """The older place proves it, and the newer one does not: somebody else answered."""
    cursor, good = cursor_behind(events(), ""), older(*EACH[1:])
    for other in (last(sse(("5", "{}"))), last(sse(("3", "{}"))), last(status=404)):
        assert resumes_differ(PLAIN, cursor, [good, other])
    newest = answered(Question.NEWEST, sse(("3", "{}")), asked="5")
    assert resumes_differ(PLAIN, cursor, [good, newest])


def test_resumes_that_do_not_differ() -> None:
    """An older place may be gone, and a stream that is attached still may be refused."""
    cursor, good = cursor_behind(events(), ""), last(EACH[4])
    for other in (older(EACH[3]), older(status=410), older()):
        assert not resumes_differ(PLAIN, cursor, [other, good])
    for status in (409, 429, 503):
        assert not resumes_differ(PLAIN, cursor, [older(*EACH[1:]), last(status=status)])
    assert not resumes_differ(PLAIN, cursor, [older(*EACH[1:]), last()])
