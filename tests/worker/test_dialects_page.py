"""The page on dialects: its examples work as they stand, and its table leaves no dialect out."""

import re
from pathlib import Path
from typing import Any

import pytest

from fencepost.errors import UsageError
from fencepost.registry import OWN_TABLES, built_in
from fencepost.settings_file import load_settings, with_dialects
from fencepost_policies.dialects import plain
from fencepost_policies.dialects.described import Dialect
from fencepost_schemas.sse import Decoder
from kit.resume import Answer, followed

PAGE = (Path(__file__).parents[2] / "docs" / "dialects.md").read_text("utf-8")
SOURCE = '[sources.bills]\nurl = "https://x.example/"\nkeys = "durable"\nkey = "/id"\n'


def example(language: str) -> str:
    """Return the block of the page that is marked as an example to be run."""
    found = re.search(rf"<!-- example: {language} -->\n```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found.group(1)


def test_the_example_in_toml(tmp_path: Path) -> None:
    """It loads, and the source speaks as it is said there."""
    file = tmp_path / "fencepost.toml"
    file.write_text(example("toml") + SOURCE + 'dialect = "archive"\n', "utf-8")
    settings = load_settings(file, {}, {})
    trades = settings.sources["trades"]
    assert "/trade" == trades.key_pointer
    body = b'event: ping\ndata: {}\n\ndata: {"seq":4,"kind":"sold","trade":"a"}\n\n'
    assert "4" == str(followed(trades.speech, Answer(body)).position)
    assert "sold" == trades.speech.type_of(Decoder().feed(body)[1])
    asked = trades.speech.ask.request("https://x.example/v1", {}, "4")
    assert "https://x.example/v1?from=4" == asked.url
    archive = settings.sources["bills"].speech
    assert ("atomic", "/seq") == (archive.join, getattr(archive, "position", ""))
    assert b'{"after":4,"epoch":"e"}' == archive.ask.request("https://x", {}, "4", "e").body


def test_the_example_in_python(tmp_path: Path) -> None:
    """Twenty lines that are run: an app brings the dialect, and a source speaks it."""
    code = example("python")
    defined: dict[str, Any] = {"__name__": "billing"}
    exec(compile(code, "docs/dialects.md", "exec"), defined)
    file = tmp_path / "fencepost.toml"
    file.write_text(f'app = "billing:app"\n{SOURCE}dialect = "batched"\n', "utf-8")
    settings = with_dialects(load_settings(file, {}, {}), defined["app"].policies)
    speech = settings.sources["bills"].speech
    hello, paid = Decoder().feed(b"data: hello\n\nid: 1\nevent: 3/paid\ndata: {}\n\n")
    assert (False, True) == (speech.counts(hello), speech.counts(paid))
    assert "paid" == speech.type_of(paid)
    with pytest.raises(UsageError, match="there is no dialect 'batched'"):
        with_dialects(load_settings(file, {}, {}))


def test_a_python_dialect_takes_twenty_lines() -> None:
    """From the class to its registration, blank lines left out."""
    lines = example("python").partition("class ")[2].splitlines()
    assert len([line for line in lines if line.strip()]) <= 20


def test_the_table_leaves_no_dialect_out() -> None:
    """Each has its row, which says what it rests on."""
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| ([a-z -]+) \|$", PAGE, re.MULTILINE))
    rows = {name: tried for name, tried in rows.items() if "fields" not in name}
    tried = {name: dialect.about.tried for name, dialect in built_in().items()}
    assert {**dict.fromkeys(OWN_TABLES, "on a real server"), **tried} == {
        name: rows[name] for name in (*OWN_TABLES, *tried)
    }


def test_the_fields_of_the_page_are_those_of_a_dialect() -> None:
    """None is left out, and none is made up."""
    own = set(Dialect.__struct_fields__) - set(plain.Dialect.__struct_fields__)
    named = set(re.findall(r"^\| `(\w+)` \| [^|]+ \|$", PAGE, re.MULTILINE))
    assert own - {"ask", "about"} == named
