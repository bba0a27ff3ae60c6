"""A probe's report in words, line by line, for a person."""

from collections.abc import Iterable

from fencepost_policies.probe.answers import Ending
from fencepost_policies.probe.ids import Kind
from fencepost_policies.probe.report import Asked, Holds, Report
from fencepost_policies.probe.signals import Signals
from fencepost_schemas.evidence import Facet

CONDITIONS = {
    Facet.IDENTITY: "it is the same log",
    Facet.POSITION: "it goes on right behind what we had",
    Facet.COMPLETENESS: "nothing in between is dropped",
}
HOLDS = {Holds.YES: "yes", Holds.NO: "NO", Holds.NOT_SHOWN: "not shown"}
JOINS = {
    "atomic": "loses nothing",
    "racy": "is audited by a second replay",
    "unknown": "not known; each resume looks at the one before",
}
ENDINGS = {
    Ending.OPEN: "",
    Ending.ENDED: "then it ended",
    Ending.BROKE: "then it broke off",
    Ending.NEVER: "no answer",
}


def described_report(report: Report) -> list[str]:
    """Return the report without what is to be pasted, which is not to be broken into lines."""
    answer = "a break can be proven" if report.provable else "a break cannot be proven"
    return [
        f"{report.url}: {answer}",
        f"  {report.because}",
        "",
        "The three conditions",
        *_conditions(report),
        "",
        "What fencepost would conclude after a break, if",
        *_conclusions(report),
        "",
        "What the server shows",
        *(f"  {line}" for line in _signals(report.signals)),
        f"  the step from replayed to live events: {JOINS[report.join]}",
        *_troubles(report),
        "",
        f"What was asked ({report.requests} requests, {report.took_s:g} s)",
        *(f"  {_asked(one)}" for one in report.asked),
        *(f"  {one.meaning}: not asked, the bounds are reached" for one in report.not_asked),
        "",
        "To paste into fencepost.toml",
        "",
    ]


def _conditions(report: Report) -> Iterable[str]:
    for condition in report.conditions:
        yield f"  {condition.facet}, {CONDITIONS[condition.facet]}: {HOLDS[condition.holds]}"
        yield from (f"    {line}" for line in condition.evidence)


def _conclusions(report: Report) -> Iterable[str]:
    for conclusion in report.conclusions:
        yield f"  {conclusion.after}: {conclusion.verdict}"
        yield from (f"    {line}" for line in conclusion.because)


def _signals(signals: Signals) -> Iterable[str]:
    shape = signals.shape
    dense = {True: ", each the successor of the last", False: ", with holes", None: ""}[shape.dense]
    yield f"ids: {shape.kind}{dense}" + (f", like {shape.looks}" if shape.looks else "")
    tokens = (
        ("generation, by its name", signals.generation_header, "header"),
        ("generation, by its name", signals.generation_pointer, "data at"),
        ("oldest id held, by its name", signals.window_header, "header"),
        ("position repeated", signals.echo_header, "header"),
        ("key, by its name", signals.key, "data at"),
    )
    yield from (f"{what}: {where} {name}" for what, name, where in tokens if name)
    lists = (
        ("reset events", signals.reset_events),
        ("no events at all", signals.ignore),
        ("heartbeats", signals.heartbeats),
        ("differs each time an event is sent", signals.comparison.volatile),
    )
    yield from (f"{what}: {', '.join(names)}" for what, names in lists if names)
    if shape.kind is not Kind.NONE and not signals.comparison.twice:
        yield "no event was seen twice"


def _troubles(report: Report) -> Iterable[str]:
    if report.troubles:
        yield from ("", "Beware")
        yield from (f"  {trouble}: {trouble.meaning}" for trouble in report.troubles)


def _asked(one: Asked) -> str:
    position = f" {one.position}" if one.position else ""
    parts = [f"{one.status} after {one.headers_s:g} s" if one.status else one.failure]
    if one.status == 200:
        known = f", {one.known} of them known" if one.position else ""
        parts.append(f"{one.events} events{known}")
    parts += [ENDINGS[one.ending] if one.status else "", one.failure if one.status else ""]
    return f"{one.question.meaning}{position}: " + "; ".join(part for part in parts if part)
