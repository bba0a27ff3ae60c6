"""`fencepost probe` as its users run it: what it prints, what it never prints, and its codes."""

import json
from pathlib import Path

import pytest

from kit.command import Ran, run_command
from kit.source import ScriptedSource, stream
from kit.speaker import Speaker, accepts_and_forgets, numbered

QUICK = ("--wait", "0.5", "--seconds", "20")
SECRET = "s3cr3t-t0k3n"


async def run_probe(url: str, *options: str, folder: Path, **more: str) -> Ran:
    return await run_command("probe", url, *QUICK, *options, folder=folder, more=more)


async def test_a_server_that_can_be_proven(tmp_path: Path) -> None:
    """Code 0; progress goes to stderr, and what to paste is in the result."""
    async with Speaker(numbered(5)) as server:
        ran = await run_probe(server.url, "--name", "orders", folder=tmp_path)
    assert 0 == ran.code, ran.err
    assert f"{server.url}: a break can be proven" == ran.out.splitlines()[0]
    assert "[sources.orders]" in ran.out
    assert "request 1 of at most 12: listen, without a position" in ran.err
    assert "Traceback" not in ran.err
    assert max(map(len, ran.out.splitlines())) < 200


async def test_a_server_that_cannot_be_proven(tmp_path: Path) -> None:
    """Code 1, with one line that says why."""
    async with Speaker(numbered(5), accepts_and_forgets) as server:
        ran = await run_probe(server.url, folder=tmp_path)
    assert 1 == ran.code
    assert ran.complaint.startswith(
        "a break could not be proven: a true resume would be unverifiable"
    )
    assert "not_replayed" in ran.out


async def test_one_object_for_programs(tmp_path: Path) -> None:
    async with Speaker(numbered(5)) as server:
        ran = await run_probe(server.url, "--json", folder=tmp_path)
    assert (0, 1) == (ran.code, len(ran.out.splitlines()))
    report = json.loads(ran.out)
    assert report["provable"] is True
    assert {"identity": "yes", "position": "yes", "completeness": "yes"} == {
        one["facet"]: one["holds"] for one in report["conditions"]
    }
    assert report["requests"] == len(server.requests) <= 12


async def test_a_quiet_server(tmp_path: Path) -> None:
    """It is said that nothing could be seen, and what to do."""
    async with Speaker([]) as server:
        ran = await run_probe(server.url, folder=tmp_path)
    assert 1 == ran.code
    assert "no event came within 0.5 s, and with none there is nothing to resume" in ran.complaint
    assert "--wait" in ran.complaint


async def test_what_is_secret_is_not_printed(tmp_path: Path) -> None:
    """Neither the query, nor a header's value, nor ids, nor the generation."""
    log = [(f"{SECRET}-{n}", f'{{"n":{n}}}') for n in range(5)]
    headers = {"stream-generation": f"{SECRET}-g"}
    async with Speaker(log, headers=headers) as server:
        for json_too in ((), ("--json",)):
            ran = await run_probe(
                f"{server.url}?token={SECRET}",
                *("--header", "Authorization=SHOP_TOKEN", *json_too),
                folder=tmp_path,
                SHOP_TOKEN=f"Bearer {SECRET}",
            )
            assert 0 == ran.code, ran.err
            assert SECRET not in ran.out + ran.err
            assert "SHOP_TOKEN" in ran.out
    assert {f"Bearer {SECRET}"} == {one.headers["authorization"] for one in server.requests}
    assert {f"/events?token={SECRET}"} == {one.path for one in server.requests}


async def test_the_bound_on_requests_holds(tmp_path: Path) -> None:
    """What could not be asked any more is named."""
    async with Speaker(numbered(5)) as server:
        ran = await run_probe(server.url, "--requests", "3", folder=tmp_path)
    assert 3 == len(server.requests)
    assert "resume from the newest id: not asked, the bounds are reached" in ran.out


async def test_foreign_text_is_made_fit_for_a_terminal(tmp_path: Path) -> None:
    log = [(str(n), f'{{"id\\u001b[31m":"{n}","epoch\\u001b":"e"}}') for n in range(5)]
    async with Speaker(log) as server:
        ran = await run_probe(server.url, folder=tmp_path)
    assert "\x1b" not in ran.out
    assert "epoch\\" in ran.out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["probe"], "Missing argument 'url'"),
        (["probe", "ftp://x"], "url must begin with http:// or https://"),
        (["probe", "http://x", "--header", "A"], "--header: write NAME=VARIABLE"),
        (["probe", "http://x", "--header", "A=UNSET"], "--header A: the variable"),
        (["probe", "http://x", "--header", "Last-Event-ID=HOME"], "fencepost's own to send"),
        (["probe", "http://x", "--wait", "nan"], "--wait must be above 0"),
        (["probe", "http://x", "--wait", "90"], "--wait 90 is longer than --seconds 60"),
        (["probe", "http://x", "--requests", "0"], "'--requests'"),
        (["probe", "http://x", "--name", "A b"], "--name: 'A b' is not a name"),
        (["probe", "http://x", "--mcp-call", "[]"], "write a JSON object"),
        (["probe", "http://x", "--mcp-call", "{"], "--mcp-request, --mcp-call: "),
        (["probe", "http://x", "--mcp-call", "{}"], "an mcp request needs a method"),
    ],
    ids=lambda value: " ".join(value[1:]) if isinstance(value, list) else "",
)
async def test_a_command_line_that_is_wrong(
    tmp_path: Path, arguments: list[str], expected: str
) -> None:
    ran = await run_command(*arguments, folder=tmp_path)
    assert 2 == ran.code
    assert expected in ran.complaint


async def test_nobody_is_there(tmp_path: Path) -> None:
    ran = await run_probe("http://127.0.0.1:9/events?token=" + SECRET, folder=tmp_path)
    assert 3 == ran.code
    expected = "the server does not take connections: is the url right, and does it run?"
    assert expected == ran.complaint


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (401, "answered 401: check the source's credentials"),
        (404, "answered 404: check the source's url"),
        (503, "answered 503"),
    ],
)
async def test_the_server_does_not_let_us_in(tmp_path: Path, status: int, expected: str) -> None:
    """That is no answer to whether it could be proven."""
    reply = stream(b"no")
    refused = type(reply)((b"no",), status, {"content-type": "text/plain"})
    async with ScriptedSource(refused) as server:
        ran = await run_probe(server.url, folder=tmp_path)
    assert (3, 1) == (ran.code, len(server.requests))
    assert expected in ran.complaint
