"""What cannot be reached: one line, what to do, and code 3. And no secret comes out anywhere."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker.embedded import EmbeddedBroker
from fencepost_schemas.subject import stream_plans
from kit.command import Ran, configure, run_command, started
from kit.house import house
from kit.orders import TOKENS, orders, see
from kit.source import End, Reply, ScriptedSource, sse, stream
from kit.users import users
from kit.wait import until

ADMIN = {"user": "admin", "password": "pw"}
ROLE = {"user": "role", "password": "pw"}
SHOP = (
    "from fencepost import Fencepost\napp = Fencepost('shop')\n"
    "@app.on('task')\nasync def charge(task: dict[str, str]) -> None: ...\n"
)
COMMANDS = (["init"], ["bridge"], ["worker"], ["questions", "ls"])


def _shop(folder: Path) -> dict[str, Any]:
    (folder / "shop.py").write_text(SHOP, "utf-8")
    return {"app": "shop:app"}


async def _each(folder: Path) -> dict[str, Ran]:
    """Run every command that needs the broker, side by side; return them by their role."""
    every = await asyncio.gather(*(run_command(*command, folder=folder) for command in COMMANDS))
    return dict(zip(("init", "bridge", "worker", "desk"), every, strict=True))


async def test_no_broker(tmp_path: Path) -> None:
    """Its address is told, and how to name another."""
    server, hasty = "nats://127.0.0.1:9", {"connect_s": 0.3, "start_wait_s": 0}
    sources = orders("http://127.0.0.1:9/x")
    configure(tmp_path, server, sources, broker=hasty, **_shop(tmp_path))
    for ran in (await _each(tmp_path)).values():
        assert 3 == ran.code
        assert ran.complaint.startswith("no broker answers at nats://127.0.0.1:9 (")
        assert ran.complaint.endswith("start one, or name it with --server")


@pytest.mark.parametrize("role", ["bridge", "worker"])
async def test_a_broker_that_comes_later(role: str, tmp_path: Path) -> None:
    """Bridge and worker wait for it, tell so once, and begin; SIGTERM then ends them in peace."""
    server = EmbeddedBroker(tmp_path / "broker")
    async with server, house(server, orders("http://127.0.0.1:9/x")) as home:
        await home.init()
        url = server.url
        await server.kill()
        configure(tmp_path, url, orders("http://127.0.0.1:9/x"), **_shop(tmp_path))
        async with started(role, folder=tmp_path) as command:
            await until(lambda: "waiting for the broker" in command.err, "it to wait")
            await server.start()
            begun = "1 handlers" if role == "worker" else "orders: "
            await until(lambda: begun in command.err, "it to begin")
            command.signal(signal.SIGTERM)
            ran = await command.ended()
    assert 0 == ran.code and 1 == ran.err.count("waiting for the broker")


@pytest.mark.parametrize("role", ["bridge", "worker"])
async def test_who_waits_for_a_broker_can_be_told_to_stop(role: str, tmp_path: Path) -> None:
    """There is nothing to finish, so it ends with 0."""
    server, patient = "nats://127.0.0.1:9", {"connect_s": 0.3, "start_wait_s": 600}
    configure(tmp_path, server, orders("http://127.0.0.1:9/x"), broker=patient, **_shop(tmp_path))
    async with started(role, folder=tmp_path) as command:
        await until(lambda: "waiting for the broker" in command.err, "it to wait")
        command.signal(signal.SIGTERM)
        assert 0 == (await command.ended()).code


async def test_wrong_credentials(tmp_path: Path) -> None:
    """The login is named, and where it is configured; the password is not shown."""
    async with EmbeddedBroker(tmp_path / "broker", extra=users()) as server:
        wrong = {"user": "role", "password": "s3cret"}
        sources = orders("http://127.0.0.1:9/x")
        configure(tmp_path, server.url, sources, broker=wrong, **_shop(tmp_path))
        every = await _each(tmp_path)
    for role, ran in every.items():
        assert 3 == ran.code
        assert f"refuses the {role} login: check user, password" in ran.complaint
        assert "s3cret" not in ran.err + ran.out


@pytest.mark.parametrize(
    ("command", "role", "permissions", "subject"),
    [
        (["bridge"], "bridge", {"publish": {"deny": ["fp.events.>"]}}, "publish to fp.events."),
        (["bridge"], "bridge", {"publish": {"deny": ["fp.cursors.>"]}}, "publish to fp.cursors."),
        (["bridge"], "bridge", {"subscribe": {"deny": ["_INBOX_bridge.>"]}}, "subscribe to _inbox"),
        (
            ["worker"],
            "worker",
            {"publish": {"deny": ["$JS.API.CONSUMER.CREATE.>"]}},
            "publish to $JS.API.CONSUMER.CREATE.",
        ),
        (
            ["worker"],
            "worker",
            {"publish": {"deny": ["$JS.API.CONSUMER.MSG.NEXT.>"]}},
            "publish to $JS.API.CONSUMER.MSG.NEXT.",
        ),
        (["worker"], "worker", {"publish": {"deny": ["fp.ledger.>"]}}, "publish to fp.ledger."),
        (
            ["questions", "ls"],
            "desk",
            {"publish": {"deny": ["$JS.API.STREAM.INFO.FENCEPOST_QUESTIONS"]}},
            "publish to $JS.API.STREAM.INFO.FENCEPOST_QUESTIONS",
        ),
        (
            ["init"],
            "init",
            {"publish": {"deny": ["$JS.API.STREAM.INFO.>"]}},
            "publish to $JS.API.STREAM.INFO.",
        ),
    ],
)
async def test_a_subject_that_is_denied(
    tmp_path: Path, command: list[str], role: str, permissions: dict[str, Any], subject: str
) -> None:
    """The login and the subject are named, and it is not taken for a broker that is slow."""
    live = stream(sse(("1", '{"k":"a"}')), gen="g", floor="1", end=End.HANG)
    extra = users(**permissions)
    async with (
        EmbeddedBroker(tmp_path / "broker", extra=extra) as server,
        ScriptedSource(live) as source,
        house(server, orders(source.url), broker=ADMIN) as home,
    ):
        await home.init()
        if role == "worker":
            async with home.bridge():
                await see(home, 1)
        roles = {"roles": {role: ROLE}}
        broker = {**ADMIN, **roles}
        configure(tmp_path, server.url, orders(source.url), broker=broker, **_shop(tmp_path))
        ran = await run_command(*command, folder=tmp_path)
    assert 3 == ran.code, ran.err
    assert f"the broker does not let the {role} login {subject}" in ran.complaint
    assert ran.complaint.endswith("grant it in the broker's configuration")


async def test_tls_towards_a_broker_without_it(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """A tls:// url, and a server that speaks none."""
    configure(tmp_path, broker.url.replace("nats://", "tls://"))
    ran = await run_command("init", folder=tmp_path)
    assert 3 == ran.code
    assert ran.complaint.startswith("no TLS connection to the broker at tls://127.0.0.1:")
    assert "check tls_ca, tls_cert, tls_key" in ran.complaint


