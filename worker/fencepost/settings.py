"""One frozen struct for everything that can be configured.

Units are in the names. Relations between durations are checked when the struct is made, so a
worker never starts with a lease that its handlers can outlive.
"""

from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from fencepost.errors import UsageError
from fencepost.settings_credentials import Credentials, check_header_name
from fencepost_policies.dialects.described import Dialect as Described
from fencepost_policies.dialects.dialect import Speech
from fencepost_policies.dialects.mcp import Dialect as Mcp
from fencepost_policies.dialects.named import NAMED
from fencepost_policies.pointer import check_pointer
from fencepost_policies.redirect import Rule
from fencepost_schemas.event import KeyScope
from fencepost_schemas.limits import EVENT_BYTES_MAX, LINE_BYTES_MAX
from fencepost_schemas.subject import is_app_source, slug

DURATION_S_MAX = 30 * 24 * 3600
CLOCK_READING_S_MAX = 10.0
"""A worker goes by one reading of the broker's clock for a third of a lease, and no longer."""
Role = Literal["init", "bridge", "worker", "desk"]


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


def sendable_value(value: str) -> bool:
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
    start_wait_s: float = 30.0
    """How long bridge and worker wait at their start for a broker that is away, or that elects."""
    roles: dict[Role, Login] = {}

    def __post_init__(self) -> None:
        slug(self.prefix)
        if self.replicas not in (1, 3, 5):
            raise ValueError("broker.replicas must be 1, 3 or 5")
        if self.events_age_s < 60:
            raise ValueError("broker.events_age_s must be at least 60")
        _check_above_zero("broker", connect_s=self.connect_s, reply_s=self.reply_s)
        if not 0 <= self.start_wait_s <= DURATION_S_MAX:
            raise ValueError(f"broker.start_wait_s must be between 0 and {DURATION_S_MAX}")


