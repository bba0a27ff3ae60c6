"""Credentials from a variable, a file and a command: when they are asked for, and what is not said.

Every error is looked through for the token and for what the command says.
"""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fencepost.ports import SourceUnreachable
from fencepost.settings_credentials import Credentials
from fencepost.transport.credentials import Provider
from fencepost_schemas.limits import HEADER_VALUE_BYTES_MAX
from kit.source import Reply, Request, ScriptedSource, sse, stream
from kit.ways import read, way_to

DENIED = Reply(status=401, headers={})


class Guarded(ScriptedSource):
    """Streams to whoever brings the good token, and refuses everybody else."""

    def __init__(self, good: str, status: int = 401) -> None:
        super().__init__()
        self.good = good
        self.before_answer: Callable[[], object] = lambda: None
        self._status = status

    async def _respond(self, number: int, request: Request, writer: asyncio.StreamWriter) -> None:
        self.before_answer()
        right = request.headers.get("authorization") == f"Bearer {self.good}"
        reply = stream(sse(("1", "{}"))) if right else Reply(status=self._status, headers={})
        await self._send(reply, writer)


def printing(text: str, counter: Path | None = None, tail: str = "") -> list[str]:
    """Return a command that prints this; it adds a byte to the counter each time."""
    lines = ["import sys, time"]
    if counter is not None:
        lines.append(f"open({str(counter)!r}, 'a').write('x')")
    lines += [f"sys.stdout.write({text!r})", "sys.stdout.flush()", tail]
    return [sys.executable, "-S", "-c", "\n".join(lines)]


def times(counter: Path) -> int:
    return len(counter.read_text()) if counter.exists() else 0


