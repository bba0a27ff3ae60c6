"""The report: whatever a server sends, there is one, it can be pasted, and it holds no secret."""

import json
import tomllib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.settings import Source
from fencepost_policies.dialects.mcp import Dialect as Mcp
from fencepost_policies.probe.answers import Answer, Ending, Question, speaks_mcp
from fencepost_policies.probe.report import Holds, Report, Target, report_on
from fencepost_schemas.evidence import Facet
from kit.answers import STREAM, answered, listened
from kit.source import sse

SECRET = "s3cr3t"
URL = f"https://me:{SECRET}@events.example/stream?token={SECRET}"
EACH = [sse((str(n), f'{{"k":"{n}"}}')) for n in range(1, 6)]


def reported(*answers: Answer, mcp: Mcp | None = None) -> Report:
    target = Target(name="orders", url=URL, mcp=mcp)
    return report_on(target, answers, (), salt="salt", waited_s=10.0, requests=1, took_s=1.0)


def older(*bodies: bytes) -> Answer:
    return answered(Question.OLDER, *bodies, asked="1", at_s=1.0)


def holds(report: Report) -> dict[Facet, Holds]:
    return {condition.facet: condition.holds for condition in report.conditions}


def test_all_three_conditions() -> None:
    report = reported(listened(*EACH), older(*EACH[1:]))
    assert report.provable
    assert dict.fromkeys(Facet, Holds.YES) == holds(report)
    assert [4] == [one.known for one in report.asked[1:]]


def test_what_is_contradicted_is_no_and_what_is_not_said_is_not_shown() -> None:
    report = reported(listened(*EACH), older(EACH[0]))
    assert not report.provable
    assert Holds.NO is holds(report)[Facet.POSITION]
    assert Holds.NOT_SHOWN is holds(report)[Facet.COMPLETENESS]


def test_nothing_came() -> None:
    """What could not be seen is said to have not been seen."""
    report = reported(listened(b": hi\n\n"))
    assert dict.fromkeys(Facet, Holds.NOT_SHOWN) == holds(report)
    assert report.because.startswith("no event came within 10 s")


def test_a_position_that_was_never_given_and_is_answered_like_a_true_one() -> None:
    """A server that counts on from any number, and declares all that there is to declare."""
    declares = {**STREAM, "epoch": "e", "oldest-id": "1"}
    counting_on = sse(("1000000006", '{"k":"6"}'))
    report = reported(
        answered(Question.LISTEN, sse(*((str(n), "{}") for n in range(1, 6))), headers=declares),
        answered(Question.BESIDE, at_s=0.5, headers=declares),
        answered(Question.NEWEST, sse(("6", "{}")), asked="5", at_s=1.0, headers=declares),
        answered(Question.FUTURE, counting_on, asked="1000000005", at_s=2.0, headers=declares),
    )
    assert not report.provable
    assert "a position that it never gave is answered like a true one" == report.because
    assert Holds.NO is holds(report)[Facet.COMPLETENESS]


def test_names_alone_prove_nothing() -> None:
    """The events are all alike, so that nothing shows whether the log is the same."""
    declares = {**STREAM, "epoch": "e", "oldest-id": "1"}
    report = reported(
        answered(Question.LISTEN, sse(*((str(n), "{}") for n in range(1, 6))), headers=declares),
        answered(Question.BESIDE, at_s=0.5, headers=declares),
        answered(Question.NEWEST, sse(("6", "{}")), asked="5", at_s=1.0, headers=declares),
        answered(Question.FUTURE, asked="1000000005", at_s=2.0, status=400),
    )
    assert ["resumed", "reoriginated"] == [one.verdict for one in report.conclusions]
    assert not report.provable
    assert report.because.startswith("only what is named like a generation and a window")


def test_positions_are_shapes_and_digests_of_this_report_only() -> None:
    first, second = (
        report_on(
            Target(name="orders", url=URL),
            [listened(*EACH), older(*EACH[1:])],
            (),
            salt=salt,
            waited_s=1.0,
            requests=2,
            took_s=1.0,
        )
        for salt in ("one", "two")
    )
    assert first.asked[1].position.startswith("9 (")
    assert first.asked[1].position != second.asked[1].position


def test_an_mcp_endpoint_is_known_by_its_refusal() -> None:
    for status, headers, said, is_one in (
        (400, {}, '{"jsonrpc":"2.0","error":{}}', True),
        (405, {"allow": "POST, DELETE"}, "", True),
        (405, {"allow": "GET"}, "", False),
        (404, {}, "<html>", False),
        (200, {}, '{"jsonrpc":"2.0"}', False),
    ):
        assert is_one is speaks_mcp(
            answered(Question.LISTEN, status=status, headers=headers, said=said)
        )


# --- whatever comes -----------------------------------------------------------------------------
_words = st.sampled_from(["1", "2", "1795998878:0", "boot-1", "ping", "error", "é\x7f", '"', ""])
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_words, inner, max_size=3),
    max_leaves=6,
)
_events = st.builds(
    lambda kind, id, data: f"event: {kind}\nid: {id}\ndata: {json.dumps(data)}\n\n".encode(),
    _words,
    _words | st.text(max_size=8),
    _values,
)
_headers = st.dictionaries(
    st.sampled_from(["x-epoch", "oldest-id", "from", "content-encoding", "allow"]), _words
)
_answers = st.builds(
    lambda question, asked, bodies, status, headers, ending: answered(
        question,
        *bodies,
        asked=asked,
        at_s=1.0,
        status=status,
        headers={**STREAM, **headers},
        ending=ending,
    ),
    st.sampled_from(Question),
    _words,
    st.lists(_events | st.binary(max_size=30), max_size=6),
    st.sampled_from([200, 200, 200, 204, 301, 400, 404, 409, 503]),
    _headers,
    st.sampled_from([Ending.OPEN, Ending.ENDED, Ending.BROKE]),
)


@given(
    first=st.lists(_events, max_size=6),
    more=st.lists(_answers, max_size=7),
    mcp=st.sampled_from([None, Mcp(), Mcp(protocol="2026-07-28")]),
)
def test_there_is_a_report_and_it_can_be_pasted(
    first: list[bytes], more: list[Answer], mcp: Mcp | None
) -> None:
    report = reported(listened(*first), *more, mcp=mcp)
    source: Any = tomllib.loads(report.toml)["sources"]["orders"]
    speech = msgspec.convert(source, Source).speech
    assert ("mcp" if mcp else "plain") == source["dialect"]
    assert callable(speech.hearing)
    assert SECRET not in msgspec.json.encode(report).decode()


@pytest.mark.parametrize("question", Question)
def test_each_question_has_a_meaning(question: Question) -> None:
    assert question.meaning
