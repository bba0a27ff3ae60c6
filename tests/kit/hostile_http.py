"""The table of HTTP, row by row: what a server may answer, and what the bridge makes of it."""

from kit.hostile import COMMAND, HANG, HEAD, Case, Step, event, live, ok, raw, scripted, status
from kit.hostile_checks import never_resumed, only_one, posts_the_same, sends_what_is_ours, waited
from kit.source import End, Reply, stream

ROWS = (
    "200 and the type of a stream",
    "200 and another type",
    "204, and its neighbours",
    "a redirect",
    "a redirect to nowhere",
    "401 and 403",
    "a position refused",
    "409",
    "429 and 503 with Retry-After",
    "5xx, a reset, a cut",
    "a clean end",
    "headers late",
    "the headers of a request",
    # What a reconnect sends.
    "the id of the last event with one is sent",
    "an empty id is no header",
    "method and body are sent again",
    "half a message is dropped, and its id with it",
    "any byte breaks the silence",
    # What no table has.
    "too many headers",
    "a body without an end",
    "an endless head",
)
HTML = Reply([b"<html>"], headers={"content-type": "text/html"})
NOTIFICATION = b'id: a\ndata: {"jsonrpc":"2.0","method":"notifications/x","params":{"k":"1"}}\n\n'
BEATS: list[Step] = [b"\n", 1.0] * 9

