"""What a probe comes to: the three conditions, the conclusions, the dialect, and what to paste."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from fencepost_policies.dialects.dialect import Dialect, Join
from fencepost_policies.dialects.mcp import Dialect as Mcp
from fencepost_policies.probe.answers import Answer, Ending, Question
from fencepost_policies.probe.ids import looks_of
from fencepost_policies.probe.proposal import mcp_for, plain_for, toml_for, without_secrets
from fencepost_policies.probe.rehearsal import (
    cursor_behind,
    cursor_of_another,
    rehearse,
    resumes_differ,
    token_in,
)
from fencepost_policies.probe.signals import Signals, acknowledged, read_signals
from fencepost_policies.probe.troubles import Trouble, counted_anew, troubles_in
from fencepost_policies.reply import read_reply
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.evidence import Facet, Finding
from fencepost_schemas.sse import Frame
from fencepost_schemas.standing import Standing
from fencepost_schemas.subject import digest_token
from fencepost_schemas.verdict import Verdict


class Holds(StrEnum):
    YES = "yes"
    NO = "no"
    NOT_SHOWN = "not_shown"


class Condition(msgspec.Struct, frozen=True):
    """One condition of validity: whether it holds, and why that is said."""

    facet: Facet
    holds: Holds
    evidence: tuple[str, ...]


class Asked(msgspec.Struct, frozen=True):
    """One connection, for people: what was asked and what came. A position is a shape here."""

    question: Question
    position: str
    status: int
    headers_s: float
    events: int
    known: int
    ending: Ending
    failure: str = ""


class Conclusion(msgspec.Struct, frozen=True):
    """What fencepost would conclude after one kind of break; no verdict where nothing tells."""

    after: str
    verdict: str
    reasons: tuple[str, ...]
    because: tuple[str, ...]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    provable: bool
    because: str
    conditions: tuple[Condition, ...]
    conclusions: tuple[Conclusion, ...]
    troubles: tuple[Trouble, ...]
    dialect: str
    join: Join
    signals: Signals
    toml: str
    asked: tuple[Asked, ...]
    not_asked: tuple[Question, ...]
    requests: int
    took_s: float


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What is probed, and how it is to be called. `mcp` is how it was spoken to, if it is MCP.

    `access` are fields of the source by which it was reached.
    """

    name: str
    url: str
    mcp: Mcp | None = None
    access: Mapping[str, object] = {}


OVERLAP = "overlap"
NOTHING_LOST = "the server goes on where we were"
NO_VERDICT = "none"
_UNKNOWN = {
    Question.BOGUS: "the server does not know our position",
    Question.FUTURE: "the server is behind our position",
    Question.SESSION: "the server does not know our session",
}


def report_on(
    target: Target,
    answers: Sequence[Answer],
    not_asked: Sequence[Question],
    *,
    salt: str,
    waited_s: float,
    requests: int,
    took_s: float,
) -> Report:
    """Return what all answers together mean. `salt` is random: no server has our bogus marks."""
    signals = read_signals(answers)
    events = acknowledged(answers, signals.ignore)
    speech, verdict = _best(target, signals, events, answers)
    mine = tuple(frame for frame in events if speech.counts(frame))
    cursor = _cursor(speech, mine, answers)
    lost = {
        answer.question: rehearse(speech, cursor_of_another(cursor, answer.asked, salt), [answer])
        for answer in answers
        if answer.question.wrong and answer.asked and answer.ending is not Ending.NEVER
    }
    conditions = _conditions(verdict, lost, bool(mine))
    anew = counted_anew(answers, signals)
    differ = resumes_differ(speech, cursor, answers)
    fooled = [question for question, one in lost.items() if _resumed(one)]
    doubt = _doubt(anew=anew, differ=differ, fooled=bool(fooled), shown=_shows(verdict))
    return Report(
        url=without_secrets(target.url),
        provable=_resumed(verdict) and not doubt,
        because=doubt or _because(verdict, answers, mine, waited_s),
        conditions=conditions,
        conclusions=_conclusions(verdict, lost),
        troubles=troubles_in(answers, signals, differ=differ),
        dialect="mcp" if target.mcp is not None else "plain",
        join=speech.join,
        signals=signals,
        toml=toml_for(target.name, target.url, speech, signals, target.access),
        asked=tuple(_shown(answer, mine, answers, salt) for answer in answers),
        not_asked=tuple(not_asked),
        requests=requests,
        took_s=round(took_s, 1),
    )


def _best(
    target: Target, signals: Signals, events: Sequence[Frame], answers: Sequence[Answer]
) -> tuple[Dialect, Verdict | None]:
    """Return the first dialect that fits and can prove a resume, or the first where none can."""
    fitting: Sequence[Dialect] = plain_for(signals)
    if target.mcp is not None:
        fitting = mcp_for(target.mcp, signals)
    tried = []
    for speech in fitting:
        mine = tuple(frame for frame in events if speech.counts(frame))
        verdict = _of_true_resume(speech, mine, answers)
        if _resumed(verdict):
            return speech, verdict
        tried.append((speech, verdict))
    return tried[0]


