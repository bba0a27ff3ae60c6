"""`fencepost questions` as its users run it: a pipe, a program, a wrong id, foreign text."""

import csv
import io
import json
from pathlib import Path

import msgspec

from fencepost.broker.embedded import EmbeddedBroker
from fencepost_schemas.question import QuestionKind
from kit.command import Ran, run_command
from kit.house import House, house
from kit.pool import (
    SECOND,
    SOURCE,
    Runs,
    app_with,
    doubtful,
    event,
    publish,
    publish_seam,
    see_questions,
    settle,
    working,
)

NASTY = "\x1b]0;owned\x07\x1b[31mred\u202egnp.exe\u2066\x9b2J"
DANGEROUS = set("\x1b\x07\u202e\u2066\x9b\x00")


async def asked(home: House) -> tuple[str, str]:
    """Bring a seam and a doubt about, with foreign text everywhere; return their ids."""

    async def fail(payload: bytes, ctx: object) -> None:
        raise RuntimeError(NASTY)

    await publish_seam(home)
    payload = json.dumps({"k": NASTY}, ensure_ascii=False).encode()
    nasty = msgspec.structs.replace(doubtful("b", NASTY, payload=payload), key=NASTY)
    async with working(home, app_with(Runs(), fail)):
        await publish(home, event("a", payload=payload), nasty)
        [seam] = await see_questions(home, 1, QuestionKind.SEAM)
        [doubt] = await see_questions(home, 1, QuestionKind.DOUBT)
        await settle(home)
    return seam.id, doubt.id


async def questions(home: House, folder: Path, *arguments: str) -> Ran:
    url = (home.settings.broker.servers or ("",))[0]
    return await run_command("questions", *arguments, "--server", url, folder=folder)


async def test_the_questions_command(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """One house, each command in turn: listed, shown, answered, told, and gone."""
    async with house(broker, SOURCE) as home:
        await home.init()
        empty = await questions(home, tmp_path, "ls")
        assert (empty.code, empty.out, empty.err) == (0, "no open question\n", "")
        seam, doubt = await asked(home)

        listed = await questions(home, tmp_path, "ls")
        _is_a_plain_table(listed, {seam, doubt})

        parsed = json.loads((await questions(home, tmp_path, "ls", "--json")).out)
        assert {one["question"]["id"] for one in parsed} == {seam, doubt}

        for one in (seam, doubt):
            shown = await questions(home, tmp_path, "show", one)
            assert (shown.code, shown.err) == (0, "")
            assert one in shown.out
            assert not DANGEROUS & set(shown.out)
        document = json.loads((await questions(home, tmp_path, "show", doubt, "--json")).out)
        assert document["question"]["id"] == doubt

        unknown = await questions(home, tmp_path, "show", "seam-unknown")
        assert (unknown.code, unknown.out) == (1, "")
        assert unknown.complaint.startswith("there is no question seam-unknown")

        wrong = await questions(home, tmp_path, "answer", seam, "applied")
        assert (wrong.code, wrong.out) == (2, "")
        assert "same, reconcile, accept, discard" in wrong.complaint

        given = await questions(home, tmp_path, "answer", seam, "discard", "--as", "ada")
        assert given.code == 0
        assert given.out.startswith(f"{seam}: discard, by ada.")

        again = await questions(home, tmp_path, "answer", seam, "accept", "--as", "bob")
        assert (again.code, again.out) == (1, "")
        assert "discard by 'ada'" in again.complaint

        answer = await questions(home, tmp_path, "answer", doubt, "applied", "--json")
        assert json.loads(answer.out)["ruling"] == "applied"

        assert (await questions(home, tmp_path, "ls")).out == "no open question\n"
        everything = await questions(home, tmp_path, "ls", "--all")
        _is_a_plain_table(everything, {seam, doubt})
        assert SECOND in everything.out


def _is_a_plain_table(ran: Ran, ids: set[str]) -> None:
    """Tab-separated lines under one line of names, and nothing that a terminal would obey."""
    assert (ran.code, ran.err) == (0, "")
    names, *lines = csv.reader(io.StringIO(ran.out), delimiter="\t", quoting=csv.QUOTE_NONE)
    assert names == ["question", "source", "generation", "asked", "waiting", "answers"]
    assert {line[0] for line in lines} == ids
    assert {len(line) for line in lines} == {len(names)}
    assert not DANGEROUS & set(ran.out)


WRONG = [
    (("ls", "--source", "or>ders"), 2, "not a name"),
    (("show", "*"), 2, "no question's id"),
    (("answer", "seam-a", "accept", "--as", "\x1b[31m"), 2, "no name"),
    (("answer", "seam-a", "accept"), 1, "there is no question seam-a"),
]


async def test_a_wrong_argument_is_one_clear_line(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """No traceback, nothing on stdout, the exit code says whose turn it is."""
    async with house(broker, SOURCE) as home:
        await home.init()
        for arguments, code, said in WRONG:
            ran = await questions(home, tmp_path, *arguments)
            assert (ran.code, ran.out) == (code, "")
            assert said in ran.complaint
            assert ran.complaint.isprintable()