CASES = [
    *(
        Case(
            "200 and the type of a stream",
            f"type-{name}",
            scripted(live(1, 2, content_type=text)),
            keys=("1", "2"),
            also=sends_what_is_ours,
        )
        for name, text in (
            ("upper", "TEXT/Event-Stream"),
            ("parameter", "text/event-stream;charset=latin-1"),
            ("semicolon", "text/event-stream;"),
        )
    ),
    Case(
        "200 and another type",
        "html-at-first",
        scripted(HTML),
        requests=1,
        said=("answered 200 with text/html where text/event-stream is due",),
    ),
    Case(
        "200 and another type",
        "html-later",
        scripted(ok(1), HTML, live(2)),
        keys=("1", "2"),
        asked=(None, "1", "1"),
        verdicts=("genesis", "resumed"),
        said=("answered 200 with text/html",),
    ),
    Case(
        "200 and another type",
        "almost-the-type",
        scripted(live(1, content_type="text/event-streamer")),
        requests=1,
        said=("with text/event-streamer where",),
    ),
    Case(
        "204, and its neighbours",
        "no-content",
        scripted(status(204)),
        requests=1,
        said=("answered 204, which means: do not come back",),
    ),
    Case(
        "204, and its neighbours",
        "no-content-later",
        scripted(ok(1), status(204)),
        keys=("1",),
        requests=2,
        said=("answered 204, which means: do not come back",),
    ),
    Case(
        "204, and its neighbours",
        "neighbours-of-204",
        scripted(status(205), status(210), status(299), live(1)),
        keys=("1",),
        said=("answered 205", "answered 210", "answered 299"),
    ),
    *(
        Case(
            "a redirect",
            f"redirect-{code}",
            scripted(ok(1), status(code, location="/b?x=1"), live(2)),
            keys=("1", "2"),
            asked=(None, "1", "1"),
            verdicts=("genesis", "resumed"),
        )
        for code in (301, 302, 303, 307, 308)
    ),
    Case(
        "a redirect",
        "redirect-elsewhere",
        scripted(status(307, location="http://localhost:{port}/b?token=s3cret")),
        requests=1,
        said=("redirects to http://localhost:", "put the final url in the configuration"),
    ),
    Case(
        "a redirect",
        "redirect-loop",
        scripted(*[status(307, location="/events")] * 6, live(1)),
        keys=("1",),
        said=("redirects more than 5 times in a row",),
    ),
    Case(
        "a redirect to nowhere",
        "redirect-nowhere",
        scripted(status(302), live(1)),
        keys=("1",),
        said=("answered 302 without saying where to",),
    ),
    *(
        Case(
            "401 and 403",
            f"refused-{code}-at-first",
            scripted(status(code)),
            requests=1,
            said=(f"answered {code}: check the source's credentials",),
        )
        for code in (401, 403)
    ),
    Case(
        "401 and 403",
        "refused-all-the-same",
        scripted(ok(1), *[status(401)] * 4, live(2)),
        keys=("1", "2"),
        asked=(None, "1", "1", "1", "1", "1"),
        verdicts=("genesis", "resumed"),
        said=("answered 401: check the source's credentials",),
        fields={"credentials": {"command": COMMAND, "keep_s": 60.0}},
    ),
    *(
        Case(
            "409" if code == 409 else "a position refused",
            f"position-{code}",
            scripted(ok(1), status(code), live(7, gen="h")),
            keys=("1", "7"),
            asked=(None, "1", None),
            verdicts=("genesis", "reoriginated"),
            reasons=("reset_status",),
        )
        for code in (400, 404, 409, 410, 412, 416)
    ),
    *(
        Case(
            "429 and 503 with Retry-After",
            f"retry-after-{code}",
            scripted(status(code, retry_after="2"), live(1)),
            keys=("1",),
            said=(f"answered {code}; trying again later",),
            also=waited(2.0),
        )
        for code in (429, 503)
    ),
    Case(
        "429 and 503 with Retry-After",
        "retry-after-session",
        scripted(
            status(503, retry_after="2"),
            Reply(
                [b'{"jsonrpc":"2.0","id":"x","result":{}}'],
                headers={"content-type": "application/json", "mcp-session-id": "s"},
            ),
            status(202),
            stream(NOTIFICATION, end=HANG),
        ),
        keys=("1",),
        said=("the source answered initialize with 503",),
        fields={"dialect": "mcp", "key": "/params/k"},
        also=waited(2.0),
    ),
    Case(
        "429 and 503 with Retry-After",
        "retry-after-date",
        scripted(
            status(
                503,
                date="Sun, 06 Nov 1994 12:00:00 GMT",
                retry_after="Sun, 06 Nov 1994 12:00:02 GMT",
            ),
            live(1),
        ),
        keys=("1",),
        also=waited(2.0),
    ),
    Case(
        "5xx, a reset, a cut",
        "server-errors",
        scripted(ok(1), status(500), status(502), status(504), live(2)),
        keys=("1", "2"),
        asked=(None, "1", "1", "1", "1"),
        verdicts=("genesis", "resumed"),
    ),
    Case(
        "5xx, a reset, a cut",
        "closed-without-a-word",
        raw([], [HEAD, b"\r\n", event(1), HANG]),
        keys=("1",),
        said=("broke off in the middle of the response",),
    ),
    Case(
        "5xx, a reset, a cut",
        "cut-in-the-body",
        scripted(ok(1, 2, end=End.BREAK), live(3)),
        keys=("1", "2", "3"),
        verdicts=("genesis", "resumed"),
        said=("broke off in the middle of the response",),
    ),
    Case(
        "a clean end",
        "ended-by-closing",
        raw([HEAD, b"\r\n", event(1), b"id: 2\ndata: {}"], [HEAD, b"\r\n", event(2), HANG]),
        keys=("1", "2"),
        asked=(None, "1"),
        verdicts=("genesis", "resumed"),
    ),
    Case(
        "headers late",
        "headers-late",
        raw([1.5, HEAD, b"\r\n", event(1), HANG]),
        keys=("1",),
        also=only_one,
    ),
    Case(
        "headers late",
        "headers-never",
        raw([HANG], [HEAD, b"\r\n", event(1), HANG]),
        keys=("1",),
        said=("sent no response headers in time",),
    ),
    Case(
        "the headers of a request",
        "request-headers",
        scripted(ok(1), live(2)),
        keys=("1", "2"),
        asked=(None, "1"),
        also=sends_what_is_ours,
    ),
    Case(
        "the id of the last event with one is sent",
        "id-of-the-last",
        scripted(stream(event(1, 2), b"data: {}\n\n", gen="g", floor="1"), live(3)),
        asked=(None, "2"),
        verdicts=("genesis", "unverifiable"),
        reasons=("tail_without_id",),
    ),
    Case(
        "an empty id is no header",
        "empty-id",
        scripted(stream(event(1), b"id\ndata: {}\n\n", gen="g", floor="1"), live(2)),
        asked=(None, None),
        reasons=("reset_empty_id",),
        also=never_resumed,
    ),
    Case(
        "method and body are sent again",
        "post",
        scripted(
            *[Reply([b'data: {"jsonrpc":"2.0","method":"notifications/x","params":{}}\n\n'])] * 2
        ),
        asked=(None, None),
        verdicts=("genesis", "reoriginated"),
        reasons=("no_resumption",),
        fields={"dialect": "mcp", "mcp": {"protocol": "2026-07-28"}, "key": "/params/k"},
        also=posts_the_same,
    ),
    Case(
        "half a message is dropped, and its id with it",
        "half-a-message",
        scripted(stream(event(1), b'id: 2\ndata: {"k":"half"}\n', gen="g", floor="1"), live(2)),
        keys=("1", "2"),
        asked=(None, "1"),
        verdicts=("genesis", "resumed"),
    ),
    Case(
        "any byte breaks the silence",
        "newlines-as-heartbeat",
        raw([HEAD, b"\r\n", event(1), *BEATS, event(2), HANG]),
        keys=("1", "2"),
        also=only_one,
    ),
    Case(
        "too many headers",
        "headers-many",
        raw(
            [HEAD, *[b"x-%d: 1\r\n" % number for number in range(300)], b"\r\n", HANG],
            [HEAD, b"\r\n", event(1), HANG],
        ),
        keys=("1",),
        said=("sent more response headers than anybody needs",),
    ),
    Case(
        "too many headers",
        "header-huge",
        raw([HEAD, b"x: " + b"y" * 400_000, HANG], [HEAD, b"\r\n", event(1), HANG]),
        keys=("1",),
        said=("broke off in the middle of the response",),
    ),
    Case(
        "a body without an end",
        "error-body-endless",
        scripted(Reply([b"x" * 65_536] * 2_000, status=500, headers={}, end=HANG), live(1)),
        keys=("1",),
        said=("answered 500",),
    ),
    Case(
        "an endless head",
        "head-endless",
        raw([b"HTTP/1.1 100 Continue\r\n\r\n", 0.1] * 300, [HEAD, b"\r\n", event(1), HANG]),
        keys=("1",),
        said=("sent no response headers in time",),
    ),
]
