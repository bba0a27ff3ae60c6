"""`fencepost demo`: the incident, played by a naive client and by fencepost on the same servers."""

import importlib.util
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import typer

from fencepost.cli.options import JsonOption
from fencepost.cli.output import log_to_stderr, print_json, print_table
from fencepost.cli.processes import run
from fencepost.demo.acts import ACTS, Act
from fencepost.demo.stage import FENCEPOST, NAIVE, set_stage
from fencepost.demo.tally import Tally, count, executions
from fencepost.errors import NotFine, UsageError
from fencepost_schemas.verdict import EpochRecord

CLEAR_S = 20.0
"""For the stage to be cleared where a signal ends the play."""
HEADINGS = {
    "emitted": "emitted",
    "once": "executed once",
    "twice": "executed twice",
    "lost": "lost without a trace",
    "in_gap": "inside a recorded gap",
    "waiting": "waiting for an answer",
}


class Played(msgspec.Struct, frozen=True):
    """What an act came to."""

    naive: Tally
    fencepost: Tally
    records: list[EpochRecord]


def demo(as_json: JsonOption = False) -> None:
    """Play the incident on real servers, and count what became of every task."""
    log_to_stderr(quiet=True)
    if importlib.util.find_spec("mcp") is None:
        raise UsageError("the demo's MCP server is not installed: pip install 'fencepost[demo]'")
    played: dict[str, Played] = {}
    with tempfile.TemporaryDirectory(prefix="fencepost-demo-") as folder:
        for number, act in enumerate(ACTS, 1):
            _say(f"act {number} of {len(ACTS)}: {act.name}")
            stage_folder = Path(folder) / f"act{number}"
            stage_folder.mkdir()
            played[act.name] = run(_play(act, stage_folder), CLEAR_S)
    _print_tables(played)
    if as_json:
        print_json({"acts": {name: _as_document(one) for name, one in played.items()}})
    wrong = [name for name, one in played.items() if one.fencepost.twice or one.fencepost.lost]
    if wrong:
        raise NotFine(f"fencepost did work twice or lost it in: {', '.join(wrong)}")


async def _play(act: Act, folder: Path) -> Played:
    async with set_stage(folder, act.cast, list(act.replicas)) as stage:
        await act.play(stage, lambda text: _say(f"  {text}"))
        records = await stage.records()
        return Played(
            naive=count(stage.log(NAIVE), executions(stage.sink(NAIVE))),
            fencepost=count(
                stage.log(FENCEPOST),
                executions(stage.sink(FENCEPOST)),
                await stage.waiting(),
                records,
            ),
            records=records,
        )


def _say(text: str) -> None:
    """Report progress, away from the results."""
    typer.echo(text, err=True)


def _print_tables(played: dict[str, Played]) -> None:
    rows = []
    for name, one in played.items():
        for client, tally in ((NAIVE, one.naive), (FENCEPOST, one.fencepost)):
            numbers = msgspec.structs.asdict(tally)
            rows.append([name, client, *(str(numbers[column]) for column in HEADINGS)])
    print_table(["act", "client", *HEADINGS.values()], rows)
    typer.echo("")
    facts = []
    for name, one in played.items():
        for number, record in enumerate(one.records, 1):
            facts.append([name, str(number), record.verdict.kind.value, _because(record)])
    print_table(["act", "connection", "verdict", "because"], facts)


def _because(record: EpochRecord) -> str:
    """Return the facts behind a verdict in one line."""
    if not record.verdict.facts:
        return ", ".join(reason.meaning for reason in record.verdict.reasons)
    return "; ".join(
        f"{fact.witness} {fact.finding} {fact.facet}"
        + (f" ({fact.expected} -> {fact.observed})" if fact.observed else "")
        for fact in record.verdict.facts
    )


def _as_document(one: Played) -> dict[str, Any]:
    fencepost = msgspec.structs.asdict(one.fencepost)
    fencepost["verdicts"] = [
        {**msgspec.to_builtins(record.verdict), "gap": msgspec.to_builtins(record.gap)}
        for record in one.records
    ]
    return {NAIVE: msgspec.structs.asdict(one.naive), FENCEPOST: fencepost}
