"""The settings: which word wins, what is refused, and that no refusal shows a secret."""

from pathlib import Path
from typing import Any

import pytest

from fencepost.errors import UsageError
from fencepost.settings import Broker, Login, Source
from fencepost.settings_file import DEFAULT_SERVER, load_settings, login_for, source_headers
from fencepost_schemas.event import KeyScope

SOURCE = '[sources.orders]\nurl = "http://127.0.0.1/x"\nkeys = "durable"\nkey = "/k"\n'


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "fencepost.toml"
    file.write_text(text, "utf-8")
    return file


def test_file_then_environment_then_flags(tmp_path: Path) -> None:
    """Each later word wins over the earlier ones, and leaves the rest as it is."""
    file = written(
        tmp_path,
        'app = "file:app"\n[broker]\nservers = ["nats://file:1"]\nprefix = "filed"\n'
        "[pool]\nslots = 1\ndrain_s = 1.5\n",
    )
    environment = {
        "FENCEPOST_APP": "environment:app",
        "FENCEPOST_BROKER_SERVERS": "nats://one:1, nats://two:2,",
        "FENCEPOST_POOL_SLOTS": "8",
        "FENCEPOST_BRIDGE_STALL_S": "7.5",
        "FENCEPOST_SOMETHING_ELSE": "of another tool",
    }
    alone = load_settings(file, {}, {})
    assert ("file:app", 1, ("nats://file:1",)) == (
        alone.app,
        alone.pool.slots,
        alone.broker.servers,
    )
    more = load_settings(file, environment, {"app": None})
    assert ("environment:app", 8, 7.5) == (more.app, more.pool.slots, more.bridge.stall_s)
    assert ("nats://one:1", "nats://two:2") == more.broker.servers
    assert ("filed", 1.5) == (more.broker.prefix, more.pool.drain_s)
    flags = {"app": "flag:app", "broker.servers": ["nats://flag:1"]}
    most = load_settings(file, environment, flags)
    assert ("flag:app", ("nats://flag:1",), 8) == (most.app, most.broker.servers, most.pool.slots)


