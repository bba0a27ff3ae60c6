"""One frozen struct for everything that can be configured: file < environment < flags.

Units are in the names. Relations between durations are checked when the struct is made, so a
worker never starts with a lease that its handlers can outlive.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from fencepost.errors import UsageError
from fencepost_policies.dialects.dialect import Dialect
from fencepost_policies.dialects.mcp import Dialect as Mcp
from fencepost_policies.dialects.plain import Dialect as Plain
from fencepost_policies.pointer import check_pointer
from fencepost_schemas.event import KeyScope
from fencepost_schemas.limits import EVENT_BYTES_MAX, LINE_BYTES_MAX
from fencepost_schemas.subject import slug

DURATION_S_MAX = 30 * 24 * 3600
Role = Literal["init", "bridge", "worker", "desk"]


_OWN_HEADERS = ("accept", "accept-encoding", "cache-control", "last-event-id")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def _check_above_zero(section: str, **durations: float) -> None:
    for name, value in durations.items():
        # Said this way round, a nan is refused too.
        if not 0 < value <= DURATION_S_MAX:
            raise ValueError(
                f"{section}.{name} must be above 0 and at most {DURATION_S_MAX}, not {value:g}"
            )


def _check_url(url: str) -> None:
    """Raise ValueError for a url that cannot be asked, without it: it may carry a secret."""
    if not url.startswith(("http://", "https://")):
        raise ValueError("url must begin with http:// or https://")
    try:
        parts = urlsplit(url)
        whole = bool(parts.hostname) and parts.port != 0
    except ValueError:
        whole = False
    if not whole or not url.isprintable() or " " in url:
        raise ValueError("url has no host, a port out of range, or a character that no url has")


def _check_header_name(name: str) -> None:
    if not _HEADER_NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of a header")
    if name.lower() in _OWN_HEADERS:
        raise ValueError(f"the header {name} is fencepost's own to send")


def _sendable_value(value: str) -> bool:
    return value == value.strip() and not any(
        ord(char) < 0x20 or ord(char) == 0x7F for char in value
    )


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
        _check_above_zero("broker", connect_s=self.connect_s, reply_s=self.reply_s)


class Bridge(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How sources are followed. Waits between connections are drawn from doubling bounds."""

    retry_first_s: float = 0.5
    retry_longest_s: float = 60.0
    healthy_s: float = 10.0
    connect_s: float = 10.0
    headers_s: float = 60.0
    stall_s: float = 120.0
    overlap_s: float = 3.0
    strikes_max: int = 3

    def __post_init__(self) -> None:
        _check_above_zero(
            "bridge",
            retry_first_s=self.retry_first_s,
            healthy_s=self.healthy_s,
            connect_s=self.connect_s,
            headers_s=self.headers_s,
            stall_s=self.stall_s,
            overlap_s=self.overlap_s,
        )
        if not self.retry_first_s <= self.retry_longest_s:
            raise ValueError(
                "bridge: retry_first_s <= retry_longest_s must hold, but they are "
                f"{self.retry_first_s:g}, {self.retry_longest_s:g}"
            )
        if self.strikes_max < 1:
            raise ValueError("bridge.strikes_max must be at least 1")


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
        _check_above_zero("pool", retry_first_s=self.retry_first_s, drain_s=self.drain_s)
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
    dialect: Literal["plain", "mcp"] = "plain"
    plain: Plain = Plain()
    mcp: Mcp = Mcp()
    namespace: str | None = None
    unverifiable: Literal["ask", "reconcile"] = "ask"
    headers: dict[str, str] = {}
    headers_env: dict[str, str] = {}
    line_bytes_max: int = LINE_BYTES_MAX
    event_bytes_max: int = EVENT_BYTES_MAX

    @property
    def speech(self) -> Dialect:
        """How this source speaks: the signals of its dialect, as configured."""
        return self.mcp if self.dialect == "mcp" else self.plain

    def __post_init__(self) -> None:
        _check_url(self.url)
        for header in (*self.headers, *self.headers_env):
            _check_header_name(header)
        for header, value in self.headers.items():
            if not _sendable_value(value):
                raise ValueError(f"headers.{header} has characters that no header can hold")
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
        return msgspec.convert(document, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where_here}: {error}") from None


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
    """Return the request headers of a source, those from the environment included."""
    headers = dict(source.headers)
    for header, variable in source.headers_env.items():
        if variable not in environment:
            raise UsageError(
                f"sources.{name}.headers_env: the variable {variable} for {header} is not set"
            )
        if not _sendable_value(environment[variable]):
            raise UsageError(
                f"sources.{name}.headers_env: the variable {variable} for {header} has characters "
                "that no header can hold, perhaps a line end"
            )
        headers[header] = environment[variable]
    return headers
