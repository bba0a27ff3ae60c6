"""Answers of a server, written by hand, for decisions that need no server."""

from collections.abc import Mapping

from fencepost_policies.probe.answers import Answer, Came, Ending, Question
from fencepost_schemas.sse import Decoder

STREAM = {"content-type": "text/event-stream"}


def answered(
    question: Question,
    *pieces: bytes,
    asked: str = "",
    at_s: float = 0.0,
    status: int = 200,
    headers: Mapping[str, str] = STREAM,
    ending: Ending = Ending.OPEN,
    headers_s: float = 0.01,
    every_s: float = 0.0,
    said: str = "",
) -> Answer:
    """Return the answer to a question asked at `at_s`, a piece of its body coming `every_s`."""
    decoder = Decoder(asked)
    came = [
        Came(frame, at_s + headers_s + number * every_s, number)
        for number, piece in enumerate(pieces)
        for frame in decoder.feed(piece)
    ]
    return Answer(
        question=question,
        asked=asked,
        asked_s=at_s,
        headers_s=headers_s,
        status=status,
        headers={**headers},
        came=tuple(came),
        ending=ending,
        ended_s=at_s + 3.0,
        said=said,
    )


def listened(*pieces: bytes, every_s: float = 0.0) -> Answer:
    return answered(Question.LISTEN, *pieces, every_s=every_s)