def test_without_a_file_there_are_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No fencepost.toml is no error; a file that was named and is not there is one."""
    monkeypatch.chdir(tmp_path)
    assert {} == load_settings(None, {}, {}).sources
    with pytest.raises(UsageError, match=r"other\.toml: there is no such file"):
        load_settings(tmp_path / "other.toml", {}, {})
    with pytest.raises(UsageError, match="cannot be read"):
        load_settings(tmp_path, {}, {})
    written(tmp_path, SOURCE)
    assert ["orders"] == list(load_settings(None, {}, {}).sources)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("[broker\n", "not TOML"),
        ("\x00", "not TOML"),
        ("colour = 1\n", "colour"),
        ("[broker]\nserver = 1\n", "server"),
        ("broker = 3\n", "broker"),
        ("sources = 3\n", "sources"),
        ("[broker]\nreplicas = 2\n", "broker.replicas"),
        ("[broker]\nevents_age_s = 1\n", "broker.events_age_s"),
        ("[broker]\nreply_s = 0\n", "broker.reply_s"),
        ('[broker]\nprefix = "a.b"\n', "'a.b' is not a name"),
        ("[broker.roles.boss]\n", "boss"),
        ("[bridge]\nstall_s = nan\n", "bridge.stall_s"),
        ("[bridge]\nheaders_s = inf\n", "bridge.headers_s"),
        ("[bridge]\nconnect_s = -1\n", "bridge.connect_s"),
        ("[bridge]\nstrikes_max = 0\n", "bridge.strikes_max"),
        ("[bridge]\nretry_first_s = 2\nretry_longest_s = 1\n", "retry_first_s <= retry_longest_s"),
        ("[bridge]\nlease_s = 4\n", "bridge: 3 x renew_s <= lease_s must hold"),
        ("[bridge]\nlease_s = nan\n", "bridge.lease_s must be above 0"),
        ("[bridge]\nrenew_s = 0\n", "bridge.renew_s must be above 0"),
        ("[pool]\nslots = 0\n", "pool.slots"),
        ('[pool]\nslots = "many"\n', "slots"),
        ("[pool]\nlease_s = 60\n", "lease_s < ack_wait_s must hold"),
        ("[pool]\nlease_s = nan\n", "lease_s < ack_wait_s must hold"),
        ("[pool]\nhandler_timeout_s = nan\n", "pool.handler_timeout_s"),
        ("[ledger]\nretention_s = -1\n", "ledger.retention_s must be 0"),
        ("[ledger]\nretention_s = 60\n", "the broker keeps events for 604800 s"),
        (SOURCE + "[ledger]\nretention_s = 700000\n", "orders.reannounces_within_s must say"),
        (
            SOURCE + "reannounces_within_s = 800000\n[ledger]\nretention_s = 700000\n",
            "what has expired would be done twice",
        ),
        (SOURCE + "reannounces_within_s = -1\n", "reannounces_within_s must be 0 or above"),
        ("[pool]\nrenew_s = 11\n", "3 x renew_s <= lease_s"),
        ("[pool]\nrenew_s = -1\n", "3 x renew_s <= lease_s"),
        ("[pool]\nrenew_s = 0\nhandler_timeout_s = 30\n", "handler_timeout_s < lease_s must"),
        ("[pool]\nretry_longest_s = 0\n", "pool.retry_longest_s must be above 0"),
        ('[sources."Not A Name"]\nurl = "http://x"\nkeys = "none"\n', "Not A Name"),
        ('[sources.orders]\nkeys = "none"\n', "sources.orders: .*url"),
        ('[sources.orders]\nurl = "http://x"\n', "sources.orders: .*keys"),
        ('[sources.orders]\nurl = "http://x"\nkeys = "all"\n', "sources.orders: .*all"),
        ('[sources.orders]\nurl = "http://x"\nkeys = "durable"\n', "sources.orders: keys"),
        (SOURCE + "colour = 1\n", "sources.orders: .*colour"),
        (SOURCE + 'plain = { scheme = "roman" }\n', "sources.orders: scheme 'roman'"),
        (SOURCE + 'plain = { generation_pointer = "g" }\n', "sources.orders: 'g' is not a JSON"),
        (SOURCE + "line_bytes_max = 0\n", "sources.orders: .*line_bytes_max"),
        (SOURCE + 'namespace = "A B"\n', "sources.orders: 'A B' is not a name"),
        (SOURCE + 'headers = { "a b" = "c" }\n', "sources.orders: 'a b' is not the name"),
        (SOURCE + 'headers = { a = "b\\nc" }\n', "sources.orders: headers.a has characters"),
        (SOURCE + 'headers = { Accept = "x" }\n', "sources.orders: the header Accept"),
        ("[bridge]\nconnects_burst = 0\n", "bridge.connects_burst"),
        ("[bridge]\nevent_s = nan\n", "bridge.event_s"),
        (SOURCE + 'headers = { Host = "x" }\n', "sources.orders: the header Host"),
        (SOURCE + 'redirects = "some"\n', "sources.orders: .*some"),
        (SOURCE + 'credentials = { env = "A", file = "b" }\n', "from one of env, file and command"),
        (
            SOURCE + 'headers = { authorization = "x" }\ncredentials = { env = "A" }\n',
            "the header Authorization is set twice",
        ),
        (SOURCE + 'tls_ca = "ca.pem"\n', "need a url with https://"),
        (
            '[sources.orders]\nurl = "https://x"\nkeys = "none"\ntls_key = "k.pem"\n',
            "tls_key needs a tls_cert",
        ),
        (SOURCE + 'headers_env = { Last-Event-ID = "X" }\n', "sources.orders: the header Last"),
    ],
)
def test_what_is_wrong_is_told_with_its_file_and_field(
    tmp_path: Path, text: str, field: str
) -> None:
    """One line, no traceback, and enough to find the place."""
    file = written(tmp_path, text)
    with pytest.raises(UsageError, match=field) as refused:
        load_settings(file, {}, {})
    assert str(refused.value).startswith(f"{file}: ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "htps://ada:s3cret@host/x?token=s3cret",
        "http://?token=s3cret",
        "http://host:99999/?token=s3cret",
        "http://[::1/?token=s3cret",
        "http://host/a b?token=s3cret",
        "http://host/\n?token=s3cret",
    ],
)
def test_a_url_that_is_none_is_not_shown(url: str) -> None:
    """User and query string may carry secrets."""
    with pytest.raises(ValueError, match=r"^url ") as refused:
        Source(url=url, keys=KeyScope.NONE)
    assert "s3cret" not in str(refused.value)


def test_a_bad_word_of_the_environment_names_its_variable(tmp_path: Path) -> None:
    """The file is innocent; the variables that were read are named beside it."""
    with pytest.raises(UsageError, match=r"with FENCEPOST_POOL_SLOTS: .*slots"):
        load_settings(written(tmp_path, ""), {"FENCEPOST_POOL_SLOTS": "many"}, {})
    with pytest.raises(UsageError, match=r"with FENCEPOST_BROKER_COLOUR: .*colour"):
        load_settings(written(tmp_path, ""), {"FENCEPOST_BROKER_COLOUR": "red"}, {})
    with pytest.raises(UsageError, match="broker"):
        load_settings(written(tmp_path, "broker = 3\n"), {"FENCEPOST_BROKER_USER": "ada"}, {})


def test_a_role_overrides_the_broker_field_by_field() -> None:
    """What the role leaves open comes from the broker's own fields."""
    broker = Broker(
        servers=("nats://one:1",),
        user="all",
        password="pw",
        roles={"worker": Login(user="worker"), "desk": Login(servers=("nats://desk:1",))},
    )
    worker, desk, bridge = (login_for(broker, role, {}) for role in ("worker", "desk", "bridge"))
    assert ("worker", "pw", ("nats://one:1",)) == (worker.user, worker.password, worker.servers)
    assert ("all", "pw", ("nats://desk:1",)) == (desk.user, desk.password, desk.servers)
    assert ("all", "pw", ("nats://one:1",)) == (bridge.user, bridge.password, bridge.servers)


