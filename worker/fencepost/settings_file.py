"""Where settings come from: file < environment < flags, and the secrets that they only name."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from fencepost.errors import UsageError
from fencepost.registry import Speeches, described_dialects, speaking
from fencepost.settings import Broker, Login, Role, Settings, Source, sendable_value

DEFAULT_FILE = "fencepost.toml"
DEFAULT_SERVER = "nats://127.0.0.1:4222"
ENVIRONMENT_PREFIX = "FENCEPOST_"
_SECTIONS = ("broker", "bridge", "pool", "ledger")


def load_settings(
    path: Path | None, environment: Mapping[str, str], flags: Mapping[str, Any]
) -> Settings:
    """Return the settings; raise UsageError with the file, the field and what is wrong.

    `path` None means `fencepost.toml` where there is one. The environment gives scalar fields, as
    in FENCEPOST_POOL_SLOTS=8, and FENCEPOST_BROKER_SERVERS as a comma-separated list. `flags` are
    dotted names, as in {"broker.servers": [...]}; a value of None is not set.
    """
    document = _read(path)
    taken = [
        name
        for name, text in environment.items()
        if name.startswith(ENVIRONMENT_PREFIX) and _set_from_environment(document, name, text)
    ]
    for dotted, value in flags.items():
        if value is not None:
            _set(document, dotted, value)
    where = str(path if path is not None else DEFAULT_FILE)
    if taken:
        where += f" with {', '.join(sorted(taken))}"
    try:
        # Each source on its own first, for the library's paths do not tell a table's name.
        sources = document.get("sources", {})
        for name, table in sources.items() if isinstance(sources, dict) else ():
            where_here = f"{where}: sources.{name}"
            msgspec.convert(table, Source, strict=False)
        where_here = where
        # Not strict: a number that comes from the environment comes as text.
        settings = msgspec.convert(document, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where_here}: {error}") from None
    try:
        described_dialects(settings.dialects)
        return with_dialects(settings, lenient=bool(settings.app))
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None


def with_dialects(
    settings: Settings, registered: Speeches | None = None, *, lenient: bool = False
) -> Settings:
    """Return the settings with what the name of each source's dialect stands for.

    `registered` are those of an app. Raises UsageError for a name that is not known; with `lenient`
    it may still become known by the app.
    """
    sources = {
        name: speaking(name, source, settings.dialects, registered, lenient=lenient)
        for name, source in settings.sources.items()
    }
    return msgspec.structs.replace(settings, sources=sources)


def _read(path: Path | None) -> dict[str, Any]:
    file = path if path is not None else Path(DEFAULT_FILE)
    if path is None and not file.exists():
        return {}
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{file}: there is no such file; name one with --config") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file}: not TOML: {error}") from None


def split_servers(text: str) -> list[str]:
    """Return the servers of a comma-separated list."""
    return [server.strip() for server in text.split(",") if server.strip()]


def _set_from_environment(document: dict[str, Any], name: str, text: str) -> bool:
    """Set what the variable says; return False where it says nothing that we know."""
    rest = name.removeprefix(ENVIRONMENT_PREFIX).lower()
    section, _, field = rest.partition("_")
    if rest == "app":
        _set(document, "app", text)
        return True
    if section in _SECTIONS and field:
        value: Any = split_servers(text) if field == "servers" else text
        _set(document, f"{section}.{field}", value)
        return True
    return False


def _set(document: dict[str, Any], dotted: str, value: Any) -> None:
    *sections, field = dotted.split(".")
    for section in sections:
        document = document.setdefault(section, {})
        if not isinstance(document, dict):
            return  # the file has no table there, and will be told so
    document[field] = value


def login_for(broker: Broker, role: Role, environment: Mapping[str, str] = os.environ) -> Login:
    """Return the login of one role: its own fields, else those of `[broker]`.

    Raises UsageError where `password_env` names a variable that is not set.
    """
    own = broker.roles.get(role, Login())
    merged = {
        field: mine if (mine := getattr(own, field)) is not None else getattr(broker, field)
        for field in Login.__struct_fields__
    }
    variable = merged["password_env"]
    if variable is not None:
        if variable not in environment:
            where = f"broker.roles.{role}" if own.password_env is not None else "broker"
            raise UsageError(f"{where}.password_env: the variable {variable} is not set")
        merged["password"] = environment[variable]
    if not merged["servers"]:
        merged["servers"] = (DEFAULT_SERVER,)
    return Login(**merged)


def source_headers(
    name: str, source: Source, environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the request headers of a source, those from the environment included.

    Raises UsageError for a variable that is not set, that of the credentials too: it will not come.
    """
    variable = source.credentials.env if source.credentials is not None else ""
    if variable and variable not in environment:
        raise UsageError(f"sources.{name}.credentials: the variable {variable} is not set")
    headers = dict(source.headers)
    for header, variable in source.headers_env.items():
        if variable not in environment:
            raise UsageError(
                f"sources.{name}.headers_env: the variable {variable} for {header} is not set"
            )
        if not sendable_value(environment[variable]):
            raise UsageError(
                f"sources.{name}.headers_env: the variable {variable} for {header} has characters "
                "that no header can hold, perhaps a line end"
            )
        headers[header] = environment[variable]
    return headers
