"""`python -m fencepost.testing.simulator --seeds 0:200`: play seeds, and say which fail.

It is a command, so it prints; nothing else in the package does.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import msgspec
from rich.console import Console
from rich.progress import track

from fencepost.clock import monotonic_s
from fencepost.testing.simulator.run import run_seed


class Report(msgspec.Struct, frozen=True):
    """What is kept of a seed."""

    seed: int
    violations: list[str]
    virtual_s: float
    tasks: int
    effects: int
    connections: int
    verdicts: dict[str, int]
    questions: int
    answers: int
    faults: int
    trapped: dict[str, int]
    """How often something was done to a process at each crash point."""
    digest: str


def report(seed: int) -> Report:
    outcome = run_seed(seed)
    history = outcome.history
    return Report(
        seed=seed,
        violations=outcome.violations,
        virtual_s=history.virtual_s,
        tasks=len({one.task for one in history.announcements}),
        effects=len(history.effects),
        connections=history.connections,
        verdicts=Counter(one.record.verdict.kind.value for one in history.records),
        questions=len(history.questions),
        answers=len(history.answers),
        faults=len(history.faults),
        trapped=Counter(f"{one.deed} {one.point}" for one in history.trapped),
        digest=outcome.digest,
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fencepost.testing.simulator")
    parser.add_argument(
        "--seeds", type=_seeds, default="0:200", metavar="A:B", help="from A, up to but not B"
    )
    parser.add_argument("--jobs", type=_jobs, default=1, help="processes to play them on")
    parser.add_argument("--verbose", action="store_true", help="the plan and the faults, too")
    parser.add_argument("--json", action="store_true", help="one object a seed")
    options = parser.parse_args()
    began_s = monotonic_s()
    reports = []
    beside = Console(stderr=True)  # away from the results, and on a terminal only
    for one in track(
        _played(options.seeds, options.jobs),
        "playing seeds",
        len(options.seeds),
        console=beside,
        transient=True,
        disable=not beside.is_terminal,
    ):
        reports.append(one)
        _say(one, options.json, options.verbose)
    failing = [one for one in reports if one.violations]
    if not options.json:
        _sum_up(reports, failing, monotonic_s() - began_s)
    return 1 if failing else 0


def _seeds(text: str) -> range:
    """Return the seeds from A up to but not B, or the one that is named."""
    first, _, end = text.partition(":")
    if not first.isdecimal() or not (end.isdecimal() or first == text):
        raise argparse.ArgumentTypeError(f"{text!r} is no A:B, as in 0:200")
    seeds = range(int(first), int(end) if end else int(first) + 1)
    if not seeds:
        raise argparse.ArgumentTypeError(f"{text!r} names no seed: A is to be below B")
    return seeds


def _jobs(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of processes: 1 or more")
    return int(text)


def _played(seeds: range, jobs: int) -> Iterator[Report]:
    if jobs == 1:
        yield from map(report, seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(report, seeds, chunksize=4)


def _say(one: Report, as_json: bool, verbose: bool) -> None:
    if as_json:
        print(msgspec.json.encode(one).decode(), flush=True)  # noqa: T201
        return
    if verbose:
        outcome = run_seed(one.seed)
        print(outcome.plan)  # noqa: T201
        print("\n".join(outcome.history.faults))  # noqa: T201
    for violation in one.violations:
        print(f"seed {one.seed}: {violation}", flush=True)  # noqa: T201
    if one.violations:
        replay = f'make sim ARGS="--seeds {one.seed} --verbose"'
        print(f"  again: {replay}", flush=True)  # noqa: T201


def _sum_up(reports: list[Report], failing: list[Report], took_s: float) -> None:
    virtual_h = sum(one.virtual_s for one in reports) / 3600
    verdicts, trapped = Counter[str](), Counter[str]()
    for one in reports:
        verdicts.update(one.verdicts)
        trapped.update(one.trapped)
    lines = [
        f"{len(reports)} seeds, {virtual_h:.1f} virtual hours, {took_s:.1f} s: "
        f"{len(failing)} failing",
        f"{sum(one.tasks for one in reports)} tasks, "
        f"{sum(one.effects for one in reports)} effects, "
        f"{sum(one.questions for one in reports)} questions, "
        f"{sum(one.answers for one in reports)} answers",
        f"{sum(one.connections for one in reports)} connections, verdicts: {_counts(verdicts)}",
        f"{sum(one.faults for one in reports)} faults; at crash points: {_counts(trapped)}",
    ]
    print("\n".join(lines))  # noqa: T201


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counter.items()))


if __name__ == "__main__":
    sys.exit(main())
