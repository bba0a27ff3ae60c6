"""Ledger rows and dead letters that stand there without anybody having worked."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from fencepost.ports import Message, Stored
from fencepost_schemas.event import headers_of
from fencepost_schemas.question import AuditEntry
from fencepost_schemas.row import Effect, Row, State, encode_row
from fencepost_schemas.standing import Standing
from fencepost_schemas.subject import AUDIT, Subjects, digest_token
from kit.command import Ran, run_command
from kit.house import House
from kit.pool import FIRST, event

SUBJECTS = Subjects()


def row(key: str = "k:a", state: State = State.APPLIED, **fields: Any) -> Row:
    """Return a row as a worker would have written it."""
    plain: dict[str, Any] = {
        "handler": "charge",
        "namespace": "orders",
        "fingerprint": hashlib.sha256(key.encode()).hexdigest(),
        "effect": Effect.ONCE,
        "standing": Standing.GENESIS,
        "source": "orders",
        "generation": FIRST,
        "position": "1",
        "first_seen_ms": 1_700_000_000_000,
        "changed_ms": 1_700_000_001_000,
        "attempt": 1,
    }
    return Row(state=state, key=key, **{**plain, **fields})


def place_of(one: Row) -> str:
    """Return the subject that a row stands on."""
    digest = digest_token(one.handler, one.namespace, one.key)
    return SUBJECTS.row(one.handler, one.namespace, digest)


async def put(home: House, *rows: Row) -> None:
    """Write the rows, over whatever stands."""
    for one in rows:
        await put_raw(home, place_of(one), encode_row(one))


async def put_raw(
    home: House, subject: str, payload: bytes, headers: Mapping[str, str] = {}
) -> int:
    reply = await home.connection.store(Message(subject, payload, dict(headers)))
    assert isinstance(reply, Stored)
    return reply.sequence


async def bury(
    home: House, key: str = "a", handler: str = "charge", payload: bytes | None = None, **own: str
) -> int:
    """Put a dead letter there, and return its number; `own` are the pool's headers."""
    one = event(key, payload=payload)
    told = {"error": "no such account", "attempts": "3", "app": "shop", **own}
    headers = {**headers_of(one), **{f"fencepost-{name}": text for name, text in told.items()}}
    return await put_raw(home, home.subjects.dead(handler), one.payload, headers)


async def audit(home: House) -> list[AuditEntry]:
    """Return what was done at the desk."""
    scan = home.connection.scan(AUDIT, home.subjects.audit("desk"))
    return [msgspec.json.decode(one.payload, type=AuditEntry) async for one in scan]


async def fencepost(home: House, folder: Path, *arguments: str) -> Ran:
    """Run a command on the broker of a house."""
    url = (home.settings.broker.servers or ("",))[0]
    return await run_command(*arguments, "--server", url, folder=folder)