def _of_true_resume(
    speech: Dialect, events: Sequence[Frame], answers: Sequence[Answer]
) -> Verdict | None:
    """Rehearse a break behind the last event, or before it where nothing came behind it.

    A server that proves itself by what it declares has to bring an event all the same.
    """
    true = [answer for answer in answers if not answer.question.wrong]
    verdict = rehearse(speech, _cursor(speech, events, answers), true)
    if _resumed(verdict) or len(events) < 2:
        return verdict
    before = rehearse(speech, _cursor(speech, events[:-1], answers), true)
    return before if _resumed(before) else verdict


def _cursor(speech: Dialect, events: Sequence[Frame], answers: Sequence[Answer]) -> Cursor:
    first = next((answer for answer in answers if answer.streams), None)
    token = token_in(speech, first) if first is not None else ""
    return cursor_behind(events, token, speech.volatile)


def _resumed(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.kind is Standing.RESUMED


# --- the three conditions -----------------------------------------------------------------------
def _conditions(
    verdict: Verdict | None, lost: Mapping[Question, Verdict | None], seen: bool
) -> tuple[Condition, ...]:
    if verdict is None or not seen:
        nothing = ("no event could be resumed from",)
        return tuple(Condition(facet, Holds.NOT_SHOWN, nothing) for facet in Facet)
    return tuple(_condition(facet, verdict, lost) for facet in Facet)


def _condition(
    facet: Facet, verdict: Verdict, lost: Mapping[Question, Verdict | None]
) -> Condition:
    facts = [fact for fact in verdict.facts if fact.facet is facet]
    against = [fact for fact in facts if fact.finding is Finding.CONTRADICTS]
    proofs = [fact for fact in facts if fact.finding is Finding.PROVES]
    telling = against or proofs or facts
    evidence = [f"{fact.witness}: {fact.reason.meaning}" for fact in telling]
    holds = Holds.NO if against else Holds.YES if proofs else Holds.NOT_SHOWN
    if facet is Facet.COMPLETENESS:
        # That nothing is dropped is worth something only where a position that cannot be served
        # is told from one that can.
        fooled = [question.meaning for question, one in lost.items() if _resumed(one)]
        if fooled:
            holds = Holds.NO
        evidence += [f"taken for a true resume: {one}" for one in fooled]
    return Condition(facet, holds, tuple(dict.fromkeys(evidence)) or ("nothing was said of it",))


def _shows(verdict: Verdict | None) -> bool:
    """Return False for a resume that only names speak for: no probe can see what they are worth."""
    return not _resumed(verdict) or any(
        fact.witness == OVERLAP and fact.finding is Finding.PROVES
        for fact in (verdict.facts if verdict is not None else ())
    )


def _doubt(*, anew: bool, differ: bool, fooled: bool, shown: bool) -> str:
    """Return why a true resume proves nothing, "" where it does."""
    if anew:
        return "an id does not name the same event on each connection"
    if differ:
        return "one resume is continued and the next is not"
    if fooled:
        return "a position that it never gave is answered like a true one"
    if not shown:
        return "only what is named like a generation and a window speaks for it: ask what it is"
    return ""


def _because(
    verdict: Verdict | None,
    answers: Sequence[Answer],
    events: Sequence[Frame],
    waited_s: float,
) -> str:
    first = answers[0]
    if not first.streams:
        return (
            f"the server {read_reply(first.status, first.headers, asked=False, reset=False).text}"
        )
    if not events:
        why = f": the server {first.failure}" if first.failure else ""
        return (
            f"no event came within {waited_s:g} s, and with none there is nothing to resume "
            f"from{why}"
        )
    if verdict is None:
        return "no event has an id that could be resumed from"
    said = "; ".join(reason.meaning for reason in verdict.reasons)
    return f"a true resume would be {verdict.kind}: {said}"


def _conclusions(
    verdict: Verdict | None, lost: Mapping[Question, Verdict | None]
) -> tuple[Conclusion, ...]:
    unknown = [(_UNKNOWN[question], one) for question, one in lost.items()]
    return tuple(_conclusion(after, one) for after, one in [(NOTHING_LOST, verdict), *unknown])


def _conclusion(after: str, verdict: Verdict | None) -> Conclusion:
    if verdict is None:
        return Conclusion(after, NO_VERDICT, (), ("there was nothing to judge",))
    reasons = tuple(reason.value for reason in verdict.reasons)
    because = tuple(reason.meaning for reason in verdict.reasons)
    return Conclusion(after, verdict.kind.value, reasons, because)


# --- what was asked -----------------------------------------------------------------------------
def _shown(answer: Answer, events: Sequence[Frame], answers: Sequence[Answer], salt: str) -> Asked:
    """Return an answer without what it must not show: positions, tokens, data.

    The digest of a position is salted: a number could be found by trying all of them.
    """
    had = {(frame.last_event_id, frame.data) for frame in events if frame.id_seen}
    first = answer is next((one for one in answers if one.streams), None)
    known = [(frame.last_event_id, frame.data) for frame in answer.events]
    position = ""
    if answer.asked:
        position = f"{looks_of(answer.asked)} ({digest_token(salt, answer.asked, chars=6)})"
    return Asked(
        question=answer.question,
        position=position,
        status=answer.status,
        headers_s=round(answer.headers_s, 3),
        events=len(answer.events),
        known=0 if first else sum(one in had for one in known),
        ending=answer.ending,
        failure=answer.failure,
    )
