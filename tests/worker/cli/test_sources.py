"""`fencepost sources` as its users run it, beside a bridge that follows them."""

import asyncio
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.broker.embedded import EmbeddedBroker
from fencepost.cli.described_sources import age
from fencepost.desk.lineages import Lineages, SourceEntry
from fencepost_schemas.subject import SOURCES
from fencepost_schemas.verdict import Gap, gap_id
from kit.command import Ran, configure, environment, run_command, started, toml
from kit.house import House, house
from kit.log import LogSource
from kit.orders import TOKENS, live, orders, see
from kit.rows import audit, fencepost
from kit.source import Reply, ScriptedSource
from kit.users import users
from kit.wait import until

BRIDGE = {"lease_s": 3.0, "renew_s": 0.6}
TABLE = {"keys": "durable", "key": "/k", "plain": TOKENS}


async def run(home: House, folder: Path, *arguments: str) -> Ran:
    return await fencepost(home, folder, "sources", *arguments)


async def see_state(home: House, name: str, state: str) -> SourceEntry:
    """Return a source's entry once it is in this state."""
    found: list[SourceEntry] = []

    async def there() -> bool:
        found[:] = await Lineages(home.connection, home.subjects).entries([name])
        return found[0].state == state

    await until(there, f"{name} to be {state}")
    return found[0]


