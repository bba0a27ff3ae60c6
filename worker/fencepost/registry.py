"""What a dialect's name stands for: built in, written in TOML, or brought by the user's own code.

A name is looked for in this order: those in Python here, those in TOML here, `[dialects.NAME]` of
the configuration, the entry points of the group `fencepost.policies`, and what the app was given
with `app.policy(...)`. So an app is only imported for what nothing else knows. A name that is built
in cannot be taken again.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from importlib.resources import files
from typing import Any

import msgspec

from fencepost.errors import UsageError
from fencepost.settings import Source
from fencepost_policies.dialects import described
from fencepost_policies.dialects.dialect import Speech
from fencepost_policies.dialects.named import NAMED

Tables = Mapping[str, Mapping[str, Any]]
Speeches = Mapping[str, Speech]

GROUP = "fencepost.policies"
OWN_TABLES = ("plain", "mcp")
"""Dialects that a source describes in a table of its own."""
LIKE = "like"
_MERGED = ("ask",)
"""Tables of a dialect of which single fields may be said anew."""
_NOT_INHERITED = ("about",)


@cache
def shipped() -> Mapping[str, described.Dialect]:
    """Return the dialects that come as TOML, by name."""
    found = {}
    for file in sorted(
        files("fencepost").joinpath("dialects").iterdir(), key=lambda file: file.name
    ):
        if file.name.endswith(".toml"):
            table = tomllib.loads(file.read_text("utf-8"))
            found[file.name.removesuffix(".toml")] = msgspec.convert(table, described.Dialect)
    return found


def built_in() -> Mapping[str, described.Dialect]:
    """Return every dialect that comes with fencepost, but those with tables of their own."""
    return {**NAMED, **shipped()}


def installed() -> tuple[str, ...]:
    """Return the names of the dialects that installed packages bring."""
    return tuple(sorted({point.name for point in entry_points(group=GROUP)}))


def known_names(tables: Tables, registered: Speeches) -> list[str]:
    return [*OWN_TABLES, *sorted({*built_in(), *tables, *registered, *installed()})]


def described_dialects(tables: Tables) -> dict[str, described.Dialect]:
    """Return what `[dialects.NAME]` tables describe; raise UsageError with the table's name."""
    made: dict[str, described.Dialect] = {}
    for name in tables:
        if name in (*OWN_TABLES, *built_in()):
            raise UsageError(f"dialects.{name}: this name is built in; choose another one")
        _describe(name, tables, made, ())
    return made


def speaking(
    name: str,
    source: Source,
    tables: Tables,
    registered: Speeches | None = None,
    *,
    lenient: bool = False,
) -> Source:
    """Return the source with its dialect found; raise UsageError where there is none of its name.

    With `lenient` a source whose dialect is not known yet is returned as it is: its app may bring
    it.
    """
    if source.dialect in OWN_TABLES or source.spoken is not None:
        return source
    speech = _find(source.dialect, tables, registered or {})
    if speech is None and lenient:
        return source
    if speech is None:
        known = ", ".join(known_names(tables, registered or {}))
        raise UsageError(
            f"sources.{name}.dialect: there is no dialect {source.dialect!r}; known are {known}"
        )
    try:
        return msgspec.structs.replace(source, spoken=speech)
    except ValueError as error:
        raise UsageError(f"sources.{name}: {error}") from None


def checked_policy(name: str, policy: object, where: str) -> Speech:
    """Return the policy if it is a dialect; raise UsageError."""
    if name in (*OWN_TABLES, *built_in()):
        raise UsageError(f"{where}: the dialect {name!r} is built in; choose another name")
    if isinstance(policy, type) or not isinstance(policy, Speech):
        raise UsageError(
            f"{where}: {name!r} is no dialect: make it of a subclass of "
            "fencepost_policies.dialects.described.Dialect"
        )
    return policy


def _find(name: str, tables: Tables, registered: Speeches) -> Speech | None:
    if name in built_in():
        return built_in()[name]
    if name in tables:
        return described_dialects(tables)[name]
    for point in entry_points(group=GROUP, name=name):
        where = f"the entry point {GROUP}:{name}"
        try:
            policy = point.load()
        # Whatever foreign code raises at import is told as the one line that a user can act on.
        except Exception as error:
            raise UsageError(f"{where} cannot be loaded: {type(error).__name__}") from error
        return checked_policy(name, policy, where)
    return registered.get(name)


def _describe(
    name: str, tables: Tables, made: dict[str, described.Dialect], within: tuple[str, ...]
) -> described.Dialect:
    """Return what this table describes, on the grounds of the dialect that it is like."""
    if name in made:
        return made[name]
    if name in within:
        raise UsageError(f"dialects.{name}: it is like itself, by {' and '.join(within)}")
    table = dict(tables[name])
    like = table.pop(LIKE, "")
    if not like or like == "plain":
        ground = described.Dialect()
    elif like in tables:
        ground = _describe(like, tables, made, (*within, name))
    elif like in built_in():
        ground = built_in()[like]
    else:
        known = ", ".join(["plain", *sorted({*built_in(), *tables})])
        raise UsageError(f"dialects.{name}.like: there is no {like!r}; known are {known}")
    try:
        made[name] = msgspec.convert(_over(ground, table), type(ground), strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"dialects.{name}: {error}") from None
    return made[name]


def _over(ground: described.Dialect, table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ground's fields with those of the table in their place."""
    fields: dict[str, Any] = msgspec.to_builtins(ground)
    for field in _NOT_INHERITED:
        fields.pop(field)
    for field, value in table.items():
        merged = field in _MERGED and isinstance(value, dict)
        fields[field] = {**fields[field], **value} if merged else value
    return fields