@pytest.mark.parametrize("servers", [None, ()])
def test_without_servers_there_is_the_one_at_home(servers: tuple[str, ...] | None) -> None:
    """No server named, or an empty list: the default port of this machine."""
    assert (DEFAULT_SERVER,) == login_for(Broker(servers=servers), "init", {}).servers


def test_a_password_from_the_environment() -> None:
    """It is read where it is needed; without it, the field and the variable are named."""
    broker = Broker(password_env="PW", roles={"desk": Login(password_env="DESK_PW")})
    environment = {"PW": "s3cret", "DESK_PW": "other"}
    assert "s3cret" == login_for(broker, "bridge", environment).password
    assert "other" == login_for(broker, "desk", environment).password
    with pytest.raises(UsageError, match=r"^broker\.password_env: the variable PW is not set$"):
        login_for(broker, "bridge", {})
    with pytest.raises(UsageError, match=r"^broker\.roles\.desk\.password_env: .* DESK_PW"):
        login_for(broker, "desk", {"PW": "s3cret"})


def test_headers_from_the_environment() -> None:
    """They join those of the file; one that is missing or cannot be sent is told by its name."""
    fields: dict[str, Any] = {"headers": {"X-A": "1"}, "headers_env": {"Authorization": "TOKEN"}}
    source = Source(url="http://x", keys=KeyScope.NONE, **fields)
    headers = source_headers("orders", source, {"TOKEN": "Bearer s3cret"})
    assert {"X-A": "1", "Authorization": "Bearer s3cret"} == headers
    with pytest.raises(UsageError, match=r"sources\.orders\.headers_env: the variable TOKEN for"):
        source_headers("orders", source, {})
    with pytest.raises(UsageError, match="perhaps a line end") as refused:
        source_headers("orders", source, {"TOKEN": "Bearer s3cret\n"})
    assert "s3cret" not in str(refused.value)