async def test_a_source_is_added(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """A bridge that runs learns of it within seconds; the options go before the file."""
    async with LogSource() as first, LogSource() as second, house(broker, {}) as home:
        await home.init()
        configure(tmp_path, broker.url, orders(first.url), bridge=BRIDGE)
        assert 0 == (await run_command("init", folder=tmp_path)).code
        document = toml({"sources": {"crm": {"url": "http://127.0.0.1:9/x", **TABLE}}})
        (tmp_path / "crm.toml").write_text(document, "utf-8")
        async with started("bridge", folder=tmp_path) as bridge:
            await first.add("a")
            await see(home, 1)
            place = ["--file", "crm.toml", "--url", second.url, "--as", "ada"]
            added = await run(home, tmp_path, "add", "crm", *place)
            assert (0, "crm: added by ada; it begins now\n", "") == (
                added.code,
                added.out,
                added.err,
            )
            await second.add("a")
            await until(lambda: _is_at(home, "crm", "1"), "its first event")
            await see_state(home, "crm", "followed")
            listed = await run(home, tmp_path, "ls", "crm", "--json")
            (entry,) = json.loads(listed.out)
            assert (0, True, "genesis", ["first_connection"], 0) == (
                listed.code,
                entry["fine"],
                entry["verdict"],
                entry["reasons"],
                entry["open_gaps"],
            )
            bridge.process.terminate()
            assert 0 == (await bridge.ended()).code
        assert [("ada", "added the source", "crm")] == await done(home)
        shown = await run(home, tmp_path, "show", "crm")
        assert 1 == shown.code
        assert "state\twaiting for a bridge that can follow it\n" in shown.out


async def done(home: House) -> list[tuple[str, str, str]]:
    """Return who did what to which source."""
    return [(entry.actor, entry.action, entry.subject) for entry in await audit(home)]


async def test_a_source_is_paused_changed_and_resumed(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """Each is in the audit; its cursor stays, and nothing is lost."""
    async with LogSource() as second, house(broker, {}) as home:
        await home.init()
        (tmp_path / "crm.toml").write_text(
            toml({"sources": {"crm": {"url": second.url, **TABLE}}}), "utf-8"
        )
        add = ["add", "crm", "--file", "crm.toml", "--as", "ada"]
        assert 0 == (await run(home, tmp_path, *add)).code
        async with home.bridge(shares=True):
            await second.add("a")
            await until(lambda: _is_at(home, "crm", "1"), "its first event")
            paused = await run(home, tmp_path, "pause", "crm", "--note", "they move", "--as", "bo")
            assert 0 == paused.code, paused.err
            await see_state(home, "crm", "paused")
            await until(lambda: _unclaimed(home, "crm"), "its bridge to let it go")
            await second.add("b")
            again = await run(home, tmp_path, "pause", "crm")
            assert (1, "crm is paused already, by 'bo'") == (again.code, again.complaint)
            assert "1" == str((await home.cursor("crm")).position), "nobody follows it"

            # A change does not end the pause; resuming follows what is at the new place.
            moved = ["--url", second.url + "/moved", "--replace"]
            changed = await run(home, tmp_path, *add, *moved)
            assert (0, True) == (changed.code, "it goes on from its cursor" in changed.out)
            await see_state(home, "crm", "paused")
            await run(home, tmp_path, "resume", "crm", "--as", "cy")
            await until(lambda: _is_at(home, "crm", "2"), "the event of the pause")
            await see_state(home, "crm", "followed")
        assert ["/events", "/events/moved"] == [one.path for one in second.requests]
        assert ["genesis", "resumed"] == await home.verdicts("crm")
        whole = [("ada", "added"), ("bo", "paused"), ("ada", "changed"), ("cy", "resumed")]
        assert [(who, f"{what} the source", "crm") for who, what in whole] == await done(home)


async def _is_at(home: House, source: str, position: str) -> bool:
    try:
        return str((await home.cursor(source)).position) == position
    except AssertionError:
        return False


async def _unclaimed(home: House, source: str) -> bool:
    stored = await home.connection.last(SOURCES, home.subjects.roster())
    assert stored is not None
    return source not in json.loads(stored.payload)["claims"]


async def test_a_rebaseline(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """The bridge asks from where it is told, in a generation of its own; the gap, the reason and
    who wished it are there to be read.
    """
    async with LogSource() as source, house(broker, orders(source.url)) as home:
        await home.init()
        configure(tmp_path, broker.url, orders(source.url), bridge=BRIDGE)
        async with started("bridge", folder=tmp_path) as bridge:
            await source.add("a", "b", "c", "d")
            await see(home, 4)
            named = ["rebaseline", "orders", "--from", "2", "--note", "c was wrong", "--as", "ada"]
            mute = await run(home, tmp_path, *named)
            assert (2, True) == (mute.code, "say --yes" in mute.complaint)
            assert "orders is asked from 2 next" in mute.err
            assert not (await home.cursor()).fresh
            done = await run(home, tmp_path, *named, "--yes")
            assert 0 == done.code, done.err
            await see(home, 6)
            assert [None, "2"] == [request.asked for request in source.requests]
            await source.add("e")
            await see(home, 7)
            assert "stops" not in bridge.err

            genesis, record = await home.records()
            assert "genesis" == genesis.verdict.kind
            assert ("reoriginated", ["rebaselined"]) == (
                record.verdict.kind,
                list(record.verdict.reasons),
            )
            assert record.gap is not None
            assert (genesis.generation, "4", record.generation, "3") == (
                record.gap.after_generation,
                record.gap.after_position,
                record.gap.before_generation,
                record.gap.before_position,
            )
            assert {"reoriginated"} == {event.standing.value for event in (await home.events())[4:]}
            told = (await audit(home))[-1]
            assert ("ada", "rebaselined the source") == (told.actor, told.action)
            assert told.detail.endswith("c was wrong")
            await _is_shown(home, tmp_path, genesis.generation, record.generation)


async def _is_shown(home: House, folder: Path, before: str, after: str) -> None:
    """Look at the source that was rebaselined from 4 to 3."""
    shown = await run(home, folder, "show", "orders")
    assert 0 == shown.code, shown.err
    gap = gap_id("orders", Gap(before, "4", after, "3"))
    assert f"gap\tafter {before} 4, before {after} 3, {gap}\n" in shown.out
    assert "because\trebaselined: somebody had it begin anew" in shown.out
    assert "gaps\t1, 1 open\n" in shown.out
    few = await run(home, folder, "show", "orders", "--limit", "1")
    assert f"\n{before}\t" not in few.out
    assert "1 older generations: --limit 2" in few.out
    document = json.loads((await run(home, folder, "show", "orders", "--json")).out)
    first, second = document["generations"]
    assert (2, "reoriginated", 1) == (
        first["connections"] + second["connections"],
        second["verdict"],
        document["entry"]["open_gaps"],
    )


async def test_rebaselining_what_has_brought_nothing(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """It begins elsewhere; there is nothing that could be missing, and one genesis."""
    answer = live(("43", '{"k":"a"}'), gen="g", floor="1")
    async with ScriptedSource(answer) as source, house(broker, orders(source.url)) as home:
        await home.init()
        note = ["--note", "typo", "--yes"]
        done = await run(home, tmp_path, "rebaseline", "orders", "--from", "42", *note)
        assert 0 == done.code, done.err
        async with home.bridge(shares=True):
            await see(home, 1)
        assert ["42"] == [request.asked for request in source.requests]
        assert ["genesis"] == await home.verdicts()


async def test_a_source_that_stopped_and_is_resumed(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Its reason is told; once somebody has acted, it is followed again without a restart."""
    answer = live(("1", '{"k":"a"}'), gen="g", floor="1")
    async with (
        ScriptedSource(Reply(status=401), answer) as shut,
        LogSource() as source,
    ):
        both = {**orders(source.url), "shut": orders(shut.url)["orders"]}
        async with house(broker, both) as home:
            await home.init()
            async with home.bridge(shares=True):
                entry = await see_state(home, "shut", "stopped")
                assert "shut: the source answered 401" in entry.why
                assert 1 == (await run(home, tmp_path, "ls", "shut", "orders")).code
                assert 0 == (await run(home, tmp_path, "ls")).code, "none was named"
                assert 0 == (await run(home, tmp_path, "resume", "shut")).code
                await until(lambda: _is_at(home, "shut", "1"), "its first event")
                await see_state(home, "shut", "followed")


async def test_what_is_listed(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Sources of the file, begun or not, and nothing that is secret."""
    sources = {
        **orders("http://127.0.0.1:9/x?token=query-s3cret"),
        "later": orders("http://127.0.0.1:9/y")["orders"],
    }
    async with house(broker, orders("http://127.0.0.1:9/x")) as home:
        before = await run(home, tmp_path, "ls")
        assert (1, True) == (before.code, "run `fencepost init`" in before.complaint)
        assert 0 == (await run_command("init", "--server", broker.url, folder=tmp_path)).code
        none = await run(home, tmp_path, "ls")
        assert (0, "no source\n", "") == (none.code, none.out, none.err)
        await home.init()
        configure(tmp_path, broker.url, sources)
        listed = await run_command("sources", "ls", folder=tmp_path)
        assert 0 == listed.code
        names, later, first = [line.split("\t") for line in listed.out.splitlines()]
        assert names == [
            "source", "state", "generation", "standing", "last verdict", "last event", "gaps",
        ]  # fmt: skip
        assert ["later", "not begun run `fencepost init` once", "-", "-", "-", "-", "0"] == later
        assert ["orders", "waiting for a bridge that can follow it"] == first[:2]
        assert ["genesis", "genesis (first_connection)", "-", "0"] == first[3:]
        document = await run_command("sources", "show", "orders", "--json", folder=tmp_path)
        assert 1 == document.code
        assert "s3cret" not in listed.out + document.out
        secrets = {"session", "token", "url"}
        assert not secrets & set(json.loads(document.out)["generations"][0])


@pytest.mark.parametrize(("command", "columns"), [(["ls"], 80), (["show", "orders"], 40)])
async def test_on_a_narrow_terminal(
    broker: EmbeddedBroker, tmp_path: Path, command: list[str], columns: int
) -> None:
    """Nothing runs over its edge, and the names of source and generation are whole."""
    async with house(broker, orders("http://127.0.0.1:9/x")) as home:
        await home.init()
        generation = (await home.cursor()).generation
        line = [*command, "--server", broker.url]
        text = await asyncio.to_thread(_on_a_terminal, line, columns)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= columns, text
    assert generation in text and "orders" in text, text


def _on_a_terminal(command: list[str], columns: int) -> str:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "fencepost", "sources", *command],
        env=environment(TERM="xterm", COLUMNS=str(columns)),
        stdout=theirs,
        stderr=theirs,
        stdin=theirs,
    )
    os.close(theirs)
    text = b""
    while True:
        try:
            read = os.read(ours, 4096)
        except OSError:
            # What a terminal says once its other side is gone.
            read = b""
        if not read:
            break
        text += read
    os.close(ours)
    process.wait()
    return re.sub(r"\x1b\[[0-9;]*m", "", text.decode("utf-8", "replace"))


GOOD = ("--url", "http://127.0.0.1:9/x", "--keys", "none")
SECRET = "http://ada:s3cret@127.0.0.1:9/x"
WRONG = [
    (("ls", "nope"), 1, "there is no source 'nope'"),
    (("show", "\x1b[31m"), 1, "there is no source"),
    (("pause", "nope"), 1, "there is no source nope"),
    (("pause", ">"), 2, "is not a name"),
    (("resume", "a.b"), 2, "is not a name"),
    (("add", "crm"), 2, "sources.crm: Object missing required field `url`"),
    (("add", ">", *GOOD), 2, "is not a name"),
    (("add", "orders", *GOOD), 2, "orders is in the configuration file"),
    (("add", "crm", *GOOD, "--replace"), 1, "crm was not added before"),
    (("add", "crm", *GOOD, "--key", "/k"), 2, 'keys = "none" goes without a key'),
    (("add", "crm", *GOOD, "--from", "a\nb"), 2, "cannot be sent in a request header"),
    (("add", "crm", "--url", SECRET, "--keys", "none"), 2, "a login in a url may be a secret"),
    (
        ("add", "crm", "--url", "http://127.0.0.1:9/x?token=s3cret", "--keys", "none"),
        2,
        "a query string or a login in a url may be a secret",
    ),
    (("add", "crm", *GOOD, "--header-env", "Authorization"), 2, "say HEADER=VARIABLE"),
    (
        ("add", "crm", *GOOD, "--header-env", "Authorization=AWS_SECRET"),
        2,
        "must be named FENCEPOST_SOURCE_...",
    ),
    (("add", "crm", "--file", "none.toml"), 2, "none.toml: cannot be read"),
    (("add", "crm", "--file", "garbage.toml"), 2, "garbage.toml: not TOML"),
    (("add", "crm", "--file", "other.toml"), 2, "other.toml: there is no [sources.crm] in it"),
    (("add", "other", "--file", "other.toml"), 2, "sources.other.headers is not kept on the"),
    (("add", "crm", *GOOD, "--as", " "), 2, "no name for who does this"),
    (("rebaseline", "orders", "--from", "now", "--note", " ", "--yes"), 2, "--note: say why"),
    (("rebaseline", "nope", "--from", "now", "--note", "x", "--yes"), 1, "there is no source"),
    (("rebaseline", "orders", "--from", "now", "--note", "x", "--yes"), 1, "not begun yet"),
]


async def test_what_is_wrong_is_one_clear_line(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Nothing on stdout, nothing is changed, and no secret of a url is said back."""
    other = {"url": "http://127.0.0.1:9/x", "keys": "none", "headers": {"Authorization": "s3cret"}}
    (tmp_path / "other.toml").write_text(toml({"sources": {"other": other}}), "utf-8")
    (tmp_path / "garbage.toml").write_text("[sources\n", "utf-8")
    async with house(broker, {}) as home:
        await home.init()
        configure(tmp_path, broker.url, orders("http://127.0.0.1:9/x"))
        for arguments, code, said in WRONG:
            ran = await run_command("sources", *arguments, folder=tmp_path)
            assert (code, "") == (ran.code, ran.out), (arguments, ran.err)
            assert said in ran.complaint, arguments
            assert ran.complaint.isprintable()
            assert "s3cret" not in ran.err
        assert [] == await audit(home)
        assert [] == await home.connection.subjects(SOURCES, ">")


async def test_a_login_without_the_right(tmp_path: Path) -> None:
    """What a bridge connects to is for init's login to say."""
    extra = users(publish={"deny": ["fp.intentions.>"]})
    admin, role = {"user": "admin", "password": "pw"}, {"user": "role", "password": "pw"}
    async with (
        EmbeddedBroker(tmp_path / "broker", extra=extra) as server,
        house(server, orders("http://127.0.0.1:9/x"), broker=admin) as home,
    ):
        await home.init()
        configure(tmp_path, server.url, orders("http://127.0.0.1:9/x"), broker=role)
        ran = await run_command("sources", "pause", "orders", folder=tmp_path)
        assert 3 == ran.code
        assert "does not let the init login publish to fp.intentions.orders" in ran.complaint


@pytest.mark.parametrize(
    ("elapsed_ms", "expected"),
    [
        (-5, "0 s"),
        (999, "0 s"),
        (59_999, "59 s"),
        (60_000, "1 min"),
        (7_200_000, "2 h"),
        (800_000_000, "9 d"),
    ],
)
def test_an_age(elapsed_ms: int, expected: str) -> None:
    """In the largest unit that it fills."""
    assert expected == age(elapsed_ms)