async def test_a_broker_that_wants_tls(tmp_path: Path) -> None:
    """The server asks for it, and what follows is no handshake."""

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        info = {"server_id": "x", "version": "2.15.0", "max_payload": 1024, "tls_required": True}
        writer.write(b"INFO " + json.dumps(info).encode() + b"\r\n")
        await reader.read(1)
        writer.write(b"-ERR 'no handshake'\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        configure(tmp_path, f"nats://127.0.0.1:{port}")
        ran = await run_command("init", folder=tmp_path)
    assert 3 == ran.code
    assert ran.complaint.startswith("no TLS connection to the broker")


async def test_no_secret_comes_out(tmp_path: Path) -> None:
    """Password, header, query string and secret token: in no output, log, span or message."""
    secrets = ("pw-s3cret", "header-s3cret", "query-s3cret", "generation-s3cret")
    extra = users().replace('"pw"', '"pw-s3cret"')
    script = (
        stream(sse(("1", '{"k":"a"}')), gen="generation-s3cret", floor="1"),
        stream(sse(("2", '{"k":"b"}')), gen="generation-s3cret-2", floor="1"),
        stream(sse(("3", '{"k":"c"}')), gen="generation-s3cret-2", floor="1"),
        Reply(status=500),
        Reply(status=401),
        Reply(status=204),
    )
    login = {"user": "admin", "password": "pw-s3cret"}
    async with (
        EmbeddedBroker(tmp_path / "broker", extra=extra) as server,
        ScriptedSource(*script) as source,
    ):
        fields: dict[str, Any] = {
            "plain": {**TOKENS, "generation_secret": True},
            "headers_env": {"Authorization": "SHOP_TOKEN"},
        }
        sources = orders(f"{source.url}?token=query-s3cret", **fields)
        configure(tmp_path, server.url, sources, broker=login)
        more = {"SHOP_TOKEN": "Bearer header-s3cret", "OTEL_TRACES_EXPORTER": "console"}
        printed = []
        for command in (["init"], ["bridge"], ["questions", "ls", "--json"]):
            ran = await run_command(*command, folder=tmp_path, more=more)
            printed += [ran.out, ran.err]
        assert "Bearer header-s3cret" == source.requests[0].headers["authorization"]
        assert source.requests[0].path.endswith("?token=query-s3cret")
        async with house(server, orders(source.url), broker=login) as home:
            assert ["genesis", "reoriginated", "resumed"] == await home.verdicts()
            for plan in stream_plans("fp"):
                async for stored in home.connection.scan(plan.name, "fp.>"):
                    printed.append(f"{stored.subject} {stored.headers} {stored.payload!r}")
    assert any("resumed" in text for text in printed)
    assert [] == [secret for secret in secrets if any(secret in text for text in printed)]


async def test_a_broker_that_goes_away_under_a_command(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """A bridge waits for the broker to come back; told to stop meanwhile, it stops."""
    live = stream(sse(("1", '{"k":"a"}')), gen="g", floor="1", end=End.HANG)
    async with ScriptedSource(live) as source, house(broker, orders(source.url)) as home:
        await home.init()
        configure(tmp_path, broker.url, orders(source.url))
        async with started("bridge", folder=tmp_path) as command:
            await see(home, 1)
            await broker.kill()
            command.process.terminate()
            ran = await command.ended()
    assert 0 == ran.code
    assert "Traceback" not in ran.err
