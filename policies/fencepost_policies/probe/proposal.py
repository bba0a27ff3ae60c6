"""Which dialect fits what a server showed, and the configuration to paste."""

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from fencepost_policies.dialects.dialect import Dialect
from fencepost_policies.dialects.mcp import Dialect as Mcp
from fencepost_policies.dialects.plain import SCHEMES
from fencepost_policies.dialects.plain import Dialect as Plain
from fencepost_policies.probe.ids import Kind
from fencepost_policies.probe.signals import Signals
from fencepost_schemas.event import KeyScope

_SCHEME_OF = {Kind.INTEGER: "integer"}
"""Kinds of ids whose order a scheme knows; where it does not yet, the ids are opaque."""


def plain_for(signals: Signals) -> tuple[Plain, ...]:
    """Return the dialect that fits.

    The overlap is asked for beside what the server declares: of a declaration nobody can see from
    outside whether it is kept.
    """
    scheme = _SCHEME_OF.get(signals.shape.kind, "opaque")
    pointer = "" if signals.generation_header else signals.generation_pointer
    declares = (signals.generation_header or pointer) and signals.window_header
    return (
        Plain(
            scheme=scheme if scheme in SCHEMES else "opaque",
            generation_header=signals.generation_header,
            generation_pointer=pointer,
            window_header=signals.window_header,
            reset_events=signals.reset_events,
            ignore=signals.ignore,
            volatile=signals.comparison.volatile,
            overlap="on" if declares else "auto",
        ),
    )


def mcp_for(told: Mcp, signals: Signals) -> tuple[Mcp, ...]:
    """Return the dialects that fit: with an audit of each join, or without where it is refused."""
    volatile = signals.comparison.volatile
    racy = msgspec.structs.replace(told, join="racy", volatile=volatile)
    return (racy, msgspec.structs.replace(racy, join="unknown"))


def toml_for(
    name: str,
    url: str,
    speech: Dialect,
    signals: Signals,
    headers_env: Mapping[str, str],
) -> str:
    """Return a `[sources.NAME]` to paste. It holds no query string and no credential."""
    shown = without_secrets(url)
    lines = [f"[sources.{name}]", f"url = {_value(shown)}"]
    if shown != url:
        lines[-1] += "  # add the query or login that you probed with"
    if signals.keys is KeyScope.NONE:
        lines.append('keys = "none"  # nothing in the data is named like a key')
    else:
        lines.append(f"keys = {_value(signals.keys.value)}  # a guess: {_guessed(signals.keys)}")
        lines.append(f"key = {_value(signals.key)}")
    dialect = "mcp" if isinstance(speech, Mcp) else "plain"
    lines.append(f"dialect = {_value(dialect)}")
    if headers_env:
        lines.append(f"headers_env = {_value(dict(headers_env))}")
    differing = list(_differing(speech))
    if differing:
        lines += ["", f"[sources.{name}.{dialect}]"]
        lines += [_line(field, value) for field, value in differing]
    return "\n".join(lines) + "\n"


def _guessed(keys: KeyScope) -> str:
    if keys is KeyScope.DURABLE:
        return "random names, taken to mean the same work for ever"
    return "may begin anew when the source does"


def _line(field: str, value: object) -> str:
    line = f"{field} = {_value(value)}"
    if field.startswith("generation_") or field == "window_header":
        return f"{line}  # by its name only: ask whoever runs the source"
    return line


def _differing(speech: Dialect) -> Iterable[tuple[str, object]]:
    """Yield each field of a dialect that is not as it is by default."""
    assert isinstance(speech, msgspec.Struct)
    default = type(speech)()
    for field in speech.__struct_fields__:
        value = getattr(speech, field)
        if value != getattr(default, field):
            yield field, value


def _value(value: Any) -> str:
    """Return a value as TOML writes it; it has no null, so what is null is left out."""
    if isinstance(value, dict):
        pairs = [f"{_key(name)} = {_value(one)}" for name, one in value.items() if one is not None]
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(one) for one in value if one is not None) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return _string(value) if isinstance(value, str) else str(value)


def _string(text: str) -> str:
    """Return a TOML string. Foreign text goes into it, so whatever is not plain is escaped."""
    plain = "".join(
        char if char.isprintable() and char not in '"\\' else f"\\U{ord(char):08x}" for char in text
    )
    return f'"{plain}"'


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if bare else _string(name)


def without_secrets(url: str) -> str:
    """Return the url without its query, fragment and login."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rsplit('@', 1)[-1]}{parts.path}"
