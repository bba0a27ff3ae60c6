"""The decoder beside those of other Python libraries, on the same bytes: `make bench`.

It runs in an environment of its own that holds them (decoder.lock); what is missing there is left
out and said. All take turns in one process, and what counts is the ratio to the fastest of the
others, in CPU time. The last lines ask whether twice the bytes take twice the time.
"""

import argparse
import codecs
import gc
import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fencepost_schemas.sse import Decoder

KIB = 1024
MIB = 1024 * KIB
READ_BYTES = 64 * KIB
SMALL_EVENTS = 40_000
TARGET = 0.9
LINEAR_ROUNDS = 4
"""For each round of the others: these take milliseconds, and one look elsewhere spoils them."""
LINEAR_MOST = 6.0
"""Four times the bytes may take so many times the time: a quadratic reader takes sixteen times."""

Reader = Callable[[list[bytes]], int]
"""Reads the pieces of a stream and returns how many events came out."""


def fencepost(pieces: list[bytes]) -> int:
    decoder = Decoder(line_bytes_max=32 * MIB, event_bytes_max=32 * MIB)
    return sum(frame.data is not None for piece in pieces for frame in decoder.feed(piece))


def httpx_sse() -> Reader:
    decoders = importlib.import_module("httpx_sse._decoders")

    def read(pieces: list[bytes]) -> int:
        lines, events = decoders.SSELineDecoder(), decoders.SSEDecoder()
        texts = _texts(pieces)
        decoded = (
            events.decode(line.rstrip("\n")) for text in texts for line in lines.decode(text)
        )
        return sum(event is not None for event in decoded)

    return read


def launchdarkly() -> Reader:
    reader = importlib.import_module("ld_eventsource.reader")

    def read(pieces: list[bytes]) -> int:
        lines = reader._BufferedLineReader.lines_from(pieces)
        return sum(1 for _ in reader._SSEReader(lines).events_and_comments())

    return read


def httpx2() -> Reader:
    sse = importlib.import_module("httpx2._sse")

    def read(pieces: list[bytes]) -> int:
        parser = sse._SSEParser(32 * MIB)
        return sum(1 for text in _texts(pieces) for _ in parser.decode(text))

    return read


def _texts(pieces: Iterable[bytes]) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return (decoder.decode(piece) for piece in pieces)


OTHERS: dict[str, Callable[[], Reader]] = {
    "httpx-sse": httpx_sse,
    "launchdarkly-eventsource": launchdarkly,
    "httpx2": httpx2,
}


def small(eol: str) -> bytes:
    """Return events of some 110 bytes, with an id, a type and JSON."""
    pad = "x" * 48
    return "".join(
        f'id: {number}{eol}event: task{eol}data: {{"k":"t{number:08d}","p":"{pad}"}}{eol}{eol}'
        for number in range(SMALL_EVENTS)
    ).encode()


def one_event(data_bytes: int) -> bytes:
    return b"id: 1\ndata: " + b"x" * data_bytes + b"\n\n"


def many_lines(count: int) -> bytes:
    return b"id: 1\n" + b'data: {"k":"a line of an event"}\n' * count + b"\n"


def readers() -> dict[str, Reader]:
    found: dict[str, Reader] = {"fencepost": fencepost}
    for name, make in OTHERS.items():
        try:
            found[name] = make()
        except (ImportError, AttributeError) as error:
            print(f"  {name} is left out: {error}", file=sys.stderr)
    return found


def seconds(read: Reader, pieces: list[bytes], expected: int) -> float:
    gc.collect()
    began_s = time.process_time()
    events = read(pieces)
    taken_s = time.process_time() - began_s
    if events != expected:
        raise SystemExit(f"{events} events came out, not {expected}")
    return taken_s


def cut(stream: bytes, size: int = READ_BYTES) -> list[bytes]:
    return [stream[at : at + size] for at in range(0, len(stream), size)]


def compare(name: str, stream: bytes, expected: int, rounds: int) -> dict[str, Any]:
    """Return the median speeds, all readers having taken turns, and the ratio to the fastest."""
    pieces, found = cut(stream), readers()
    taken: dict[str, list[float]] = {who: [] for who in found}
    for number in range(rounds + 1):
        for who, read in found.items():
            spent = seconds(read, pieces, expected)
            if number:  # the first round warms up
                taken[who].append(spent)
    speeds = {who: len(stream) / MIB / statistics.median(spent) for who, spent in taken.items()}
    ours, others = speeds["fencepost"], {k: v for k, v in speeds.items() if k != "fencepost"}
    fastest = max(others, key=lambda who: others[who], default="")
    return {
        "case": name,
        "mib_per_s": {who: round(speed, 1) for who, speed in speeds.items()},
        "events_per_s": round(expected / statistics.median(taken["fencepost"])),
        "fastest": fastest,
        "ratio": round(ours / others[fastest], 3) if fastest else None,
        "target": TARGET,
    }


def linear(name: str, quarter: bytes, whole: bytes, rounds: int) -> dict[str, Any]:
    """Return how many times longer the whole takes than its quarter, each at its quickest."""
    taken: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(rounds * LINEAR_ROUNDS):
        for is_whole, stream in ((False, quarter), (True, whole)):
            taken[is_whole].append(seconds(fencepost, cut(stream, 16 * KIB), 1))
    times = min(taken[True]) / min(taken[False])
    speed = len(whole) / MIB / min(taken[True])
    return {"case": name, "mib_per_s": round(speed, 1), "times": round(times, 2)}


def measure(rounds: int) -> list[dict[str, Any]]:
    return [
        compare("small events, LF", small("\n"), SMALL_EVENTS, rounds),
        compare("small events, CRLF", small("\r\n"), SMALL_EVENTS, rounds),
        linear("one event of 2, then 8 MiB", one_event(2 * MIB), one_event(8 * MIB), rounds),
        linear("5,000, then 20,000 data lines", many_lines(5_000), many_lines(20_000), rounds),
    ]


def show(lines: list[dict[str, Any]]) -> None:
    for line in lines:
        if "times" in line:
            within = "linear" if line["times"] <= LINEAR_MOST else "NOT LINEAR"
            print(f"{line['case']:32} {line['mib_per_s']:8} MiB/s  x{line['times']}  {within}")
            continue
        speeds = "  ".join(f"{who} {speed}" for who, speed in line["mib_per_s"].items())
        print(f"{line['case']:32} {speeds} MiB/s")
        print(f"{'':32} ratio {line['ratio']} to {line['fastest']}, target {line['target']}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    found = measure(chosen.rounds)
    if chosen.json:
        print(json.dumps(found))
    else:
        show(found)
