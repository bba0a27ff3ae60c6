"""One frozen struct for everything that can be configured: file < environment < flags.

Units are in the names. Relations between durations are checked when the struct is made, so a
worker never starts with a lease that its handlers can outlive.
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from fencepost.errors import UsageError
from fencepost_policies.dialects.plain import Dialect
from fencepost_policies.pointer import check_pointer
from fencepost_schemas.event import KeyScope
from fencepost_schemas.limits import EVENT_BYTES_MAX, LINE_BYTES_MAX
from fencepost_schemas.subject import slug

Role = Literal["init", "bridge", "worker", "desk"]


class Login(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How one role reaches the broker; what is None is taken from `[broker]`.

    `password_env` names the environment variable that holds the password. `credentials` is the
    path of a creds file. `tls_ca`, `tls_cert` and `tls_key` are paths of PEM files.
    """

    servers: tuple[str, ...] | None = None
    user: str | None = None
    password: str | None = None
    password_env: str | None = None
    credentials: str | None = None
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None


class Broker(Login, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The broker, and under `roles` what differs for init, bridge, worker and desk."""

    prefix: str = "fp"
    replicas: int = 1
    events_age_s: int = 7 * 24 * 3600
    connect_s: float = 5.0
    reply_s: float = 5.0
    roles: dict[Role, Login] = {}

    def __post_init__(self) -> None:
        slug(self.prefix)
        if self.replicas not in (1, 3, 5):
            raise ValueError("broker.replicas must be 1, 3 or 5")
        if self.events_age_s < 60:
            raise ValueError("broker.events_age_s must be at least 60")


class Bridge(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How sources are followed. Waits between connections are drawn from doubling bounds."""

    retry_first_s: float = 0.5
    retry_longest_s: float = 60.0
    healthy_s: float = 10.0
    connect_s: float = 10.0
    headers_s: float = 60.0
    stall_s: float = 120.0
    strikes_max: int = 3


class Pool(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How events are worked on. `slots` is how many run at once in one process."""

    slots: int = 64
    handler_timeout_s: float = 20.0
    lease_s: float = 30.0
    ack_wait_s: float = 45.0
    retry_first_s: float = 1.0
    retry_longest_s: float = 30.0
    drain_s: float = 25.0

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise ValueError("pool.slots must be at least 1")
        if not 0 < self.handler_timeout_s < self.lease_s < self.ack_wait_s:
            raise ValueError(
                "pool: handler_timeout_s < lease_s < ack_wait_s must hold, but they are "
                f"{self.handler_timeout_s:g}, {self.lease_s:g}, {self.ack_wait_s:g}"
            )
        if self.retry_longest_s >= self.ack_wait_s:
            raise ValueError(
                "pool: retry_longest_s must be below ack_wait_s, but they are "
                f"{self.retry_longest_s:g}, {self.ack_wait_s:g}"
            )


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One SSE source. `key` is a JSON pointer into the data; `keys` says what such a key is worth:

    "durable" where it names the same work for ever, "generation" where it is only unique until the
    source starts afresh, "none" where there is none. `unverifiable` is the standing ruling:
    "ask" a person, or "reconcile" by key.
    """

    url: str
    keys: KeyScope
    key: str = ""
    dialect: Literal["plain"] = "plain"
    plain: Dialect = Dialect()
    namespace: str | None = None
    unverifiable: Literal["ask", "reconcile"] = "ask"
    headers: dict[str, str] = {}
    headers_env: dict[str, str] = {}
    line_bytes_max: int = LINE_BYTES_MAX
    event_bytes_max: int = EVENT_BYTES_MAX

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"url {self.url!r} must begin with http:// or https://")
        check_pointer(self.key)
        if (self.keys is KeyScope.NONE) != (self.key == ""):
            raise ValueError('keys = "none" goes without a key, any other value needs key = "/..."')
        if self.namespace is not None:
            slug(self.namespace)
        if not 1 <= self.line_bytes_max <= self.event_bytes_max <= EVENT_BYTES_MAX:
            raise ValueError(
                f"1 <= line_bytes_max <= event_bytes_max <= {EVENT_BYTES_MAX} must hold"
            )


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    app: str = ""
    broker: Broker = Broker()
    bridge: Bridge = Bridge()
    pool: Pool = Pool()
    sources: dict[str, Source] = {}

    def __post_init__(self) -> None:
        for name in self.sources:
            slug(name)


DEFAULT_FILE = "fencepost.toml"
DEFAULT_SERVER = "nats://127.0.0.1:4222"
ENVIRONMENT_PREFIX = "FENCEPOST_"
_SECTIONS = ("broker", "bridge", "pool")


def load_settings(
    path: Path | None, environment: Mapping[str, str], flags: Mapping[str, Any]
) -> Settings:
    """Return the settings; raise UsageError with the file, the field and what is wrong.

    `path` None means `fencepost.toml` where there is one. The environment gives scalar fields, as
    in FENCEPOST_POOL_SLOTS=8, and FENCEPOST_BROKER_SERVERS as a comma-separated list. `flags` are
    dotted names, as in {"broker.servers": [...]}; a value of None is not set.
    """
    document = _read(path)
    for name, text in environment.items():
        if name.startswith(ENVIRONMENT_PREFIX):
            _set_from_environment(document, name, text)
    for dotted, value in flags.items():
        if value is not None:
            _set(document, dotted, value)
    where = path if path is not None else DEFAULT_FILE
    try:
        # Not strict: a number that comes from the environment comes as text.
        return msgspec.convert(document, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: {error}") from None


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


def _set_from_environment(document: dict[str, Any], name: str, text: str) -> None:
    rest = name.removeprefix(ENVIRONMENT_PREFIX).lower()
    section, _, field = rest.partition("_")
    if rest == "app":
        _set(document, "app", text)
    elif section in _SECTIONS and field:
        value: Any = text.split(",") if field == "servers" else text
        _set(document, f"{section}.{field}", value)


def _set(document: dict[str, Any], dotted: str, value: Any) -> None:
    *sections, field = dotted.split(".")
    for section in sections:
        document = document.setdefault(section, {})
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
            raise UsageError(f"broker.password_env: the variable {variable} is not set")
        merged["password"] = environment[variable]
    if merged["servers"] is None:
        merged["servers"] = (DEFAULT_SERVER,)
    return Login(**merged)


def source_headers(
    name: str, source: Source, environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the request headers of a source, those from the environment included."""
    headers = dict(source.headers)
    for header, variable in source.headers_env.items():
        if variable not in environment:
            raise UsageError(
                f"sources.{name}.headers_env: the variable {variable} for {header} is not set"
            )
        headers[header] = environment[variable]
    return headers
