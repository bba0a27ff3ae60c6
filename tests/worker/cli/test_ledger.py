"""`fencepost ledger` as its users run it: looked at, mended after a loss, and what is refused."""

import asyncio
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.broker.embedded import EmbeddedBroker
from fencepost_schemas.row import State
from fencepost_schemas.subject import LEDGER
from kit.command import Ran, configure, environment, run_command
from kit.house import House, house
from kit.pool import SOURCE, Runs, app_with, event, publish, settle, states, working
from kit.rows import audit, fencepost, place_of, put, put_raw, row
from kit.users import users

NASTY = "k:\x1b]0;owned\x07\u202egnp"
DANGEROUS = set("\x1b\x07\u202e\x00")


async def run(home: House, folder: Path, *arguments: str) -> Ran:
    return await fencepost(home, folder, "ledger", *arguments)


async def test_looking_at_the_ledger(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Listed, filtered, paged, shown and counted; foreign text is harmless."""
    async with house(broker, SOURCE) as home:
        identity = (await home.init()).ledger
        empty = await run(home, tmp_path, "ls")
        assert (0, "no row\n", "") == (empty.code, empty.out, empty.err)
        doubtful = row("k:b", State.IN_DOUBT, error="who knows")
        await put(home, row("k:a"), doubtful, row(NASTY), row("c:k:a:ff", State.CONFLICT))
        await put_raw(home, home.subjects.row("charge", "orders", "newer"), b'{"version":99}')

        listed = await run(home, tmp_path, "ls", "--limit", "3")
        names, first, *_ = [line.split("\t") for line in listed.out.splitlines()]
        assert names == [
            "row", "handler", "namespace", "key", "state", "attempt", "changed", "error",
        ]  # fmt: skip
        assert place_of(row("k:a")).endswith(first[0])
        assert ["charge", "orders", "k:a", "applied", "1", "2023-11-14T22:13:21.000Z", ""] == (
            first[1:]
        )
        assert not DANGEROUS & set(listed.out)
        after = listed.err.removeprefix("there are more: --after ").strip()
        document = json.loads((await run(home, tmp_path, "ls", "--after", after, "--json")).out)
        found = [(one["row"] or {}).get("state") for one in document["rows"]]
        assert (["conflict", None], None) == (found, document["next"])
        doubts = await run(home, tmp_path, "ls", "--state", "in_doubt", "--handler", "charge")
        assert ["k:b"] == [line.split("\t")[3] for line in doubts.out.splitlines()[1:]]

        shown = await run(home, tmp_path, "get", "charge", "orders", "a")
        assert (0, "") == (shown.code, shown.err)
        assert "  state                 applied\n" in shown.out
        assert "  first_seen            2023-11-14T22:13:20.000Z\n" in shown.out
        assert "the key came again with another payload:" in shown.out
        newer = await run(home, tmp_path, "get", "newer")
        assert "unreadable: ledger row of version 99" in newer.out
        document = json.loads((await run(home, tmp_path, "get", place_of(doubtful), "--json")).out)
        assert ("who knows", []) == (document["entry"]["row"]["error"], document["conflicts"])

        counted = await run(home, tmp_path, "stats")
        assert (0, "") == (counted.code, counted.err)
        assert f"ledger {identity}\nsource orders: pinned to it\nrows 5\n" in counted.out
        assert "charge\tin_doubt\t1\n" in counted.out
        document = json.loads((await run(home, tmp_path, "stats", "--json")).out)
        assert (identity, 5) == (document["identity"], document["counted"]["rows"])


async def test_the_restore_drill(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """As docs/operations.md has it, word for word; nothing is applied twice."""
    async with house(broker, SOURCE) as home:
        identity = (await home.init()).ledger
        configure(tmp_path, broker.url, SOURCE)
        runs = Runs()
        every = [event(f"k{number}", str(number)) for number in range(20)]
        async with working(home, app_with(runs)):
            await publish(home, *every)
            await settle(home)

        taken = await run(home, tmp_path, "export", "ledger.jsonl")
        assert (0, "20 rows are in ledger.jsonl\n", "") == (taken.code, taken.out, taken.err)
        piped = await run(home, tmp_path, "export", "-")
        assert (
            piped.out.splitlines()[1:] == (tmp_path / "ledger.jsonl").read_text().splitlines()[1:]
        )
        await home.connection.api(f"STREAM.DELETE.{LEDGER}")
        refused = await run_command("init", folder=tmp_path)
        assert (1, True) == (refused.code, identity in refused.complaint)

        back = await run(home, tmp_path, "import", "ledger.jsonl", "--actor", "ada")
        assert (0, "") == (back.code, back.err)
        assert back.out.startswith("20 rows in the copy: 20 inserted, 0 stood as they are, 0 ")
        assert f"the ledger is {identity}\n" in back.out
        assert 0 == (await run_command("init", folder=tmp_path)).code
        async with working(home, app_with(runs)):
            await publish(home, *every)
            await settle(home)
        assert (20, 1) == (len(runs.started), runs.most)
        again = await run(home, tmp_path, "import", "ledger.jsonl", "--json")
        document = json.loads(again.out)
        assert (0, 20, 0) == (document["inserted"], document["stood"], document["differing"])
        assert "ada" == (await audit(home))[0].actor


async def test_a_ledger_is_adopted(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """What it means is said first; without a terminal it has to be meant by --yes."""
    async with house(broker, SOURCE) as home:
        old = (await home.init()).ledger
        nothing = await run(home, tmp_path, "adopt")
        assert (0, f"every source is pinned to {old}: there is nothing to adopt\n") == (
            nothing.code,
            nothing.out,
        )
        await home.connection.api(f"STREAM.DELETE.{LEDGER}")
        configure(tmp_path, broker.url, SOURCE)
        assert 1 == (await run_command("init", folder=tmp_path)).code
        stats = await run(home, tmp_path, "stats")
        assert f"source orders: pinned to another: {old}\n" in stats.out

        mute = await run(home, tmp_path, "adopt")
        assert (2, "") == (mute.code, mute.out)
        assert mute.err.splitlines()[-1].endswith("say --yes")
        assert "a bridge of these sources that runs is refused at its next write" in mute.err
        assert "what comes from now on is in doubt" in mute.err
        assert old == (await home.cursor()).ledger

        given = await run(home, tmp_path, "adopt", "--actor", "ada", "--yes")
        assert (0, True) == (given.code, given.out.startswith("orders: pinned to "))
        cursor = await home.cursor()
        assert ("unverifiable", True) == (cursor.standing.value, cursor.ledger != old)
        assert [("ada", "adopted the ledger")] == [
            (entry.actor, entry.action) for entry in await audit(home)
        ]
        assert 0 == (await run_command("init", folder=tmp_path)).code


async def test_a_lease_is_released(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Once; the second time it says that it is over."""
    async with house(broker, SOURCE) as home:
        await home.init()
        now_ms = await home.connection.clock_ms(LEDGER)
        leased = {"lease_until_ms": now_ms + 60_000, "quarantine_until_ms": now_ms + 90_000}
        await put(home, row("k:a", State.STARTED, owner="worker-x", **leased))
        named = ["release", "charge", "orders", "a"]
        mute = await run(home, tmp_path, *named)
        assert (2, True) == (mute.code, "worker-x" in mute.err)
        done = await run(home, tmp_path, *named, "--yes", "--as", "ada")
        assert (0, True) == (done.code, "its quarantine stays until" in done.out)
        over = await run(home, tmp_path, *named, "--yes")
        assert (1, True) == (over.code, "its lease is over since" in over.complaint)
        assert {"k:a": State.STARTED} == await states(home)
        assert ["ada"] == [entry.actor for entry in await audit(home)]


@pytest.mark.parametrize(("typed", "code"), [(b"n\n", 1), (b"y\n", 0)])
async def test_a_terminal_is_asked(
    broker: EmbeddedBroker, tmp_path: Path, typed: bytes, code: int
) -> None:
    """No changes nothing, yes does it."""
    async with house(broker, SOURCE) as home:
        await home.init()
        now_ms = await home.connection.clock_ms(LEDGER)
        await put(home, row("k:a", State.STARTED, lease_until_ms=now_ms + 60_000))
        subject = place_of(row("k:a"))
        command = ["release", subject, "--server", broker.url]
        ended, text = await asyncio.to_thread(_on_a_terminal, command, tmp_path, typed)
        assert code == ended, text
        assert "go on? [y/N]" in text
        (stands,) = await home.rows()
    assert (code == 0) is (stands.lease_until_ms < now_ms + 60_000)


async def test_a_long_reading_shows_how_far_it_is(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """On a terminal; `test_looking_at_the_ledger` sees that a pipe gets nothing of it."""
    async with house(broker, SOURCE) as home:
        await home.init()
        await put(home, row("k:a"))
        command = ["stats", "--server", broker.url]
        ended, text = await asyncio.to_thread(_on_a_terminal, command, tmp_path)
    assert (0, True, True) == (ended, "counting the ledger" in text, "rows 1" in text)


def _on_a_terminal(command: list[str], folder: Path, typed: bytes = b"") -> tuple[int, str]:
    """Run `fencepost ledger COMMAND` on a terminal of its own; return code and what it shows."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "fencepost", "ledger", *command],
        cwd=folder,
        env=environment(TERM="xterm", COLUMNS="120"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    os.write(ours, typed)
    text = _read_to_its_end(ours)
    return process.wait(), text


def _read_to_its_end(terminal: int) -> str:
    text = b""
    while True:
        try:
            read = os.read(terminal, 4096)
        except OSError:
            # What a terminal says once its other side is gone.
            read = b""
        if not read:
            os.close(terminal)
            return text.decode("utf-8", "replace")
        text += read


WRONG = [
    (("ls", "--handler", ">"), 2, "is not a name"),
    (("ls", "--namespace", "A"), 2, "is not a name"),
    (("ls", "--state", "done"), 2, "--state 'done' is none: use claimed"),
    (("ls", "--after", "-1"), 2, "'--after'"),
    (("get", "a", "b"), 2, "HANDLER NAMESPACE KEY"),
    (("get", "fp.ledger.>"), 2, "not a row's subject"),
    (("get", "charge", "orders", "\x1b[31m"), 1, "there is no row"),
    (("release", "charge", "orders", "zz", "--yes"), 1, "there is no row"),
    (("release", "charge", "orders", "done", "--yes"), 1, "is applied, which is final"),
    (("release", "newer", "--yes"), 1, "left alone"),
    (("release", "charge", "orders", "zz", "--actor", " "), 2, "no name"),
    (("adopt", "--standing", "better"), 2, "use doubt or keep"),
    (("export", "no/such/folder/x"), 2, "No such file or directory"),
    (("import", "nothing.jsonl"), 2, "nothing.jsonl: No such file or directory"),
    (("import", "garbage.jsonl"), 2, "garbage.jsonl: line 1: "),
    (("import", "."), 2, ".: Is a directory"),
]


async def test_what_is_wrong_is_one_clear_line(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Nothing on stdout, nothing changed, and the code says whose turn it is."""
    (tmp_path / "garbage.jsonl").write_bytes(b"\x00\xff\n")
    async with house(broker, SOURCE) as home:
        before = await run(home, tmp_path, "ls")
        assert (1, True) == (before.code, "run `fencepost init`" in before.complaint)
        await home.init()
        await put(home, row("k:done"))
        await put_raw(home, home.subjects.row("charge", "orders", "newer"), b'{"version":99}')
        rows = await run(home, tmp_path, "ls")
        every = await asyncio.gather(*(run(home, tmp_path, *wrong[0]) for wrong in WRONG))
        for (arguments, code, said), ran in zip(WRONG, every, strict=True):
            assert (code, "") == (ran.code, ran.out), (arguments, ran.err)
            assert said in ran.complaint, arguments
            assert ran.complaint.isprintable()
        assert rows.out == (await run(home, tmp_path, "ls")).out
        assert [] == await audit(home)
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".part")]


