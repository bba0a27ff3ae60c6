"""A source's configuration that is kept on the broker: no secret in it, and nothing to be run.

Whoever may write it there decides what a bridge connects to. So it says less than a bridge's own
file may say, and of a bridge's environment it can name only what is meant for it.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from fencepost.errors import UsageError
from fencepost.registry import speaking
from fencepost.settings import Settings, Source

STORABLE = frozenset(
    {
        "url",
        "keys",
        "key",
        "dialect",
        "plain",
        "mcp",
        "namespace",
        "reannounces_within_s",
        "headers_env",
        "line_bytes_max",
        "event_bytes_max",
    }
)
VARIABLE_PREFIX = "FENCEPOST_SOURCE_"
_VARIABLE = re.compile(rf"{VARIABLE_PREFIX}[A-Z0-9_]+")


def checked_table(name: str, table: Mapping[str, Any], settings: Settings) -> Source:
    """Return the source that a table describes; raise UsageError where it may not be kept so."""
    for field in sorted(table):
        if field not in STORABLE:
            raise UsageError(
                f"sources.{name}.{field} is not kept on the broker, where it could be a secret or "
                "could be run: leave it out, or put this source into the bridges' own file"
            )
    try:
        source = speaking(name, msgspec.convert(table, Source), settings.dialects)
        # The ledger's memory is checked against what the source says of itself.
        msgspec.structs.replace(settings, sources={name: source})
    except (msgspec.ValidationError, ValueError) as error:
        raise UsageError(f"sources.{name}: {error}") from None
    source = speaking(name, source, settings.dialects)
    parts = urlsplit(source.url)
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise UsageError(
            f"sources.{name}.url: a query string or a login in a url may be a secret, which is not "
            "kept on the broker: send it by headers_env, or put this source into the bridges' own "
            "file"
        )
    for header, variable in source.headers_env.items():
        if not _VARIABLE.fullmatch(variable):
            raise UsageError(
                f"sources.{name}.headers_env: the variable for {header} must be named "
                f"{VARIABLE_PREFIX}..., so that no other of a bridge's can be sent anywhere"
            )
    return source
