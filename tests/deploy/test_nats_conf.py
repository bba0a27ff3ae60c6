"""The broker configurations that we ship: the server takes them, and each role can do its work."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from fencepost import Context, Fencepost, Gap
from fencepost.broker.embedded import EmbeddedBroker, find_server
from fencepost.broker.jetstream import JetStream, connect
from fencepost.errors import Denied
from fencepost.ports import Message, StoredMessage
from fencepost.settings import Broker, Login
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.row import State, encode_row
from fencepost_schemas.subject import EVENTS, LEDGER
from kit.command import Ran, configure, run_command
from kit.house import house
from kit.rows import place_of, row
from kit.source import End, ScriptedSource, sse, stream
from kit.wait import until

DEPLOY = Path(__file__).parents[2] / "deploy"
ROLES = ("init", "bridge", "worker", "desk")
EMITS = {"NATS_WORKER_EMITS": '"fp.events.app-deployed.>"'}
PASSWORDS = {f"NATS_{role.upper()}_PASSWORD": f"secret-{role}" for role in ROLES}


@pytest.mark.parametrize("roles", [False, True])
def test_the_server_takes_the_configuration(tmp_path: Path, roles: bool) -> None:
    """`nats-server -t` accepts nats.conf, alone and with the roles included."""
    text = (DEPLOY / "nats.conf").read_text("utf-8")
    if roles:
        text += '\ninclude "nats-roles.conf"\n'
        (tmp_path / "nats-roles.conf").write_text((DEPLOY / "nats-roles.conf").read_text("utf-8"))
    (tmp_path / "nats.conf").write_text(text, "utf-8")

    tried = subprocess.run(
        [find_server(), "-t", "-c", str(tmp_path / "nats.conf")],
        capture_output=True,
        text=True,
        env={**os.environ, **PASSWORDS, **EMITS},
        check=False,
    )

    assert (0, "sync_interval: always" in text) == (tried.returncode, True), tried.stderr


def _roles_text() -> str:
    text = (DEPLOY / "nats-roles.conf").read_text("utf-8")
    for variable, password in PASSWORDS.items():
        text = text.replace(f"${variable}", f'"{password}"')
    for variable, subject in EMITS.items():
        text = text.replace(f"${variable}", subject)
    return text


async def _login(broker: EmbeddedBroker, role: str) -> JetStream:
    login = Login(servers=(broker.url,), user=role, password=f"secret-{role}")
    return await connect(Broker(reply_s=1.0), login, role)


async def test_every_role_can_do_its_work_with_the_rights_it_has(tmp_path: Path) -> None:
    """From init to an effect, a question, its answer and its effect, each under its own login.

    The gap between the two tasks is reconciled meanwhile.
    """
    logins = {role: {"user": role, "password": f"secret-{role}"} for role in ROLES}
    done: list[str] = []
    listening = asyncio.Event()

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        listening.set()
        yield

    app = Fencepost("deployed", lifespan=lifespan)

    @app.on("task")
    async def work(task: dict[str, str]) -> None:
        done.append(task["k"])

    @app.reconcile("orders")
    async def fill(gap: Gap, ctx: Context) -> None:
        await ctx.emit(type="task", key="missed", data={"k": "missed"})

    script = (
        stream(sse(("1", '{"k":"a"}'))),
        stream(sse(("2", '{"k":"b"}')), end=End.HANG),
    )
    async with (
        EmbeddedBroker(tmp_path / "broker", extra=_roles_text()) as broker,
        ScriptedSource(*script) as source,
        house(
            broker,
            {"orders": {"url": source.url, "keys": "durable", "key": "/k"}},
            broker={"roles": logins},
        ) as home,
    ):
        await home.init()
        async with home.worker(app):
            # A reconciler is called for what is recorded once its consumer is there.
            await asyncio.wait_for(listening.wait(), 10.0)
            async with home.bridge(shares=True):
                await until(lambda: done == ["a", "missed"], "the task in the gap")

                async def asked() -> bool:
                    return any(entry.held for entry in await home.book.entries())

                await until(asked, "the question about the seam")
                (entry,) = await home.book.entries()
                await home.book.answer(entry.question.id, "accept", "somebody")
                await until(lambda: done == ["a", "missed", "b"], "the second task")


async def test_the_ledger_is_looked_at_and_mended_with_no_more_rights(tmp_path: Path) -> None:
    """The desk looks, copies and drops dead letters; what writes rows and cursors is init's."""
    logins = {role: {"user": role, "password": f"secret-{role}"} for role in ROLES}
    sources = {"orders": {"url": "http://127.0.0.1:9/", "keys": "durable", "key": "/k"}}
    async with EmbeddedBroker(tmp_path / "broker", extra=_roles_text()) as broker:
        configure(tmp_path, broker.url, sources, broker={"roles": logins})

        async def ran(*arguments: str) -> Ran:
            done = await run_command(*arguments, folder=tmp_path)
            assert 0 == done.code, (arguments, done.err)
            return done

        await ran("init")
        worker = await _login(broker, "worker")
        try:
            now_ms = await worker.clock_ms(LEDGER)
            started = row("k:a", State.STARTED, lease_until_ms=now_ms + 60_000)
            await worker.store(Message(place_of(started), encode_row(started)))
            await worker.store(Message("fp.dead.charge", b"{}"))
        finally:
            await worker.close()
        for arguments in (
            ("ledger", "ls"),
            ("ledger", "get", "charge", "orders", "a"),
            ("ledger", "stats"),
            ("ledger", "export", "copy.jsonl"),
            ("ledger", "release", "charge", "orders", "a", "--yes"),
            ("ledger", "import", "copy.jsonl"),
            ("dead", "ls"),
            ("dead", "show", "1"),
            ("dead", "drop", "1", "--yes"),
        ):
            await ran(*arguments)
        cursor = msgspec.json.decode((await _cursor(broker)).payload, type=Cursor)
        other = msgspec.structs.replace(cursor, ledger="another")
        init = await _login(broker, "init")
        try:
            await init.store(Message("fp.cursors.orders", msgspec.json.encode(other)))
        finally:
            await init.close()
        assert "orders: pinned to" in (await ran("ledger", "adopt", "--yes")).out


