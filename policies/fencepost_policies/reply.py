"""What the head of a source's response means for following it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum

import msgspec

from fencepost_policies.redirect import REDIRECTS
from fencepost_policies.retry import RETRY_AFTER_S_MAX


class Reply(StrEnum):
    STREAM = "stream"
    """200 with text/event-stream: read on."""
    REFUSED = "refused"
    """Our position is refused; ask once more without one."""
    STOP = "stop"
    """204: the source says that nobody should come back."""
    MISTAKEN = "mistaken"
    """This url does not serve a stream, or not to us: somebody has to act."""
    BUSY = "busy"
    """Come back later."""


class Reading(msgspec.Struct, frozen=True):
    reply: Reply
    text: str = ""
    wait_s: float = 0.0


def read_reply(
    status: int, headers: Mapping[str, str], *, asked: bool, reset: bool, renewable: bool = False
) -> Reading:
    """Return what this response head means.

    `asked` says that a position was sent, `reset` that the dialect counts this status as a refusal
    of it, `renewable` that the credentials are asked for anew at each connection. Header names are
    lower case.
    """
    if status == 200:
        return _read_type(headers.get("content-type", ""))
    if asked and reset:
        return Reading(Reply.REFUSED, f"the position was refused with {status}")
    if status == 204:
        return Reading(Reply.STOP, "answered 204, which means: do not come back")
    if status in REDIRECTS:
        return _read_redirect(status, headers.get("location", ""))
    if status in (401, 403):
        reply = Reply.BUSY if renewable else Reply.MISTAKEN
        return Reading(reply, f"answered {status}: check the source's credentials")
    if status in (404, 405, 406, 410):
        return Reading(Reply.MISTAKEN, f"answered {status}: check the source's url")
    return Reading(Reply.BUSY, f"answered {status}", retry_after_s(headers))


def _read_type(content_type: str) -> Reading:
    essence = content_type.split(";", 1)[0].strip().lower()
    if essence == "text/event-stream":
        return Reading(Reply.STREAM)
    shown = essence if essence.isascii() and essence.isprintable() and essence else "no type"
    return Reading(
        Reply.MISTAKEN,
        f"answered 200 with {shown[:80]} where text/event-stream is due: check the source's url",
    )


def _read_redirect(status: int, location: str) -> Reading:
    if not location:
        return Reading(Reply.BUSY, f"answered {status} without saying where to")
    target = _host_of(location)
    return Reading(Reply.MISTAKEN, f"redirects to {target}: put the final url in the configuration")


def _host_of(location: str) -> str:
    """Return scheme and host only: a query string may carry a secret."""
    scheme, found, rest = location.partition("://")
    if not found:
        return "another path"
    host = rest.split("/", 1)[0].split("?", 1)[0].rsplit("@", 1)[-1]
    return f"{scheme}://{host}" if host.isascii() and host.isprintable() else "another host"


def retry_after_s(headers: Mapping[str, str]) -> float:
    """Return the wait that is asked for, at most RETRY_AFTER_S_MAX; 0 where none can be read.

    A point in time is measured against the response's own Date, so that clocks need not agree.
    """
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        # The number may have thousands of digits, more than int() takes.
        digits = text.lstrip("0")
        return (
            min(float(digits or "0"), RETRY_AFTER_S_MAX) if len(digits) < 9 else RETRY_AFTER_S_MAX
        )
    then, now = _moment(text), _moment(headers.get("date", ""))
    if then is None or now is None:
        return 0.0
    return min(max(0.0, (then - now).total_seconds()), RETRY_AFTER_S_MAX)


def _moment(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text[:64])
    except (ValueError, OverflowError, IndexError, TypeError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
