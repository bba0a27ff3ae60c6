"""Proves what the head of a response means, row by row of the table of HTTP."""

import pytest

from fencepost_policies.reply import Reading, Reply, read_reply
from fencepost_policies.retry import RETRY_AFTER_S_MAX

NOON = "Sun, 06 Nov 1994 12:00:00 GMT"


def read(status: int, *, asked: bool = False, reset: bool = False, **headers: str) -> Reading:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return read_reply(status, named, asked=asked, reset=reset)


@pytest.mark.parametrize(
    ("content_type", "reply"),
    [
        ("text/event-stream", Reply.STREAM),
        ("TEXT/Event-Stream", Reply.STREAM),
        ("text/event-stream;", Reply.STREAM),
        ("text/event-stream ; charset=latin-1; x=y", Reply.STREAM),
        ("text/event-streamer", Reply.MISTAKEN),
        ("text/plain", Reply.MISTAKEN),
        ("application/json; text/event-stream", Reply.MISTAKEN),
        ("", Reply.MISTAKEN),
    ],
)
def test_the_type_of_a_stream(content_type: str, reply: Reply) -> None:
    """The essence counts, whole and in any case; parameters do not."""
    assert reply is read(200, content_type=content_type).reply


@pytest.mark.parametrize(
    ("status", "reply"),
    [
        (204, Reply.STOP),
        *((status, Reply.BUSY) for status in (201, 205, 210, 299, 300, 304, 305, 306)),
        *((status, Reply.MISTAKEN) for status in (401, 403, 404, 405, 406, 410)),
        *((status, Reply.BUSY) for status in (400, 409, 412, 416, 418, 429)),
        *((status, Reply.BUSY) for status in (500, 502, 503, 504, 599)),
    ],
)
def test_a_status_without_a_position(status: int, reply: Reply) -> None:
    """204 stops, what somebody has to mend is a mistake, all else comes back later."""
    assert reply is read(status, content_type="text/event-stream").reply


@pytest.mark.parametrize("status", [400, 404, 409, 410, 412, 416])
def test_a_refused_position(status: int) -> None:
    """Only where one was sent, and the dialect says that this status refuses it."""
    assert Reply.REFUSED is read(status, asked=True, reset=True).reply
    assert Reply.REFUSED is not read(status, asked=True, reset=False).reply
    assert Reply.REFUSED is not read(status, asked=False, reset=True).reply


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_that_was_not_followed(status: int) -> None:
    """Its host is named, for the configuration, and nothing more of it; without one it is busy."""
    to = read(status, location="https://eve:pw@crm.example:8443/s3cret?token=s3cret")
    assert Reply.MISTAKEN is to.reply
    assert "redirects to https://crm.example:8443: put the final url" in to.text
    assert "s3cret" not in to.text
    assert "pw" not in to.text
    nowhere = read(status)
    assert (Reply.BUSY, f"answered {status} without saying where to") == (
        nowhere.reply,
        nowhere.text,
    )


@pytest.mark.parametrize("status", [401, 403])
def test_credentials_that_may_change_are_asked_for_again(status: int) -> None:
    """Fixed ones are somebody's mistake; those of a provider may be good the next time."""
    fixed = read_reply(status, {}, asked=True, reset=False)
    renewable = read_reply(status, {}, asked=True, reset=False, renewable=True)
    assert (Reply.MISTAKEN, Reply.BUSY) == (fixed.reply, renewable.reply)


@pytest.mark.parametrize(
    ("text", "wait_s"),
    [
        ("0", 0.0),
        ("5", 5.0),
        (" 7 ", 7.0),
        ("299", 299.0),
        ("301", RETRY_AFTER_S_MAX),
        ("9" * 5_000, RETRY_AFTER_S_MAX),
        ("0" * 5_000 + "5", 5.0),
        ("-5", 0.0),
        ("1.5", 0.0),
        ("٣", 0.0),
        ("soon", 0.0),
        ("", 0.0),
        ("Sun, 06 Nov 1994 12:00:30 GMT", 30.0),
        ("Sunday, 06-Nov-94 12:00:30 GMT", 30.0),
        ("Sun, 06 Nov 1994 11:00:00 GMT", 0.0),
        ("Sun, 06 Nov 2094 12:00:00 GMT", RETRY_AFTER_S_MAX),
        ("Sun, 99 Nov 1994 12:00:30 GMT", 0.0),
        ("Sun, 06 Nov 99999999999 12:00:30 GMT", 0.0),
    ],
)
def test_retry_after(text: str, wait_s: float) -> None:
    """Seconds, or a time beside the response's own Date; capped, and 0 for anything else."""
    assert wait_s == read(503, retry_after=text, date=NOON).wait_s
    assert wait_s == read(429, retry_after=text, date=NOON).wait_s


def test_a_time_without_a_date_is_not_guessed() -> None:
    """Without the source's own clock a point in time says nothing."""
    assert 0.0 == read(503, retry_after=NOON).wait_s
    assert 0.0 == read(503, retry_after=NOON, date="whenever").wait_s