async def test_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes as a bearer token, or as whatever header and scheme are configured."""
    monkeypatch.setenv("SHOP_TOKEN", "t0ken\n")
    async with ScriptedSource(stream()) as source:
        for fields in ({}, {"header": "X-Api-Key", "scheme": ""}, {"scheme": "Token"}):
            credentials = {"env": "SHOP_TOKEN", **fields}
            async with way_to(source.url, credentials=credentials) as way:
                await read(way, source.url)
        first, second, third = (one.headers for one in source.requests)
    assert "Bearer t0ken" == first["authorization"]
    assert ("t0ken", None) == (second["x-api-key"], second.get("authorization"))
    assert "Token t0ken" == third["authorization"]


async def test_a_file_is_read_at_each_connection(tmp_path: Path) -> None:
    """A token that was renewed there is used without a restart."""
    file = tmp_path / "token"
    async with ScriptedSource(stream()) as source:
        async with way_to(source.url, credentials={"file": str(file)}) as way:
            for token in ("old", "new"):
                file.write_text(f"{token}\n")
                await read(way, source.url)
        assert ["Bearer old", "Bearer new"] == [
            one.headers["authorization"] for one in source.requests
        ]


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refusal_asks_once_more(tmp_path: Path, status: int) -> None:
    """Another token is tried at once; the position goes along both times."""
    file = tmp_path / "token"
    file.write_text("old")
    async with Guarded("new", status) as source:
        async with way_to(source.url, credentials={"file": str(file)}) as way:
            source.before_answer = lambda: file.write_text("new")
            assert (200, sse(("1", "{}"))) == await read(way, source.url, asked="41")
        assert ["41", "41"] == [one.asked for one in source.requests]


async def test_the_same_token_again_is_not_sent_again(tmp_path: Path) -> None:
    """One request, and its answer: who calls waits before the next one."""
    file = tmp_path / "token"
    file.write_text("old")
    async with Guarded("new") as source:
        async with way_to(source.url, credentials={"file": str(file)}) as way:
            assert (401, b"") == await read(way, source.url)
        assert 1 == len(source.requests)


async def test_only_two_requests_however_often_it_changes(tmp_path: Path) -> None:
    """A command that prints another token each time is asked once again, and no more."""
    counter = tmp_path / "counter"
    tail = f"sys.stdout.write(str(len(open({str(counter)!r}).read())))"
    command = printing("token-", counter, tail)
    async with ScriptedSource(DENIED) as source:
        async with way_to(source.url, credentials={"command": command}) as way:
            assert (401, b"") == await read(way, source.url)
        sent = [one.headers["authorization"] for one in source.requests]
    assert ["Bearer token-1", "Bearer token-2"] == sent
    assert 2 == times(counter)


async def test_a_command_is_kept_for_a_while(tmp_path: Path) -> None:
    """It is run once for many connections, and each time where nothing is to be kept."""
    counter = tmp_path / "counter"
    async with ScriptedSource(stream()) as source:
        for keep_s, expected in ((60.0, 1), (0.0, 4)):
            credentials = {"command": printing("t", counter), "keep_s": keep_s}
            async with way_to(source.url, credentials=credentials) as way:
                for _ in range(3):
                    await read(way, source.url)
            assert expected == times(counter)


async def test_many_refusals_at_once_are_one_question(tmp_path: Path) -> None:
    """Connections that were refused together share the new token."""
    counter = tmp_path / "counter"
    provider = Provider(Credentials(command=tuple(printing("t", counter)), keep_s=60.0))
    old = await provider.token()
    renewed = await asyncio.gather(*(provider.renewed(old) for _ in range(8)))
    assert {2} == {token.number for token in renewed}
    assert 2 == times(counter)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"env": "NOT_SET"}, "variable NOT_SET has nothing in it"),
        ({"env": "BAD"}, "variable BAD has what no header can hold"),
        ({"file": "/nowhere/token"}, "there is no file /nowhere/token"),
        ({"file": "/dev/zero"}, "/dev/zero is no regular file"),
        ({"file": "/"}, "/ is no regular file"),
        ({"command": ["/nowhere/s3cret-tool"]}, "credentials.command cannot be run"),
        ({"command": printing("")}, "the output of credentials.command has nothing in it"),
        ({"command": printing("s3cret\ns3cret")}, "has what no header can hold"),
        ({"command": printing("s3cret", tail="sys.exit(3)")}, "failed with code 3"),
        ({"command": printing("s3cret" * 10_000)}, f"is longer than {HEADER_VALUE_BYTES_MAX}"),
        (
            {"command": printing("s3cret", tail="raise SystemError('s3cret')")},
            "credentials.command failed with code 1",
        ),
    ],
)
async def test_no_token(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    fields: dict[str, Any],
    said: str,
) -> None:
    """One line that says where it should have come from; nobody is asked without it."""
    monkeypatch.setenv("BAD", "s3cret\x07s3cret")
    async with ScriptedSource(stream()) as source:
        async with way_to(source.url, credentials=fields) as way:
            with pytest.raises(SourceUnreachable) as failed:
                await read(way, source.url)
        assert [] == source.requests
    assert said in str(failed.value)
    assert "\n" not in str(failed.value)
    printed = capfd.readouterr()
    assert "s3cret" not in str(failed.value) + printed.out + printed.err


async def test_a_command_that_does_not_end(tmp_path: Path) -> None:
    """It is ended with all that it has started, and the wait is bounded."""
    pid_file = tmp_path / "pid"
    child = f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    command = printing(
        "s3cret",
        tail=(
            "import subprocess\n"
            f"subprocess.Popen([sys.executable, '-S', '-c', {child!r}])\n"
            "time.sleep(60)"
        ),
    )
    provider = Provider(Credentials(command=tuple(command), command_s=2.0))
    with pytest.raises(SourceUnreachable, match="did not end within 2 s"):
        await provider.token()
    for _ in range(200):
        if not _runs(int(pid_file.read_text())):
            return
        await asyncio.sleep(0.05)
    raise AssertionError("what the command had started runs on")


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return False


async def test_a_command_has_no_shell(tmp_path: Path) -> None:
    """Its words are words, whatever they hold; its input is empty."""
    file = tmp_path / "made"
    command = [sys.executable, "-S", "-c", "import sys; print(sys.stdin.read() + sys.argv[1])"]
    provider = Provider(Credentials(command=(*command, f"$(touch {file})"), scheme=""))
    assert f"$(touch {file})" == (await provider.token()).value
    assert [] == os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "from one of env, file and command"),
        ({"env": "A", "file": "b"}, "from one of env, file and command"),
        ({"env": "A", "header": "Last-Event-ID"}, "fencepost's own"),
        ({"env": "A", "header": "a b"}, "not the name of a header"),
        ({"env": "A", "scheme": "two words"}, "one word"),
        ({"command": ("a", "")}, "empty word"),
        ({"command": ("a\0",)}, "no program takes"),
        ({"file": "a\0"}, "no path"),
        ({"env": "A", "command_s": 0.0}, "command_s"),
        ({"env": "A", "command_s": float("nan")}, "command_s"),
        ({"env": "A", "keep_s": -1.0}, "keep_s"),
    ],
)
def test_what_cannot_be_configured(fields: dict[str, Any], said: str) -> None:
    """It is found out when the settings are read."""
    with pytest.raises(ValueError, match=said):
        Credentials(**fields)
