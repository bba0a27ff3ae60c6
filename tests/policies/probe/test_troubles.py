"""Every trouble is found where it is, and is not where it is not."""

from collections.abc import Sequence

import pytest

from fencepost_policies.probe.answers import Answer, Ending, Question
from fencepost_policies.probe.signals import read_signals
from fencepost_policies.probe.troubles import Trouble, troubles_in
from kit.answers import STREAM, answered, listened
from kit.source import sse

ONE, TWO, THREE = (sse((str(n), f'{{"k":"{n}"}}')) for n in (1, 2, 3))
LOG = listened(ONE + TWO + THREE)
LIVE = listened(ONE + TWO, THREE, every_s=5.0)
"""The third event comes five seconds in, when all else has been asked."""


def older(*pieces: bytes, ending: Ending = Ending.OPEN) -> Answer:
    return answered(Question.OLDER, *pieces, asked="1", at_s=1.0, ending=ending)


def last(*pieces: bytes) -> Answer:
    return answered(Question.LAST_BUT_ONE, *pieces, asked="2", at_s=1.5)


def future(*pieces: bytes, ending: Ending = Ending.OPEN) -> Answer:
    return answered(Question.FUTURE, *pieces, asked="900", at_s=2.0, ending=ending)


def echoing(question: Question, asked: str, *pieces: bytes) -> Answer:
    """Return an answer that repeats its position in a header."""
    return answered(question, *pieces, asked=asked, at_s=2.0, headers={**STREAM, "from": asked})


FOUND: dict[Trouble, Sequence[Answer]] = {
    Trouble.WRONG_TYPE: [answered(Question.LISTEN, headers={"content-type": "text/html"})],
    Trouble.COMPRESSED: [answered(Question.LISTEN, headers={**STREAM, "content-encoding": "br"})],
    Trouble.LATE_HEADERS: [answered(Question.LISTEN, ONE, headers_s=2.5)],
    Trouble.BUFFERED: [listened(ONE, TWO + THREE, ONE + TWO)],
    Trouble.INJECTED_TEXT: [listened(ONE + b"Failed to retrieve next link.\n\n")],
    Trouble.LEGACY_MCP: [listened(b"event: endpoint\ndata: /messages?session=x\n\n")],
    Trouble.QUIET: [listened(b": hi\n\n")],
    Trouble.NO_IDS: [listened(b"data: a\n\ndata: b\n\n")],
    Trouble.UNSENDABLE_ID: [listened(b"id:  1\ndata: a\n\n")],
    Trouble.ALIKE: [listened(sse(("1", "{}"), ("2", "{}")))],
    Trouble.CONNECTION_COUNTER: [LOG, answered(Question.BESIDE, sse(("1", "{}"), ("2", "[]")))],
    Trouble.CURSOR_POISONED: [listened(ONE + TWO + b"event: oops\nid: error\ndata: {}\n\n")],
    Trouble.POSITION_IGNORED: [LOG, older(ONE + TWO + THREE)],
    Trouble.NOT_REPLAYED: [LOG, last()],
    Trouble.ENDS_BEHIND_REPLAY: [LOG, older(TWO + THREE, ending=Ending.ENDED)],
    Trouble.LIVE_NOT_ATTACHED: [LIVE, older(TWO)],
    Trouble.BOGUS_TAKEN_FOR_NONE: [LOG, future(ONE + TWO)],
    Trouble.BLACK_HOLE: [LIVE, future(b": hi\n\n")],
    Trouble.SILENT_ON_BOGUS: [LOG, future(b": hi\n\n")],
    Trouble.ECHOES_ANYTHING: [
        LOG,
        echoing(Question.OLDER, "1", TWO + THREE),
        echoing(Question.LAST_BUT_ONE, "2", THREE),
        echoing(Question.FUTURE, "900"),
    ],
    Trouble.SESSION_GUESSED: [LOG, answered(Question.SESSION, asked="3")],
    Trouble.ONE_STREAM: [LOG, answered(Question.AGAIN, asked="1", status=409)],
}
SOUND: dict[str, Sequence[Answer]] = {
    "a log that goes on": [
        LIVE,
        answered(Question.OLDER, TWO, THREE, asked="1", at_s=1.0, every_s=5.0),
        answered(Question.FUTURE, asked="900", at_s=2.5, status=400),
    ],
    "one that says a reset": [LOG, older(TWO + THREE), future(b"event: reset\ndata: {}\n\n")],
    "one that ends at what it does not know": [LOG, future(ending=Ending.ENDED)],
    "an older place that it holds no more": [LOG, older()],
    "a replay in one piece, and live events one by one": [listened(ONE + TWO, THREE, ONE)],
    "heartbeats": [listened(ONE + TWO + b"event: ping\ndata: ping\n\n: hi\n\n")],
    "an echo of what is known": [
        LOG,
        echoing(Question.OLDER, "1", TWO + THREE),
        echoing(Question.LAST_BUT_ONE, "2", THREE),
        answered(Question.FUTURE, asked="900", at_s=2.5, status=404),
    ],
}


@pytest.mark.parametrize("trouble", FOUND)
def test_it_is_found(trouble: Trouble) -> None:
    answers = FOUND[trouble]
    assert trouble in troubles_in(answers, read_signals(answers))


@pytest.mark.parametrize("server", SOUND)
def test_nothing_is_found(server: str) -> None:
    answers = SOUND[server]
    assert () == troubles_in(answers, read_signals(answers))


def test_resumes_that_differ_are_told_by_the_rehearsal() -> None:
    assert Trouble.RESUMES_DIFFER in troubles_in([LOG], read_signals([LOG]), differ=True)
    assert {*FOUND, Trouble.RESUMES_DIFFER} == set(Trouble), "every trouble is found by a test"


def test_each_has_a_meaning() -> None:
    assert len({trouble.meaning for trouble in Trouble}) == len(Trouble)
