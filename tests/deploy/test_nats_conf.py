"""The broker configurations that we ship: the server takes them, and each role can do its work."""

import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from fencepost.app import Fencepost
from fencepost.broker.connection import Connection
from fencepost.broker.embedded import EmbeddedBroker, find_server
from fencepost.broker.jetstream import connect
from fencepost.errors import Denied
from fencepost.ports import Message
from fencepost.settings import Broker, Login
from fencepost_schemas.subject import EVENTS
from kit.house import house
from kit.source import End, ScriptedSource, sse, stream
from kit.wait import until

DEPLOY = Path(__file__).parents[2] / "deploy"
ROLES = ("init", "bridge", "worker", "desk")
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
        env={**os.environ, **PASSWORDS},
        check=False,
    )

    assert (0, "sync_interval: always" in text) == (tried.returncode, True), tried.stderr


def _roles_text() -> str:
    text = (DEPLOY / "nats-roles.conf").read_text("utf-8")
    for variable, password in PASSWORDS.items():
        text = text.replace(f"${variable}", f'"{password}"')
    return text


async def _login(broker: EmbeddedBroker, role: str) -> Connection:
    login = Login(servers=(broker.url,), user=role, password=f"secret-{role}")
    return await connect(Broker(reply_s=1.0), login, role)


async def test_every_role_can_do_its_work_with_the_rights_it_has(tmp_path: Path) -> None:
    """From init to an effect, a question, its answer and its effect, each under its own login."""
    logins = {role: {"user": role, "password": f"secret-{role}"} for role in ROLES}
    done: list[str] = []
    app = Fencepost("deployed")

    @app.on("task")
    async def work(task: dict[str, str]) -> None:
        done.append(task["k"])

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
        async with home.bridge(), home.worker(app):
            await until(lambda: done == ["a"], "the first task")

            async def asked() -> bool:
                return any(entry.held for entry in await home.book.entries())

            await until(asked, "the question about the seam")
            (entry,) = await home.book.entries()
            await home.book.answer(entry.question.id, "accept", "somebody")
            await until(lambda: done == ["a", "b"], "the second task")


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
    forbidden = {"worker": "fp.answers.seam-x", "bridge": "fp.ledger.h.s.d", "desk": "fp.events.x"}
    async with EmbeddedBroker(tmp_path / "broker", extra=_roles_text()) as broker:
        for role, subject in forbidden.items():
            connection = await _login(broker, role)
            try:
                with pytest.raises(Denied):
                    await connection.store(Message(subject, msgspec.json.encode({})))
            finally:
                await connection.close()
