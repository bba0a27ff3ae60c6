"""What a probe asks, and what came of it: everything that the decisions of this room look at."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from fencepost_policies.witness import Opening
from fencepost_schemas.sse import Frame


class Question(StrEnum):
    """One connection of a probe. The value is what programs read."""

    LISTEN = "listen"
    BEGINNING = "beginning"
    BESIDE = "beside"
    NEWEST = "newest"
    LAST_BUT_ONE = "last_but_one"
    OLDER = "older"
    AGAIN = "again"
    BOGUS = "bogus"
    FUTURE = "future"
    SESSION = "session"

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]

    @property
    def wrong(self) -> bool:
        """True where a position is named that the server cannot know."""
        return self in (Question.BOGUS, Question.FUTURE, Question.SESSION)


_MEANINGS = {
    Question.LISTEN: "listen, without a position",
    Question.BEGINNING: "resume from id 0, for what a quiet server still holds",
    Question.BESIDE: "listen once more",
    Question.NEWEST: "resume from the newest id",
    Question.LAST_BUT_ONE: "resume from the last id but one",
    Question.OLDER: "resume from an older id",
    Question.AGAIN: "resume from the same id once more, beside the first",
    Question.BOGUS: "resume from an id that was never given",
    Question.FUTURE: "resume from an id of the future",
    Question.SESSION: "resume in a session that was never given",
}
assert set(_MEANINGS) == set(Question), "every Question has a meaning"


class Ending(StrEnum):
    OPEN = "open"
    """It was still there when the probe let it go."""
    ENDED = "ended"
    BROKE = "broke"
    NEVER = "never"
    """There was no response at all."""


class Came(msgspec.Struct, frozen=True):
    """A frame, when it came (seconds since the probe began), and in which piece of the body."""

    frame: Frame
    at_s: float
    piece: int


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one question. Header names are lower case.

    `asked` is the position that was sent, `asked_s` when, `headers_s` how long the head of the
    response took. `said` is the beginning of a body that is no event stream, `failure` why there
    is no more.
    """

    question: Question
    asked: str = ""
    asked_s: float = 0.0
    headers_s: float = 0.0
    status: int = 0
    headers: Mapping[str, str] = {}
    came: tuple[Came, ...] = ()
    ending: Ending = Ending.OPEN
    ended_s: float = 0.0
    said: str = ""
    failure: str = ""

    @property
    def opening(self) -> Opening:
        return Opening(self.status, self.headers, self.asked)

    @property
    def streams(self) -> bool:
        """True where this is an event stream."""
        kind = self.headers.get("content-type", "").split(";", 1)[0].strip().lower()
        return self.status == 200 and kind == "text/event-stream"

    @property
    def frames(self) -> tuple[Frame, ...]:
        return tuple(one.frame for one in self.came)

    @property
    def events(self) -> tuple[Frame, ...]:
        return tuple(one.frame for one in self.came if one.frame.data is not None)


def answer_to(question: Question, answers: Sequence[Answer]) -> Answer | None:
    """Return the answer to a question, None where it was not asked."""
    return next((answer for answer in answers if answer.question is question), None)


def speaks_mcp(answer: Answer) -> bool:
    """Return True where a plain GET was answered as an MCP endpoint does without a session."""
    wants_post = "POST" in answer.headers.get("allow", "").upper()
    complains = '"jsonrpc"' in answer.said
    return answer.status in (400, 404, 405, 406) and (complains or wants_post)
