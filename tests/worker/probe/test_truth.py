"""Servers whose truth is known, and what a probe says of each: the table to read it off."""

import asyncio
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fencepost.settings_file import load_settings
from fencepost_policies.probe.report import NO_VERDICT, Report
from fencepost_policies.probe.troubles import Trouble
from kit.probing import probed
from kit.source import End, Reply, ScriptedSource, sse, stream
from kit.speaker import (
    Event,
    Resume,
    Speaker,
    accepts_and_forgets,
    honest,
    ignores,
    numbered,
    resets,
    unknown_is_none,
)
from kit.tasks import beside

EVERY_S = 0.03


def only_live(speaker: Speaker, asked: str | None) -> Reply | Sequence[Event]:
    """Begin with what is live; a position below all is the beginning."""
    if asked is None:
        return []
    return [event for event in speaker.log if int(event[0]) > int(asked)]


def holds_two(speaker: Speaker, asked: str | None) -> Reply | Sequence[Event]:
    """Hold the last two events, and begin with them wherever a position is that is gone."""
    place = speaker.place(asked)
    oldest = max(0, len(speaker.log) - 2)
    return speaker.log[oldest:] if place is None or place + 1 < oldest else speaker.log[place + 1 :]


def refuses_future(speaker: Speaker, asked: str | None) -> Reply | Sequence[Event]:
    """Accept any position, and end at once where it does not know it."""
    if asked and speaker.place(asked) is None:
        return stream(b": nothing for you\n\n")
    return unknown_is_none(speaker, asked)


def ends_behind_replay(speaker: Speaker, asked: str | None) -> Reply | Sequence[Event]:
    if asked is None:
        return speaker.log
    place = speaker.place(asked)
    return stream(sse(*speaker.log[(len(speaker.log) if place is None else place + 1) :]))


def counted_for_each(number: int, event: Event) -> bytes:
    """Count ids anew on each connection: one id names other events."""
    return sse((str(int(event[0]) + number), event[1]))


def stamped(number: int, event: Event) -> bytes:
    """Write into each event when it was sent."""
    return sse((event[0], json.dumps({**json.loads(event[1]), "sent_at": number})))


def of_a_replica(number: int, event: Event) -> bytes:
    """Send what the replica has under this id; there are two, reached in turn."""
    return sse((event[0], event[1].replace("t-", "u-" if number % 2 else "t-")))


@dataclass
class Case:
    """`verdict` is what fencepost would conclude of a true resume, `lost` of a wrong one."""

    name: str
    server: Callable[[], ScriptedSource]
    provable: bool
    verdict: str
    lost: str = NO_VERDICT
    troubles: tuple[Trouble, ...] = ()
    toml: tuple[str, ...] = field(default=())
    live: bool = False

    def __str__(self) -> str:
        return self.name


def speaker(resume: Resume = honest, **more: Any) -> Callable[[], Speaker]:
    log = more.pop("log", numbered(5))

    def made() -> Speaker:
        return Speaker(list(log), resume, **more)

    return made


DECLARES = {"stream-generation": "gen-7f", "stream-floor": "1"}
UUIDS = [(f"0000000{n}-aaaa-4aaa-8aaa-aaaaaaaaaaaa", f'{{"n":{n}}}') for n in range(5)]
PREFIXED = [(f"boot7-{n}", f'{{"n":{n}}}') for n in range(1, 6)]
BARE = [("", f'{{"n":{n}}}') for n in range(5)]
ALIKE = [(str(n), '{"changed":true}') for n in range(1, 6)]

