"""Whether a redirect is followed, and what may travel along."""

from typing import Literal
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

import msgspec

Rule = Literal["same-origin", "any", "none"]

REDIRECTS = frozenset({301, 302, 303, 307, 308})
REDIRECTS_MAX = 5
_KEEP_METHOD = frozenset({307, 308})
_PORTS = {"http": 80, "https": 443}


class Hop(msgspec.Struct, frozen=True):
    """One request on the way to a stream.

    `own` says that nothing but the configured origin was asked so far: only there may configured
    headers, credentials, the session, the client certificate and our position go. Once a hop has
    left it, no later one is own, for it was another server that sent us back.
    """

    method: str
    url: str
    own: bool = True


def next_hop(hop: Hop, status: int, location: str, rule: Rule) -> Hop | None:
    """Return where this answer leads, None where it is to be taken as it is.

    It is so for what is no redirect, and for one that is not allowed, that says nowhere or nothing
    usable, that leads from https to http, or that would take a body to another origin.
    """
    if status not in REDIRECTS or rule == "none":
        return None
    here, there = urlsplit(hop.url), _target(hop.url, location)
    if there is None:
        return None
    same = origin(here) == origin(there)
    method = hop.method if status in _KEEP_METHOD else "GET"
    if not same:
        downgraded = here.scheme == "https" and there.scheme == "http"
        if rule != "any" or downgraded or method != "GET":
            return None
    # A login within the url belongs to its origin, and one that a redirect names to nobody.
    netloc = here.netloc if same else there.netloc.rsplit("@", 1)[-1]
    url = urlunsplit((there.scheme, netloc, there.path or "/", there.query, ""))
    return Hop(method, url, hop.own and same)


def origin(parts: SplitResult) -> tuple[str, str, int]:
    """Return scheme, host and port; raises ValueError for a port out of range."""
    port = parts.port if parts.port is not None else _PORTS.get(parts.scheme, 0)
    return parts.scheme, parts.hostname or "", port


def _target(url: str, location: str) -> SplitResult | None:
    """Return where a Location leads, None where it is none."""
    if not location or not location.isascii() or not location.isprintable() or " " in location:
        return None
    try:
        there = urlsplit(urljoin(url, location))
        usable = there.scheme in _PORTS and bool(there.hostname) and there.port != 0
    except ValueError:
        return None
    return there if usable else None