async def test_sources_are_looked_at_and_changed_with_no_more_rights(tmp_path: Path) -> None:
    """The desk looks; what bridges connect to, and from where, is init's to say."""
    logins = {role: {"user": role, "password": f"secret-{role}"} for role in ROLES}
    sources = {"orders": {"url": "http://127.0.0.1:9/", "keys": "durable", "key": "/k"}}
    async with EmbeddedBroker(tmp_path / "broker", extra=_roles_text()) as broker:
        configure(tmp_path, broker.url, sources, broker={"roles": logins})
        for code, *arguments in (
            (0, "init"),
            (0, "sources", "add", "crm", "--url", "http://127.0.0.1:9/x", "--keys", "none"),
            (0, "sources", "pause", "crm"),
            (0, "sources", "resume", "crm"),
            (0, "sources", "rebaseline", "orders", "--from", "7", "--note", "why", "--yes"),
            (0, "sources", "ls"),
            (1, "sources", "show", "orders"),
        ):
            done = await run_command(*(str(one) for one in arguments), folder=tmp_path)
            assert code == done.code, (arguments, done.err)
            assert "" == done.err or "--yes" in arguments


async def _cursor(broker: EmbeddedBroker) -> StoredMessage:
    connection = await _login(broker, "init")
    try:
        stored = await connection.last(EVENTS, "fp.cursors.orders")
        assert stored is not None
        return stored
    finally:
        await connection.close()


@pytest.mark.parametrize("role", ["bridge", "worker", "desk"])
async def test_no_lasting_role_may_make_or_delete_a_stream(tmp_path: Path, role: str) -> None:
    """A denied call says so, by subject and role, and not as a timeout."""
    async with EmbeddedBroker(tmp_path / "broker", extra=_roles_text()) as broker:
        connection = await _login(broker, role)
        try:
            for call in ("STREAM.DELETE", "STREAM.PURGE", "STREAM.CREATE"):
                with pytest.raises(Denied, match=rf"{role} login.*{call}"):
                    await connection.api(f"{call}.{EVENTS}")
        finally:
            await connection.close()


async def test_a_worker_cannot_forge_an_answer_nor_a_bridge_a_row(tmp_path: Path) -> None:
    """What a role does not do, it may not do."""
    forbidden = [
        ("worker", "fp.answers.seam-x"),
        ("worker", "fp.events.orders.0001-aaaaaaaa.genesis.00"),
        ("worker", "fp.events.app-another.0001-aaaaaaaa.reoriginated.00"),
        ("worker", "fp.epochs.orders.0001-aaaaaaaa"),
        ("worker", "fp.cursors.orders"),
        ("bridge", "fp.ledger.h.s.d"),
        ("bridge", "fp.intentions.orders"),
        ("desk", "fp.intentions.orders"),
        ("desk", "fp.roster"),
        ("worker", "fp.roster"),
        ("desk", "fp.events.x"),
        ("desk", "fp.ledger.h.s.d"),
        ("desk", "fp.ledger.identity"),
        ("desk", "fp.cursors.x"),
        ("init", "fp.answers.seam-x"),
    ]
    async with EmbeddedBroker(tmp_path / "broker", extra=_roles_text()) as broker:
        for role, subject in forbidden:
            connection = await _login(broker, role)
            try:
                with pytest.raises(Denied):
                    await connection.store(Message(subject, msgspec.json.encode({})))
            finally:
                await connection.close()
