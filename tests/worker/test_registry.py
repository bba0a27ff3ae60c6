"""What a dialect's name stands for: where it is looked for, and every slip in a table."""

import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from fencepost.app import Fencepost
from fencepost.errors import UsageError
from fencepost.intentions import checked_table
from fencepost.registry import built_in, checked_policy, described_dialects, shipped, speaking
from fencepost.settings import Settings, Source
from fencepost.settings_file import load_settings, with_dialects
from fencepost_policies.dialects.described import Dialect
from fencepost_policies.dialects.named import NAMED
from fencepost_schemas.event import KeyScope

URL = "http://127.0.0.1/x"
MINE = Dialect(scheme="ulid")


def source(dialect: str, **fields: Any) -> Source:
    return Source(url=URL, keys=KeyScope.DURABLE, key="/k", dialect=dialect, **fields)


def loaded(tmp_path: Path, text: str) -> Settings:
    file = tmp_path / "fencepost.toml"
    file.write_text(text, "utf-8")
    return load_settings(file, {}, {})


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package is installed that brings the dialects `theirs`, `broken` and `nothing`."""
    (tmp_path / "their_package.py").write_text(
        "from fencepost_policies.dialects.described import Dialect\n"
        "DIALECT = Dialect(scheme='uuidv7')\nNOTHING = 3\n",
        "utf-8",
    )
    info = tmp_path / "their_package-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[fencepost.policies]\ntheirs = their_package:DIALECT\nbroken = their_package:missing\n"
        "nothing = their_package:NOTHING\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("their_package", None)


def test_names_are_looked_for_in_their_order(installed: None) -> None:
    """Built in, then the configuration's tables, then installed packages', then the app's."""
    tables = {"mine": {"scheme": "integer"}, "theirs": {"scheme": "integer"}}
    registered = {"mine": MINE, "ours": MINE, "theirs": MINE}
    found = {
        name: speaking("orders", source(name), tables, registered).speech
        for name in ("nchan", "mercure", "mine", "ours", "theirs")
    }
    assert NAMED["nchan"] is found["nchan"]
    assert shipped()["mercure"] is found["mercure"]
    assert Dialect(scheme="integer") == found["mine"] == found["theirs"]
    assert MINE is found["ours"]
    assert Dialect(scheme="uuidv7") == speaking("orders", source("theirs"), {}, registered).speech


def test_an_unknown_name_fails_with_those_that_are_known(installed: None) -> None:
    """In one line, so that a slip of the pen is seen at once."""
    with pytest.raises(UsageError, match="there is no dialect 'nchann'; known are plain") as caught:
        speaking("orders", source("nchann"), {"mine": {}}, {"ours": MINE})
    text = str(caught.value)
    assert "sources.orders.dialect" in text
    assert "\n" not in text
    for name in (*built_in(), "mine", "ours", "theirs"):
        assert name in text


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("broken", "the entry point fencepost.policies:broken cannot be loaded: AttributeError"),
        ("nothing", "'nothing' is no dialect"),
    ],
)
def test_a_package_that_brings_no_dialect(installed: None, name: str, expected: str) -> None:
    """It is named; what it raised may hold anything, and is not shown."""
    assert name in entry_points(group="fencepost.policies").names
    with pytest.raises(UsageError) as caught:
        speaking("orders", source(name), {})
    assert expected in str(caught.value)


def test_a_table_goes_on_from_what_it_is_like() -> None:
    """Fields in place of fields, and of `ask` single ones; what it rests on is not inherited."""
    tables: dict[str, dict[str, Any]] = {
        "one": {"like": "durable_streams", "type": "/kind", "ask": {"earliest": "0"}},
        "two": {"like": "one", "key": "/id"},
    }
    one, two = described_dialects(tables).values()
    ground = NAMED["durable_streams"]
    assert type(ground) is type(one) is type(two)
    assert ("/kind", "0", "offset", "/id") == (two.type, two.ask.earliest, two.ask.name, two.key)
    assert ground.places == two.places
    assert "" == two.about.tried


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        ({"nchan": {}}, "dialects.nchan: this name is built in; choose another one"),
        ({"mercure": {}}, "dialects.mercure: this name is built in"),
        ({"mcp": {}}, "dialects.mcp: this name is built in"),
        ({"a": {"like": "b"}}, "dialects.a.like: there is no 'b'; known are plain, a, centrifugo"),
        ({"a": {"like": "mcp"}}, "dialects.a.like: there is no 'mcp'"),
        ({"a": {"like": "b"}, "b": {"like": "a"}}, "dialects.a: it is like itself, by a and b"),
        ({"a": {"scheme": "numbers"}}, "dialects.a: scheme 'numbers' is not one of"),
        ({"a": {"ids": "x"}}, "dialects.a: Object contains unknown field `ids`"),
        ({"a": {"ask": {"in": "query"}, "like": "nchan", "x": 1}}, "unknown field `x`"),
        ({"a": {"ask": {"in": "body"}}}, 'ask.in = "body" needs ask.json'),
        ({"a": {"ask": 3}}, "dialects.a: Expected `object`, got `int` - at `$.ask`"),
    ],
)
def test_a_slip_in_a_table_is_named(tables: dict[str, dict[str, Any]], expected: str) -> None:
    """With the table's name, whether a source uses it or not."""
    with pytest.raises(UsageError) as caught:
        described_dialects(tables)
    assert expected in str(caught.value)