class Bridge(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How sources are followed. Waits between connections are drawn from doubling bounds.

    `headers_s` is how long response headers may take, `stall_s` the longest silence, `event_s` how
    long one event may take from its first byte to its last. `connects_per_s` and `connects_burst`
    are what one host sees of one process.

    A connection without a byte for `stall_s` is over; a heartbeat is a byte, but no progress: after
    `quiet_s` without an event the source is resumed anew beside it, once, and one that has grown to
    `connection_age_s` (a quarter less by chance) is replaced in the same way. Only where a resume
    can be expected to prove itself; the connection goes on until another one has. 0 is never.

    Bridges share the sources. One that is gone has its sources taken over once its lease is over;
    a lease is renewed every `renew_s`, and each bridge looks around three times as often.
    """

    retry_first_s: float = 0.5
    retry_longest_s: float = 60.0
    healthy_s: float = 10.0
    connect_s: float = 10.0
    headers_s: float = 60.0
    stall_s: float = 120.0
    event_s: float = 300.0
    connects_per_s: float = 20.0
    connects_burst: int = 40
    overlap_s: float = 3.0
    quiet_s: float = 300.0
    connection_age_s: float = 900.0
    strikes_max: int = 3
    lease_s: float = 5.0
    renew_s: float = 1.5

    def __post_init__(self) -> None:
        _check_above_zero(
            "bridge",
            retry_first_s=self.retry_first_s,
            healthy_s=self.healthy_s,
            connect_s=self.connect_s,
            headers_s=self.headers_s,
            stall_s=self.stall_s,
            event_s=self.event_s,
            connects_per_s=self.connects_per_s,
            connects_burst=self.connects_burst,
            overlap_s=self.overlap_s,
            lease_s=self.lease_s,
            renew_s=self.renew_s,
        )
        if not 3 * self.renew_s <= self.lease_s:
            raise ValueError(
                "bridge: 3 x renew_s <= lease_s must hold, but they are "
                f"{self.renew_s:g}, {self.lease_s:g}"
            )
        if not self.retry_first_s <= self.retry_longest_s:
            raise ValueError(
                "bridge: retry_first_s <= retry_longest_s must hold, but they are "
                f"{self.retry_first_s:g}, {self.retry_longest_s:g}"
            )
        for name, limit_s in (
            ("quiet_s", self.quiet_s),
            ("connection_age_s", self.connection_age_s),
        ):
            if not 0 <= limit_s <= DURATION_S_MAX:
                raise ValueError(
                    f"bridge.{name} must be 0, for never, or at most {DURATION_S_MAX}, "
                    f"not {limit_s:g}"
                )
        if self.strikes_max < 1:
            raise ValueError("bridge.strikes_max must be at least 1")


class Pool(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How events are worked on. `slots` is how many run at once in one process.

    A lease is renewed every `renew_s` (a third of the lease unless said; 0 switches it off, and
    then a handler's time has to fit into its lease).
    """

    slots: int = 64
    handler_timeout_s: float = 20.0
    lease_s: float = 30.0
    ack_wait_s: float = 45.0
    renew_s: float | None = None
    retry_first_s: float = 1.0
    retry_longest_s: float = 30.0
    drain_s: float = 25.0

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise ValueError("pool.slots must be at least 1")
        _check_above_zero("pool", retry_first_s=self.retry_first_s, drain_s=self.drain_s)
        _check_above_zero(
            "pool",
            handler_timeout_s=self.handler_timeout_s,
            retry_longest_s=self.retry_longest_s,
        )
        if not 0 < self.lease_s < self.ack_wait_s:
            raise ValueError(
                "pool: lease_s < ack_wait_s must hold, but they are "
                f"{self.lease_s:g}, {self.ack_wait_s:g}"
            )
        if not 0 <= self.renewal_s <= self.lease_s / 3:
            raise ValueError(
                "pool: 3 x renew_s <= lease_s must hold, but they are "
                f"{self.renewal_s:g}, {self.lease_s:g}"
            )
        if not self.renewal_s and self.handler_timeout_s >= self.lease_s:
            raise ValueError(
                "pool: without renewal (renew_s = 0) handler_timeout_s < lease_s must hold, but "
                f"they are {self.handler_timeout_s:g}, {self.lease_s:g}"
            )

    @property
    def renewal_s(self) -> float:
        """How often a lease is renewed, 0 for never."""
        return self.lease_s / 3 if self.renew_s is None else self.renew_s

    @property
    def reading_s(self) -> float:
        """How long one reading of the broker's clock is gone by, at most."""
        return min(self.lease_s / 3, CLOCK_READING_S_MAX)

    @property
    def cancel_before_s(self) -> float:
        """How long before its lease ends a handler is stopped that could not have it renewed."""
        return self.lease_s / 6 if self.renewal_s else 0.0


class Ledger(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How long the ledger remembers what was decided, in whole seconds; 0 is for ever."""

    retention_s: int = 0

    def __post_init__(self) -> None:
        if self.retention_s < 0:
            raise ValueError("ledger.retention_s must be 0, for ever, or above")


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One SSE source. `key` is a JSON pointer into the data; `keys` says what such a key is worth:

    "durable" where it names the same work for ever, "generation" where it is only unique until the
    source starts afresh, "none" where there is none. `unverifiable` is the standing ruling:
    "ask" a person, or "reconcile" by key. `reannounces_within_s` is how late the source may bring
    a key again; a ledger that forgets has to know.

    `dialect` is the name of a dialect. Plain SSE and MCP are described in a table of the source's
    own, others by `[dialects.NAME]`; the registry puts what the name stands for into `spoken`,
    which nobody writes.

    `redirects` says which are followed; what is configured and our position stay with the origin
    of `url`. A name that leads to an address inside a network is refused unless `allow_private`; an
    address or `localhost` written into `url` is meant. `tls_ca`, `tls_cert` and `tls_key` are paths
    of PEM files.
    """

    url: str
    keys: KeyScope
    key: str = ""
    dialect: str = "plain"
    plain: Described = Described()
    mcp: Mcp = Mcp()
    spoken: Any = None
    namespace: str | None = None
    reannounces_within_s: float | None = None
    unverifiable: Literal["ask", "reconcile"] = "ask"
    headers: dict[str, str] = {}
    headers_env: dict[str, str] = {}
    credentials: Credentials | None = None
    redirects: Rule = "same-origin"
    allow_private: bool = False
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    line_bytes_max: int = LINE_BYTES_MAX
    event_bytes_max: int = EVENT_BYTES_MAX

    @property
    def speech(self) -> Speech:
        """How this source speaks: the signals of its dialect, as configured.

        Raises UsageError where nobody has looked up what the dialect's name stands for.
        """
        speech = self._known_speech
        if speech is None:
            raise UsageError(f"there is no dialect {self.dialect!r}")
        return speech

    @property
    def speech_known(self) -> bool:
        """False where the dialect's name is still to be looked up, among those of the app."""
        return self._known_speech is not None

    @property
    def _known_speech(self) -> Speech | None:
        if self.spoken is not None:
            # A struct that is read from a file cannot name a protocol, so the field is Any.
            return self.spoken  # type: ignore[no-any-return]
        if self.dialect == "mcp":
            return self.mcp
        return self.plain if self.dialect == "plain" else NAMED.get(self.dialect)

    @property
    def key_pointer(self) -> str:
        """Where an event's key is, "" where events have none: as said here, or by the dialect."""
        if self.keys is KeyScope.NONE:
            return ""
        return self.key or self.speech.key

    def __post_init__(self) -> None:
        _check_url(self.url)
        for header in (*self.headers, *self.headers_env):
            check_header_name(header)
        for header, value in self.headers.items():
            if not sendable_value(value):
                raise ValueError(f"headers.{header} has characters that no header can hold")
        self._check_access()
        check_pointer(self.key)
        if self.reannounces_within_s is not None and not self.reannounces_within_s >= 0:
            raise ValueError("reannounces_within_s must be 0 or above")
        self._check_dialect()
        if self.namespace is not None:
            slug(self.namespace)
        if not 1 <= self.line_bytes_max <= self.event_bytes_max <= EVENT_BYTES_MAX:
            raise ValueError(
                f"1 <= line_bytes_max <= event_bytes_max <= {EVENT_BYTES_MAX} must hold"
            )

    def _check_dialect(self) -> None:
        if self.spoken is not None and not isinstance(self.spoken, Speech):
            raise ValueError("spoken is nothing to be written: name the dialect")
        if self.dialect != "plain" and self.plain != Described():
            raise ValueError(
                f'the table plain is for dialect = "plain", and this is {self.dialect!r}: write '
                f'[dialects.NAME] with like = "{self.dialect}" and name that'
            )
        speech = self._known_speech
        if self.keys is KeyScope.NONE:
            keyed = self.key == ""
        else:
            keyed = bool(self.key) or speech is None or bool(speech.key)
        if not keyed:
            raise ValueError('keys = "none" goes without a key, any other value needs key = "/..."')

    def _check_access(self) -> None:
        named = {header.lower() for header in (*self.headers, *self.headers_env)}
        if self.credentials is not None and self.credentials.header.lower() in named:
            raise ValueError(f"the header {self.credentials.header} is set twice")
        tls = (self.tls_ca, self.tls_cert, self.tls_key)
        if any(tls) and not self.url.startswith("https://"):
            raise ValueError("tls_ca, tls_cert and tls_key need a url with https://")
        if self.tls_key and not self.tls_cert:
            raise ValueError("tls_key needs a tls_cert")


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    app: str = ""
    broker: Broker = Broker()
    bridge: Bridge = Bridge()
    pool: Pool = Pool()
    ledger: Ledger = Ledger()
    dialects: dict[str, dict[str, Any]] = {}
    sources: dict[str, Source] = {}

    def __post_init__(self) -> None:
        for name in self.sources:
            if is_app_source(slug(name)):
                raise ValueError(f"sources.{name}: names that begin with app- are those of apps")
        self._check_retention()

    def _check_retention(self) -> None:
        """Raise ValueError where a source may bring a key again that the ledger has forgotten.

        What has expired looks like what never was, so it would be applied twice.
        """
        retention_s = self.ledger.retention_s
        if not retention_s:
            return
        if retention_s < self.broker.events_age_s:
            raise ValueError(
                f"ledger.retention_s is {retention_s}, but the broker keeps events for "
                f"{self.broker.events_age_s} s (broker.events_age_s) and may deliver one again"
            )
        for name, source in self.sources.items():
            if source.reannounces_within_s is None:
                raise ValueError(
                    f"sources.{name}.reannounces_within_s must say how late this source may bring "
                    f"a key again, now that the ledger forgets after {retention_s} s"
                )
            if source.reannounces_within_s > retention_s:
                raise ValueError(
                    f"sources.{name}.reannounces_within_s is {source.reannounces_within_s:g}, but "
                    f"ledger.retention_s is {retention_s}: what has expired would be done twice"
                )
