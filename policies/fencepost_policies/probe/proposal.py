"""Which dialect fits what a server showed, and the configuration to paste."""

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from fencepost_policies.dialects.described import Dialect as Plain
from fencepost_policies.dialects.dialect import Dialect
from fencepost_policies.dialects.mcp import Dialect as Mcp
from fencepost_policies.probe.ids import Kind
from fencepost_policies.probe.signals import Signals
from fencepost_schemas.event import KeyScope

_SCHEMES = {
    Kind.INTEGER: "integer",
    Kind.TIME_TAG: "time-tag",
    Kind.MS_SEQ: "ms-seq",
    Kind.ULID: "ulid",
    Kind.UUID7: "uuidv7",
    Kind.VECTOR: "vector",
}
"""How the ids of a kind are ordered. That integers are dense cannot be seen from a few of them."""
_GUESSED = ("generation_header", "generation_pointer", "window_header", "id_pattern")
"""Fields that are proposed because of a name."""
_OF_IDS = {Kind.TIME_TAG: "nchan", Kind.MS_SEQ: "ms_seq"}
_OF_EVENT = {"stream-open": "django_eventstream"}
"""Dialects of servers that are known for such ids, or for such an event."""


def plain_for(signals: Signals) -> tuple[Plain, ...]:
    """Return the dialect that fits.

    The overlap is asked for beside what the server declares: of a declaration nobody can see from
    outside whether it is kept. One generation is enough: two would have to be the same word.
    """
    pointer = "" if signals.generation_header else signals.generation_pointer
    named = signals.generation_header or pointer
    declares = named and signals.window_header
    pattern = "" if named else signals.id_pattern
    scheme = "integer" if pattern else _SCHEMES.get(signals.shape.kind, "opaque")
    return (
        Plain(
            scheme=scheme,
            id_pattern=pattern,
            generation_header=signals.generation_header,
            generation_pointer=pointer,
            window_header=signals.window_header,
            echo_header=signals.echo_header if signals.echo_true else "",
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
    access: Mapping[str, object],
) -> str:
    """Return a `[sources.NAME]` to paste. It holds no query string and no credential.

    `access` are fields of the source itself by which it was reached, such as `headers_env`.
    """
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
    like = _like(signals)
    if like and dialect == "plain":
        lines[-1] += f'  # "{like}", without a table, if it is what that dialect is for'
    lines += [f"{field} = {_value(value)}" for field, value in access.items() if value]
    differing = list(_differing(speech))
    if differing:
        lines += ["", f"[sources.{name}.{dialect}]"]
        lines += [_line(field, value) for field, value in differing]
    return "\n".join(lines) + "\n"


def _like(signals: Signals) -> str:
    """Return a dialect that comes with fencepost and speaks of servers like this one, "" for none.

    From outside one cannot know that it is one; whoever chooses it knows what runs there.
    """
    by_event = [_OF_EVENT[event] for event in signals.ignore if event in _OF_EVENT]
    return by_event[0] if by_event else _OF_IDS.get(signals.shape.kind, "")


def _guessed(keys: KeyScope) -> str:
    if keys is KeyScope.DURABLE:
        return "random names, taken to mean the same work for ever"
    return "may begin anew when the source does"


def _line(field: str, value: object) -> str:
    line = f"{field} = {_value(value)}"
    if field in _GUESSED:
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
