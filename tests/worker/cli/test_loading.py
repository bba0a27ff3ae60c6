"""Finding the user's app: every way in which a reference or its module can be wrong."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.cli.loading import load_app, with_app_dialects
from fencepost.errors import UsageError
from fencepost.settings_file import load_settings
from fencepost_policies.dialects.described import Dialect
from fencepost_policies.dialects.named import NAMED

APP = "from fencepost import Fencepost\napp = Fencepost('shop')\n"
HANDLER = "@app.on('task')\nasync def charge(task: dict[str, str]) -> None: ...\n"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test imports its own `shop`, and leaves nothing behind."""
    path, modules = list(sys.path), set(sys.modules)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


@pytest.mark.parametrize("reference", ["shop:app", "shop.py:app", "./shop.py:app"])
def test_an_app_is_found(tmp_path: Path, reference: str) -> None:
    """By the name of its module, or of its file."""
    (tmp_path / "shop.py").write_text(APP + HANDLER, "utf-8")
    assert ["charge"] == list(load_app(reference).handlers)


def test_a_file_may_import_its_neighbours(tmp_path: Path) -> None:
    """As it could if Python ran it."""
    (tmp_path / "goods.py").write_text("NAME = 'shop'\n", "utf-8")
    (tmp_path / "shop.py").write_text("import goods\n" + APP + HANDLER, "utf-8")
    assert "shop" == load_app("shop.py:app").name


@pytest.mark.parametrize(
    ("reference", "text", "expected"),
    [
        ("", "", "there is no app: add app ="),
        ("shop", APP, "write module:name or path/file.py:name"),
        (":app", APP, "write module:name or path/file.py:name"),
        ("shopp:app", APP, "app shopp: there is no such module here"),
        ("shop.api:app", APP, "app shop.api: there is no such module here"),
        ("other/shop.py:app", APP, "app other/shop.py: there is no such file"),
        ("shop:api", APP, "shop has no 'api'"),
        ("shop:app", "app = 3\n", "app is no Fencepost(...)"),
        ("shop:app", APP, "it has no handler: decorate one with @app.on(...)"),
        ("shop:app", "import sh\n", "it imports sh, which is not installed"),
        ("shop.py:app", "import s\n", "it imports s, which is not installed"),
        ("shop:app", "import shop.more\n", "app shop: "),
        ("shop:app", "1/0\n", "importing it failed: ZeroDivisionError: division by zero"),
        ("shop.py:app", "def\n", "importing it failed: SyntaxError: "),
        ("shop:app", "raise SystemExit(0)\n", "importing it failed: SystemExit: 0"),
        ("shop:app", APP + HANDLER + HANDLER, "two handlers named 'charge' in 'shop'"),
        ("shop:app", "from fencepost import Fencepost\nFencepost('A')\n", "the app's name: 'A'"),
    ],
)
def test_an_app_that_is_wrong(tmp_path: Path, reference: str, text: str, expected: str) -> None:
    """The error names the reference, and what is missing there."""
    (tmp_path / "shop.py").write_text(text, "utf-8")
    with pytest.raises(UsageError) as wrong:
        load_app(reference)
    assert expected in str(wrong.value)


SPOKEN = 'app = "shop:app"\n[sources.a]\nurl = "http://127.0.0.1/"\nkeys = "durable"\nkey = "/k"\n'
POLICY = (
    "from fencepost_policies.dialects.described import Dialect\n"
    "app.policy(Dialect(scheme='ulid'), name='ours')\n"
)


def test_a_dialect_is_found_in_the_app(tmp_path: Path) -> None:
    """A bridge imports the app for it; where nothing needs the app, it does not."""
    (tmp_path / "shop.py").write_text(APP + HANDLER + POLICY, "utf-8")
    (tmp_path / "fencepost.toml").write_text(SPOKEN + 'dialect = "ours"\n', "utf-8")
    settings = with_app_dialects(load_settings(None, {}, {}))
    assert Dialect(scheme="ulid") == settings.sources["a"].speech

    (tmp_path / "fencepost.toml").write_text(SPOKEN + 'dialect = "nchan"\n', "utf-8")
    (tmp_path / "shop.py").write_text("1/0\n", "utf-8")
    assert NAMED["nchan"] is with_app_dialects(load_settings(None, {}, {})).sources["a"].speech


def test_a_dialect_that_the_app_does_not_bring_is_unknown(tmp_path: Path) -> None:
    """It is told before anything is connected to."""
    (tmp_path / "shop.py").write_text(APP + HANDLER, "utf-8")
    (tmp_path / "fencepost.toml").write_text(SPOKEN + 'dialect = "ours"\n', "utf-8")
    with pytest.raises(UsageError, match=r"sources\.a\.dialect: there is no dialect 'ours'"):
        with_app_dialects(load_settings(None, {}, {}))