async def test_a_login_without_the_right(tmp_path: Path) -> None:
    """Login and subject are named, and nothing is changed."""
    denied = {
        ("ls",): ("desk", "$JS.API.STREAM.INFO.FENCEPOST_LEDGER"),
        ("release", "charge", "orders", "a", "--yes"): ("init", "fp.ledger.charge.orders."),
        ("adopt", "--yes"): ("init", "fp.epochs.orders."),
    }
    extra = users(publish={"deny": ["$JS.API.STREAM.INFO.FENCEPOST_LEDGER", "fp.>"]})
    looser = users(publish={"deny": ["fp.>"]})
    admin, role = {"user": "admin", "password": "pw"}, {"user": "role", "password": "pw"}
    for arguments, (login, subject) in denied.items():
        folder = tmp_path / arguments[0]
        folder.mkdir()
        config = extra if login == "desk" else looser
        async with (
            EmbeddedBroker(folder / "broker", extra=config) as server,
            house(server, SOURCE, broker=admin) as home,
        ):
            await home.init()
            if arguments[0] == "adopt":
                await home.connection.api(f"STREAM.DELETE.{LEDGER}")
                configure(folder, server.url, SOURCE, broker=admin)
                await run_command("init", folder=folder)
            now_ms = await home.connection.clock_ms(LEDGER)
            await put(home, row("k:a", State.STARTED, lease_until_ms=now_ms + 60_000))
            before = (await home.rows(), await home.cursor())
            configure(folder, server.url, SOURCE, broker={**role, "reply_s": 3.0})
            ran = await run_command("ledger", *arguments, folder=folder)
            assert (3, "") == (ran.code, ran.out), ran.err
            assert f"does not let the {login} login publish to {subject}" in ran.complaint
            assert before == (await home.rows(), await home.cursor())


async def test_no_broker(tmp_path: Path) -> None:
    """Code 3, and how to name another."""
    configure(tmp_path, "nats://127.0.0.1:9", SOURCE, broker={"connect_s": 0.3})
    for arguments in (("ls",), ("stats",), ("adopt",), ("export", "x.jsonl")):
        ran = await run_command("ledger", *arguments, folder=tmp_path)
        assert 3 == ran.code
        assert ran.complaint.startswith("no broker answers at nats://127.0.0.1:9 (")
    assert not [name for name in os.listdir(tmp_path) if name.startswith("x.")]