def test_a_file_with_dialects(tmp_path: Path) -> None:
    """The name is looked up when the file is read; [sources.X.plain] stays what it was."""
    settings = loaded(
        tmp_path,
        '[dialects.mine]\nlike = "sequence"\nkey = "/id"\n'
        f'[sources.a]\nurl = "{URL}"\nkeys = "durable"\ndialect = "mine"\n'
        f'[sources.b]\nurl = "{URL}"\nkeys = "none"\ndialect = "eventstreams"\n'
        f'[sources.c]\nurl = "{URL}"\nkeys = "durable"\ndialect = "eventstreams"\n'
        f'[sources.d]\nurl = "{URL}"\nkeys = "durable"\nkey = "/k"\n'
        '[sources.d.plain]\nscheme = "integer"\n'
        '[sources.d.plain.ask]\nin = "query"\nname = "from"\n',
    )
    a, b, c, d = settings.sources.values()
    # What is written in TOML is a described dialect, which says more than the protocol.
    assert ("/sequence_number", "/id") == (a.speech.places.pointer, a.key_pointer)  # type: ignore[attr-defined]
    assert ("", "/meta/id", "/k") == (b.key_pointer, c.key_pointer, d.key_pointer)
    assert ("query", "from") == (d.speech.ask.where, d.speech.ask.name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('dialect = "nchann"\nkey = "/k"\n', "sources.a.dialect: there is no dialect 'nchann'"),
        ('dialect = "nchan"\n', 'sources.a: keys = "none" goes without a key'),
        ('dialect = "nchan"\nkey = "/k"\nplain = {scheme = "integer"}\n', 'like = "nchan"'),
        ('key = "/k"\nspoken = "nchan"\n', "spoken is nothing to be written: name the dialect"),
        ('dialect = "mercure"\n', 'any other value needs key = "/..."'),
    ],
)
def test_a_slip_in_a_source_is_named(tmp_path: Path, text: str, expected: str) -> None:
    """With the file, the source, and what to write instead."""
    with pytest.raises(UsageError) as caught:
        loaded(tmp_path, f'[sources.a]\nurl = "{URL}"\nkeys = "durable"\n{text}')
    assert "fencepost.toml: " in str(caught.value)
    assert expected in str(caught.value)


def test_an_app_brings_a_dialect(tmp_path: Path) -> None:
    """The file may name what only the app knows; without the app that is an error."""
    text = f'[sources.a]\nurl = "{URL}"\nkeys = "durable"\nkey = "/k"\ndialect = "ours"\n'
    with pytest.raises(UsageError, match="there is no dialect 'ours'"):
        loaded(tmp_path, text)
    settings = loaded(tmp_path, f'app = "shop:app"\n{text}')
    assert not settings.sources["a"].speech_known
    with pytest.raises(UsageError, match="there is no dialect 'ours'"):
        assert settings.sources["a"].speech
    app = Fencepost("shop")
    app.policy(MINE, name="ours")
    assert MINE is with_dialects(settings, app.policies).sources["a"].speech


def test_what_is_no_dialect_is_refused() -> None:
    """When it is registered, not when the first source breaks."""
    app = Fencepost("shop")
    app.policy(MINE, name="ours")
    with pytest.raises(UsageError, match="two dialects named 'ours' in 'shop'"):
        app.policy(MINE, name="ours")
    with pytest.raises(UsageError, match="policy: the dialect 'nchan' is built in"):
        app.policy(MINE, name="nchan")
    for wrong in (Dialect, "nchan", None, object()):
        with pytest.raises(UsageError, match="'x' is no dialect: make it of a subclass"):
            checked_policy("x", wrong, "policy")


def test_what_is_shipped_says_what_it_rests_on() -> None:
    """Each of the TOML files names its documents, and what nobody has tried."""
    assert {"mercure", "eventstreams", "centrifugo", "kubernetes", "mcp_http_sse"} == set(shipped())
    for name, dialect in shipped().items():
        about = dialect.about
        expected = "on a real server" if name == "mcp_http_sse" else "from documents"
        assert expected == about.tried, name
        assert about.server, name
        assert about.source, name
        assert about.untried, name


def test_a_source_that_is_kept_on_the_broker_names_its_dialect() -> None:
    """Each bridge looks the name up for itself; what is not known there is not followed."""
    settings = Settings(dialects={"mine": {"scheme": "ulid"}})
    table = {"url": URL, "keys": "durable", "key": "/k"}
    kept = checked_table("a", {**table, "dialect": "mercure"}, settings)
    assert shipped()["mercure"] is kept.speech
    assert MINE == checked_table("a", {**table, "dialect": "mine"}, settings).speech
    with pytest.raises(UsageError, match=r"sources\.a\.dialect: there is no dialect 'yours'"):
        checked_table("a", {**table, "dialect": "yours"}, settings)