CASES = (
    Case("refuses what it does not know", speaker(), True, "resumed", "reoriginated"),
    Case(
        "says a reset",
        speaker(resets),
        True,
        "resumed",
        "reoriginated",
        toml=('reset_events = ["stream-reset"]',),
    ),
    Case(
        "declares generation and window",
        speaker(headers=DECLARES),
        True,
        "resumed",
        "reoriginated",
        toml=('generation_header = "stream-generation"', 'window_header = "stream-floor"'),
    ),
    Case(
        "takes the unknown for none",
        speaker(unknown_is_none),
        True,
        "resumed",
        "reoriginated",
        (Trouble.BOGUS_TAKEN_FOR_NONE,),
    ),
    Case(
        "takes the unknown for none, random ids",
        speaker(unknown_is_none, log=UUIDS),
        True,
        "resumed",
        "reoriginated",
        (Trouble.BOGUS_TAKEN_FOR_NONE,),
    ),
    Case("names the boot in its ids", speaker(log=PREFIXED), True, "resumed", "reoriginated"),
    Case(
        "holds two events",
        speaker(holds_two),
        True,
        "resumed",
        "reoriginated",
        (Trouble.BOGUS_TAKEN_FOR_NONE,),
    ),
    Case(
        "begins with what is live, and is quiet",
        speaker(only_live),
        True,
        "resumed",
        "unverifiable",
        (Trouble.SILENT_ON_BOGUS,),
    ),
    Case("ends at the unknown", speaker(refuses_future), True, "resumed", "unverifiable"),
    Case(
        "stamps each event when it sends it",
        speaker(encode=stamped),
        True,
        "resumed",
        "reoriginated",
        toml=('volatile = ["/sent_at"]',),
    ),
    Case(
        "is a black hole for the future",
        speaker(only_live, future_is_dead=True),
        True,
        "resumed",
        "unverifiable",
        (Trouble.BLACK_HOLE,),
        live=True,
    ),
    Case(
        "does not attach a resume to what is live",
        speaker(live_after_replay=False),
        True,
        "resumed",
        "reoriginated",
        (Trouble.LIVE_NOT_ATTACHED,),
        live=True,
    ),
    Case(
        "ends behind the replay",
        speaker(ends_behind_replay),
        True,
        "resumed",
        "unverifiable",
        (Trouble.ENDS_BEHIND_REPLAY,),
    ),
    Case(
        "ignores positions",
        speaker(ignores),
        False,
        "reoriginated",
        "reoriginated",
        (Trouble.POSITION_IGNORED, Trouble.BOGUS_TAKEN_FOR_NONE),
    ),
    Case(
        "accepts positions, and replays nothing",
        speaker(accepts_and_forgets),
        False,
        "unverifiable",
        "unverifiable",
        (Trouble.NOT_REPLAYED, Trouble.SILENT_ON_BOGUS),
    ),
    Case(
        "counts ids for each connection",
        speaker(ignores, encode=counted_for_each),
        False,
        "reoriginated",
        "reoriginated",
        (Trouble.CONNECTION_COUNTER, Trouble.POSITION_IGNORED, Trouble.BOGUS_TAKEN_FOR_NONE),
    ),
    Case(
        "is two replicas with logs of their own",
        speaker(unknown_is_none, encode=of_a_replica),
        False,
        "resumed",
        "reoriginated",
        (Trouble.CONNECTION_COUNTER, Trouble.RESUMES_DIFFER, Trouble.BOGUS_TAKEN_FOR_NONE),
    ),
    Case(
        "gives no ids",
        speaker(ignores, log=BARE),
        False,
        "unverifiable",
        troubles=(Trouble.NO_IDS,),
    ),
    Case(
        "sends events that are all alike",
        speaker(log=ALIKE),
        False,
        "unverifiable",
        "reoriginated",
        (Trouble.ALIKE,),
    ),
    Case(
        "says nothing at all",
        speaker(log=[]),
        False,
        NO_VERDICT,
        troubles=(Trouble.QUIET,),
    ),
    Case(
        "is no event stream",
        lambda: ScriptedSource(Reply((b"<html>",), 200, {"content-type": "text/html"})),
        False,
        NO_VERDICT,
        troubles=(Trouble.WRONG_TYPE,),
    ),
    Case(
        "compresses",
        lambda: ScriptedSource(stream(b"\x1f\x8b", end=End.HANG, content_encoding="gzip")),
        False,
        NO_VERDICT,
        troubles=(Trouble.COMPRESSED, Trouble.QUIET),
    ),
)


async def flow(server: ScriptedSource, live: bool) -> None:
    """Have live events come all the time, where the case wants them."""
    if not live:
        return
    assert isinstance(server, Speaker)
    for number in itertools.count(6):
        await asyncio.sleep(EVERY_S)
        await server.emit(*numbered(1, number))


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_what_a_probe_says_of_a_server(case: Case, tmp_path: Path) -> None:
    async with case.server() as server, beside(flow(server, case.live)):
        report = await probed(server.url)

    assert (case.provable, case.verdict) == (report.provable, report.conclusions[0].verdict)
    assert {case.lost} == ({one.verdict for one in report.conclusions[1:]} or {NO_VERDICT})
    assert set(case.troubles) == set(report.troubles)
    assert [line for line in case.toml if line not in report.toml] == []
    assert report.requests <= 12
    loads(report, tmp_path)


def loads(report: Report, folder: Path) -> None:
    """What is to be pasted is a configuration, and this source's."""
    file = folder / "fencepost.toml"
    file.write_text(report.toml, "utf-8")
    source = load_settings(file, {}, {}).sources["orders"]
    assert report.url == source.url
