"""Public bugs of streams and their clients: what each server does, and what the bridge makes of it.

A row is the bug's number in the list; 3, 9 and 16 are not in use there.
"""

from kit.hostile import (
    COMMAND,
    HANG,
    HEAD,
    Case,
    Step,
    bare,
    event,
    live,
    ok,
    raw,
    scripted,
    status,
)
from kit.hostile_checks import (
    backs_off,
    gaps,
    leaves_it_all_behind,
    never_resumed,
    payloads,
    renewed,
    waited,
)
from kit.source import stream

ROWS = tuple(str(number) for number in range(1, 27) if number not in (3, 9, 16))
LIMITS = {"line_bytes_max": 1_000, "event_bytes_max": 4_000}
INTEGER = {"scheme": "integer"}
DRIP: list[Step] = [b"x", 1.0] * 30

CASES = [
    Case(
        "1",
        "evicted-id",
        scripted(bare(1, 2, 3), bare(8, 9), bare(8, 9, 10)),
        verdicts=("genesis", "reoriginated"),
        reasons=("overlap_missed",),
        plain=INTEGER,
    ),
    *(
        Case(
            row,
            name,
            scripted(bare(1, 2), *[bare(end=HANG)] * 3, bare(9)),
            asked=(None, "1"),
            verdicts=("genesis", "unverifiable"),
            reasons=("overlap_silent",),
            plain=INTEGER,
            also=never_resumed,
        )
        for row, name in (("2", "never-found"), ("5", "never-seen"))
    ),
    Case(
        "4",
        "lost-at-the-join",
        scripted(bare(1, 2, 3), bare(2, 3, 6), bare(2, 3, 4, 5, 6, 7, end=HANG)),
        keys=("1", "2", "3", "6", "4", "5", "7"),
        verdicts=("genesis", "resumed", "resumed"),
        reasons=("join_recovered",),
        plain=INTEGER,
    ),
    Case(
        "6",
        "replay-only",
        scripted(bare(1, 2), bare(2, 3, end=HANG), bare(2, 3, 4, end=HANG)),
        keys=("1", "2", "3", "4"),
        verdicts=("genesis", "resumed", "resumed"),
        said=("went silent",),
        plain=INTEGER,
    ),
    Case(
        "7",
        "dropped-twice",
        scripted(ok(1), ok(), live(2)),
        keys=("1", "2"),
        asked=(None, "1", "1"),
        verdicts=("genesis", "resumed"),
    ),
    Case(
        "8",
        "control-frames-with-ids",
        scripted(
            stream(event(1), b"event: job.status\nid: 7\ndata: {}\n\n", gen="g", floor="1"),
            live(2),
        ),
        keys=("1", "2"),
        asked=(None, "1"),
        verdicts=("genesis", "resumed"),
        plain={
            **INTEGER,
            "generation_header": "gen",
            "window_header": "floor",
            "ignore": ["job.status"],
        },
    ),
    Case(
        "10",
        "ids-of-each-connection",
        scripted(bare(0, 1, 2), bare(0, 1, 2), bare(0, 1, 2)),
        verdicts=("genesis", "reoriginated"),
        plain=INTEGER,
        also=never_resumed,
    ),
    Case(
        "11",
        "buffer-cleared",
        scripted(bare(1, 2, 3), bare(4), bare(4, 5)),
        verdicts=("genesis", "reoriginated"),
        reasons=("overlap_missed",),
        plain=INTEGER,
    ),
    Case(
        "12",
        "heartbeat-behind-an-id",
        scripted(
            stream(event(1), b": ping\n\n", b": ping\n\n", event(2), gen="g", floor="1", end=HANG)
        ),
        keys=("1", "2"),
        also=payloads('{"k":"1"}', '{"k":"2"}'),
    ),
    Case(
        "13",
        "line-ends",
        raw(
            [
                HEAD,
                b"\r\nid: 1\rdata: B\r",
                0.2,
                b"\n",
                0.2,
                b"data: C\r\n\r",
                0.2,
                b"\nid: 2\rdata: D\r\r",
                HANG,
            ]
        ),
        also=payloads("B\nC", "D"),
        wants=lambda seen: len(seen.events) == 2,
    ),
    Case(
        "14",
        "line-separator",
        scripted(stream("id: 1\ndata: a\u2028b\n\n".encode(), gen="g", floor="1", end=HANG)),
        also=payloads("a\u2028b"),
        wants=lambda seen: len(seen.events) == 1,
    ),
    Case(
        "15",
        "torn-characters",
        raw([HEAD, b"\r\n\xef\xbb", 0.2, b"\xbfid: 1\ndata: \xe2", 0.2, b"\x82\xac\n\n", HANG]),
        also=payloads("\u20ac"),
        wants=lambda seen: len(seen.events) == 1,
    ),
    Case(
        "17",
        "endless-line",
        scripted(
            stream(event(1), b"data: ", *[b"x" * 500] * 100, gen="g", floor="1"),
            stream(b"data: ", *[b"x" * 500] * 100, gen="g", floor="1"),
        ),
        keys=("1",),
        requests=3,
        said=("3 times at the same place: raise sources.endless-line.line_bytes_max",),
        fields=LIMITS,
    ),
    Case(
        "17",
        "endless-event",
        scripted(
            stream(event(1), *[b"data: xxxxxxxx\n"] * 1_000, gen="g", floor="1"),
            stream(*[b"data: xxxxxxxx\n"] * 1_000, gen="g", floor="1"),
        ),
        keys=("1",),
        requests=3,
        said=("raise sources.endless-event.event_bytes_max",),
        fields=LIMITS,
    ),
    Case(
        "18",
        "retry-zero",
        scripted(stream(b"retry: 0\n\n")),
        wants=lambda seen: len(seen.at_s) > 16,
        also=backs_off,
    ),
    Case(
        "18",
        "retry-for-ever",
        scripted(stream(event(1), b"retry: 99999999999\n\n", gen="g", floor="1"), live(2)),
        keys=("1", "2"),
        also=waited(2.0),
    ),
    Case(
        "19",
        "accept-then-close",
        scripted(ok()),
        wants=lambda seen: len(seen.at_s) > 16,
        also=backs_off,
    ),
    Case(
        "19",
        "accept-then-cut",
        raw([HEAD, b"\r\n"]),
        wants=lambda seen: len(seen.at_s) > 16,
        also=backs_off,
    ),
    Case(
        "20",
        "back-after-a-restart",
        scripted(ok(1), *[status(503, retry_after="1")] * 2, live(2)),
        keys=("1", "2"),
        asked=(None, "1", "1", "1"),
        verdicts=("genesis", "resumed"),
        wants=lambda seen: len(gaps(seen)) == 3 and min(gaps(seen)[1:]) > 1.0,
    ),
    Case(
        "21",
        "half-open",
        scripted(live(1), live(2)),
        keys=("1", "2"),
        asked=(None, "1"),
        verdicts=("genesis", "resumed"),
        said=("went silent",),
    ),
    Case(
        "21",
        "a-byte-a-second",
        raw(
            [HEAD, b"\r\n", event(1), b"id: 2\ndata: ", *DRIP],
            [HEAD, b"\r\n", event(2), HANG],
        ),
        keys=("1", "2"),
        verdicts=("genesis", "resumed"),
        said=("took longer than 5 s over one event",),
    ),
    Case(
        "22",
        "twenty-in-one-read",
        raw([HEAD, b"\r\n", 2.0, event(*range(1, 21)), HANG]),
        keys=tuple(str(number) for number in range(1, 21)),
    ),
    Case(
        "22",
        "compressed-unasked",
        scripted(live(content_encoding="gzip"), live(1)),
        keys=("1",),
        said=("sent content-encoding 'gzip', unasked",),
    ),
    Case(
        "23",
        "cut-by-a-balancer",
        scripted(ok(1), ok(2), ok(3), live(4)),
        keys=("1", "2", "3", "4"),
        asked=(None, "1", "2", "3"),
        verdicts=("genesis", "resumed", "resumed", "resumed"),
    ),
    Case(
        "24",
        "redirect-allowed",
        scripted(ok(1, 2), status(307, location="http://localhost:{port}/b"), live(9)),
        keys=("1", "2", "9"),
        asked=(None, "2", None),
        verdicts=("genesis", "reoriginated"),
        reasons=("position_withheld",),
        fields={"redirects": "any", "allow_private": True, "headers": {"X-Api-Key": "s3cret"}},
        also=leaves_it_all_behind,
    ),
    Case(
        "25",
        "token-expired",
        scripted(ok(1), status(401), live(2)),
        keys=("1", "2"),
        asked=(None, "1", "1"),
        verdicts=("genesis", "resumed"),
        fields={"credentials": {"command": COMMAND, "keep_s": 60.0}},
        also=renewed,
    ),
    Case(
        "26",
        "event-without-an-id",
        scripted(stream(b"id: 1\ndata: a\n\ndata: b\n\n", gen="g", floor="1"), live(2)),
        asked=(None, "1"),
        verdicts=("genesis", "unverifiable"),
    ),
]
