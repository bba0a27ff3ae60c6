"""Sources and their lineages in words, for a person."""

from fencepost.clock import iso_time
from fencepost.desk.lineages import Generation, SourceEntry, SourceReport
from fencepost_schemas.cursor import KnownLoss
from fencepost_schemas.evidence import Fact
from fencepost_schemas.verdict import Gap, gap_id

SOURCE_COLUMNS = ["source", "state", "generation", "standing", "last verdict", "last event", "gaps"]
_STEPS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def source_cells(entry: SourceEntry, now_ms: int) -> list[str]:
    return [
        entry.source,
        f"{entry.state} {entry.why}".strip(),
        entry.generation or "-",
        entry.standing or "-",
        _verdict(entry),
        f"{age(now_ms - entry.last_event_ms)} ago" if entry.last_event_ms is not None else "-",
        _gaps(entry),
    ]


def age(elapsed_ms: int) -> str:
    """Return a span of time in the largest unit that it fills; what lies ahead is 0 s."""
    elapsed_s = max(0, elapsed_ms // 1000)
    size, unit = next((step for step in _STEPS if elapsed_s >= step[0]), _STEPS[-1])
    return f"{elapsed_s // size} {unit}"


def described_source(report: SourceReport, limit: int) -> list[list[str]]:
    """Return a source line by line, as (what, is); of its generations only the newest."""
    entry = report.entry
    rows = [
        ["source", entry.source],
        ["state", f"{entry.state} {entry.why}".strip()],
        ["generation", entry.generation or "-"],
        ["standing", entry.standing or "-"],
        ["position", entry.position or "-"],
        ["last verdict", _verdict(entry)],
        ["last event", iso_time(entry.last_event_ms) if entry.last_event_ms is not None else "-"],
        ["gaps", _gaps(entry)],
    ]
    if entry.loss is not None:
        rows += _loss_rows(entry.loss, report.loss_facts)
    if report.note:
        rows.append(["note", report.note])
    if report.rebaseline:
        rows.append(["goes on from", f"{report.rebaseline}, with its next connection"])
    shown = report.generations[-limit:]
    if len(shown) < len(report.generations):
        left_out = len(report.generations) - len(shown)
        rows.append(["", f"{left_out} older generations: --limit {len(report.generations)}"])
    for generation in shown:
        rows += _described_generation(entry.source, generation)
    return rows


def _described_generation(source: str, one: Generation) -> list[list[str]]:
    rows = [
        [one.generation, f"{one.verdict}, opened {iso_time(one.opened_ms)} by {one.bridge}"],
        ["  parent", one.parent or "-"],
        ["  standing", one.standing],
        ["  connections", str(one.connections)],
    ]
    rows += [["  because", f"{reason}: {reason.meaning}"] for reason in one.reasons]
    if one.asked:
        rows.append(["  asked from", one.asked])
    rows += [["  fact", _described_fact(fact)] for fact in one.facts]
    if one.gap is not None:
        rows.append(["  gap", _described_gap(source, one.gap)])
    rows += [["  gap at a join", _described_gap(source, gap)] for gap in one.join_gaps]
    if one.ruling is not None:
        rows.append(["  ruling", f"{one.ruling}: {one.ruling.meaning}"])
    return rows


def _described_fact(fact: Fact) -> str:
    return (
        f"{fact.witness} {fact.finding} {fact.facet}: {fact.reason}, "
        f"expected {fact.expected!r}, saw {fact.observed!r}"
    )


def _described_gap(source: str, gap: Gap) -> str:
    """Return its ends, and its id: by that the ledger knows what a reconciler made of it."""
    if gap.empty:
        return "nothing can be missing"
    after = f"after {gap.after_generation} {gap.after_position or '(nothing)'}"
    before = f"before {gap.before_generation} {gap.before_position or '(its first)'}"
    if not gap.has_end:
        before = "its end is not known yet"
    exact = ["exactly"] if gap.exact else []
    return ", ".join([after, before, *exact, gap_id(source, gap)])


def _verdict(entry: SourceEntry) -> str:
    if entry.verdict is None:
        return "-"
    return f"{entry.verdict} ({', '.join(entry.reasons)})"


def _gaps(entry: SourceEntry) -> str:
    told = f"{entry.gaps}, {entry.open_gaps} open" if entry.gaps else "0"
    return f"{told}; {_described_loss(entry.loss)}" if entry.loss is not None else told


def _described_loss(loss: KnownLoss) -> str:
    """Say what is gone since the last event, before the next one tells of it by its verdict."""
    count = f"at least {loss.missing} events are" if loss.missing else "events are"
    return f"{count} gone since the last one ({', '.join(loss.reasons)}), not judged yet"


def _loss_rows(loss: KnownLoss, facts: tuple[Fact, ...]) -> list[list[str]]:
    """Return since when that is known and why, line by line."""
    return [
        ["not judged yet", f"since {iso_time(loss.since_ms)}: a verdict needs the next event"],
        *(["  because", f"{reason}: {reason.meaning}"] for reason in loss.reasons),
        *(["  fact", _described_fact(fact)] for fact in facts),
    ]
