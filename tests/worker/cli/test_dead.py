"""`fencepost dead` as its users run it: listed, shown as data, dropped, and what is refused."""

import json
from pathlib import Path

from fencepost.broker.embedded import EmbeddedBroker
from fencepost_schemas.event import fingerprint_of
from fencepost_schemas.row import State
from kit.command import configure, run_command
from kit.house import house
from kit.pool import SOURCE, dead
from kit.rows import audit, bury, fencepost, place_of, put, row
from kit.users import users

NASTY = '{"k":"\x1b]0;owned\x07\x1b[31mred\u202egnp.exe"}'
DANGEROUS = set("\x1b\x07\u202e\x00")
TRACE = "Traceback%0A  File %22shop.py%22, line 3%0A%1b%5B31mLookupError: no"


async def test_the_dead_command(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """One house, each command in turn."""
    async with house(broker, SOURCE) as home:
        await home.init()
        empty = await fencepost(home, tmp_path, "dead", "ls")
        assert (0, "no dead letter\n", "") == (empty.code, empty.out, empty.err)
        rejected = row("k:a", State.REJECTED)
        await put(home, rejected)
        one = await bury(home, payload=NASTY.encode(), row=place_of(rejected), traceback=TRACE)
        two = await bury(home, "b", handler="mail", error="too late")

        listed = await fencepost(home, tmp_path, "dead", "ls", "--limit", "1")
        names, line = [text.split("\t") for text in listed.out.splitlines()]
        assert ["letter", "handler", "source", "position", "type", "attempts", "reason"] == names
        assert [str(one), "charge", "orders", "1", "task", "3", "no such account"] == line
        assert f"there are more: --after {one}\n" == listed.err
        rest = await fencepost(home, tmp_path, "dead", "ls", "--after", str(one), "--json")
        document = json.loads(rest.out)
        assert ([two], None) == (
            [each["sequence"] for each in document["letters"]],
            document["next"],
        )
        by_reason = await fencepost(home, tmp_path, "dead", "ls", "--reason", "LATE", "--json")
        assert [two] == [each["sequence"] for each in json.loads(by_reason.out)["letters"]]

        shown = await fencepost(home, tmp_path, "dead", "show", str(one))
        assert (0, "") == (shown.code, shown.err)
        assert not DANGEROUS & set(shown.out)
        assert f"{place_of(rejected)} (rejected)" in shown.out
        assert "\n    Traceback\n      File" in shown.out
        assert "\\u001b" in shown.out
        document = json.loads(
            (await fencepost(home, tmp_path, "dead", "show", str(one), "--json")).out
        )
        assert "rejected" == document["row"]["row"]["state"]
        assert not DANGEROUS & set((await fencepost(home, tmp_path, "dead", "ls")).out)


async def test_a_letter_is_dropped(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """If it is meant, and once; the audit says by whom."""
    async with house(broker, SOURCE) as home:
        await home.init()
        one, two = await bury(home), await bury(home, "b", handler="mail")
        mute = await fencepost(home, tmp_path, "dead", "drop", str(one))
        assert (2, "") == (mute.code, mute.out)
        assert mute.complaint.endswith("say --yes")
        assert 2 == len(await dead(home))
        arguments = ["dead", "drop", str(one), "--actor", "ada", "--yes"]
        dropped = await fencepost(home, tmp_path, *arguments)
        assert 0 == dropped.code
        assert dropped.out.startswith(f"dead letter {one} is dropped, by ada")
        again = await fencepost(home, tmp_path, *arguments)
        assert (1, "") == (again.code, again.out)
        assert again.complaint.startswith(f"there is no dead letter {one}")
        document = json.loads(
            (await fencepost(home, tmp_path, "dead", "drop", str(two), "-y", "--json")).out
        )
        assert two == document["dropped"]
        assert ["ada", document["actor"]] == [entry.actor for entry in await audit(home)]
        assert [] == await dead(home)


WRONG = [
    (("dead", "ls", "--handler", "a.b"), 2, "is not a name"),
    (("dead", "ls", "--limit", "0"), 2, "'--limit'"),
    (("dead", "show", "x"), 2, "'LETTER'"),
    (("dead", "show", "7"), 1, "there is no dead letter 7"),
    (("dead", "drop", "7", "--yes", "--actor", "\x1b[31m"), 2, "no name"),
    (("dead", "drop", "7", "--yes"), 1, "there is no dead letter 7"),
]


async def test_what_is_wrong_is_one_clear_line(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Nothing on stdout, nothing changed, and the code says whose turn it is."""
    async with house(broker, SOURCE) as home:
        before = await fencepost(home, tmp_path, "dead", "ls")
        assert (1, "") == (before.code, before.out)
        assert "run `fencepost init`" in before.complaint
        await home.init()
        for arguments, code, said in WRONG:
            ran = await fencepost(home, tmp_path, *arguments)
            assert (code, "") == (ran.code, ran.out), ran.err
            assert said.lower() in ran.complaint.lower()
            assert ran.complaint.isprintable()


async def test_a_login_that_may_look_and_not_drop(tmp_path: Path) -> None:
    """The subject is named, and the letter is there still; so is an audit that is not taken."""
    for denied, left in (("$JS.API.STREAM.MSG.DELETE.>", 1), ("fp.audit.>", 0)):
        extra = users(publish={"deny": [denied]})
        folder = tmp_path / str(left)
        folder.mkdir()
        async with EmbeddedBroker(folder / "broker", extra=extra) as server:
            admin = {"user": "admin", "password": "pw"}
            async with house(server, SOURCE, broker=admin) as home:
                await home.init()
                await bury(home)
                login = {"user": "role", "password": "pw"}
                configure(folder, server.url, SOURCE, broker=login)
                ran = await run_command("dead", "drop", "1", "--yes", folder=folder)
                assert (3, "") == (ran.code, ran.out)
                assert f"does not let the desk login publish to {denied[:-1]}" in ran.complaint
                assert left == len(await dead(home))


async def test_no_broker(tmp_path: Path) -> None:
    """Code 3, and how to name another."""
    configure(tmp_path, "nats://127.0.0.1:9", SOURCE, broker={"connect_s": 0.3})
    ran = await run_command("dead", "ls", folder=tmp_path)
    assert 3 == ran.code
    assert ran.complaint.startswith("no broker answers at nats://127.0.0.1:9 (")


async def test_a_letter_is_replayed(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """The question and its answer stand; a letter that names no row is refused."""
    async with house(broker, SOURCE) as home:
        await home.init()
        payload = b'{"k":"a"}'
        rejected = row("k:a", State.REJECTED, attempt=3, fingerprint=fingerprint_of(payload))
        await put(home, rejected)
        good = await bury(home, payload=payload, row=place_of(rejected))
        lost = await bury(home, "b")
        unsaid = await fencepost(home, tmp_path, "dead", "replay", str(good))
        assert 2 == unsaid.code
        replayed = await fencepost(
            home, tmp_path, "dead", "replay", str(good), "--yes", "--actor", "ada", "--json"
        )
        assert (0, "retry", "ada") == (
            replayed.code,
            json.loads(replayed.out)["ruling"],
            json.loads(replayed.out)["actor"],
        )
        refused = await fencepost(home, tmp_path, "dead", "replay", str(lost), "--yes")
        assert 1 == refused.code
        assert "names no row" in refused.err
