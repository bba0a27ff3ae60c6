"""What is said of a source: whether it is followed, its generations, and which gaps are open."""

from typing import Any

import msgspec
import pytest

from fencepost.broker.embedded import EmbeddedBroker
from fencepost.desk.lineages import Following, Lineages, generations_of, state_of
from fencepost.errors import NotFine
from fencepost.ports import Message
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.question import Answer, QuestionKind, Ruling, seam_question_id
from fencepost_schemas.reason import Reason
from fencepost_schemas.roster import Intention, Stop
from fencepost_schemas.standing import Standing
from fencepost_schemas.verdict import EpochRecord, Gap, Verdict
from kit.house import House, house
from kit.log import LogSource
from kit.orders import orders

FIRST, SECOND = "0001-aaaaaaaa", "0002-bbbbbbbb"
CURSOR = Cursor(
    "orders", FIRST, Standing.GENESIS, "l", "bridge-a", token="s3cret", session="s3cret"
)
WISH = Intention("orders", "ada", 0)
PAUSE = Intention("orders", "ada", 0, paused=True)
STOP = Stop("answered 401", "bridge-a", 0, revision=5)


@pytest.mark.parametrize(
    ("cursor", "intention", "stop", "owner", "revision", "expected"),
    [
        (CURSOR, None, None, "bridge-a", 0, (Following.FOLLOWED, "by bridge-a")),
        (CURSOR, WISH, STOP, "bridge-a", 5, (Following.FOLLOWED, "by bridge-a")),
        (CURSOR, PAUSE, STOP, "bridge-a", 5, (Following.PAUSED, "by ada")),
        (CURSOR, WISH, STOP, "", 5, (Following.STOPPED, "answered 401")),
        (CURSOR, WISH, STOP, "", 6, (Following.WAITING, "for a bridge that can follow it")),
        (CURSOR, None, None, "", 0, (Following.WAITING, "for a bridge that can follow it")),
        (None, WISH, STOP, "", 5, (Following.NOT_BEGUN, "run `fencepost init` once")),
        (None, PAUSE, None, "", 5, (Following.PAUSED, "by ada")),
    ],
)
def test_the_state(
    cursor: Cursor | None,
    intention: Intention | None,
    stop: Stop | None,
    owner: str,
    revision: int,
    expected: tuple[Following, str],
) -> None:
    """A person's word first, then who has it; a stop counts until somebody wishes something new."""
    assert expected == state_of(cursor, intention, stop, owner, revision)


def record(generation: str, kind: Standing, **fields: Any) -> EpochRecord:
    plain: dict[str, Any] = {
        "source": "orders",
        "parent": "",
        "verdict": Verdict(kind, (Reason.GENERATION_CHANGED,)),
        "standing": kind,
        "gap": None,
        "ledger": "l",
        "bridge": "bridge-a",
        "at_ms": 0,
        "token": "s3cret",
    }
    return EpochRecord(generation=generation, **{**plain, **fields})


AT_THE_SEAM = Gap(FIRST, "5", SECOND, "1")
AT_A_JOIN = Gap(SECOND, "2", SECOND, "9")
READ_AGAIN = Gap(SECOND, "2", SECOND, "4", exact=True)


def test_generations() -> None:
    """Each as it was opened; what went on in it is counted, and its gaps at joins are with it."""
    first, second = generations_of(
        [
            record(FIRST, Standing.GENESIS, bridge="init"),
            record(FIRST, Standing.GENESIS, first="1"),
            record(SECOND, Standing.REORIGINATED, gap=AT_THE_SEAM, parent=FIRST),
            record(SECOND, Standing.RESUMED, standing=Standing.REORIGINATED, join_gap=AT_A_JOIN),
            record(SECOND, Standing.RESUMED, standing=Standing.REORIGINATED, join_gap=READ_AGAIN),
        ]
    )
    assert (FIRST, "init", 1, "1", 0) == (
        first.generation,
        first.bridge,
        first.connections,
        first.first,
        first.gaps,
    )
    assert (SECOND, FIRST, Standing.REORIGINATED, 3) == (
        second.generation,
        second.parent,
        second.verdict,
        second.connections,
    )
    assert (AT_THE_SEAM, (AT_A_JOIN, READ_AGAIN)) == (second.gap, second.join_gaps)
    assert (3, 2) == (second.gaps, second.open_gaps)
    ruled = msgspec.structs.replace(second, ruling=Ruling.ACCEPT)
    assert (3, 1) == (ruled.gaps, ruled.open_gaps)
    empty = msgspec.structs.replace(AT_THE_SEAM, empty=True)
    adopted = generations_of([record(SECOND, Standing.UNVERIFIABLE, gap=empty)])
    assert [(0, 0)] == [(one.gaps, one.open_gaps) for one in adopted]


async def _entry(home: House) -> Any:
    (entry,) = await Lineages(home.connection, home.subjects).entries(["orders"])
    return entry


async def test_a_doubt_is_not_fine_until_somebody_rules(broker: EmbeddedBroker) -> None:
    """On the generation that it stands in; it is followed all the time."""
    async with LogSource() as source, house(broker, orders(source.url)) as home:
        await home.init()
        cursor = await home.cursor()
        doubt = msgspec.structs.replace(cursor, standing=Standing.UNVERIFIABLE)
        await home.connection.store(
            Message(home.subjects.cursor("orders"), msgspec.json.encode(doubt))
        )
        async with home.bridge(shares=True):
            await source.asked_times(1)
            doubtful = await _entry(home)
            assert (Following.FOLLOWED, False) == (doubtful.state, doubtful.fine)
            question = seam_question_id("orders", cursor.generation)
            answer = Answer(question, "orders", QuestionKind.SEAM, Ruling.ACCEPT, "ada", 0)
            await home.connection.store(
                Message(home.subjects.answer(question), msgspec.json.encode(answer))
            )
            assert (await _entry(home)).fine


async def test_names(broker: EmbeddedBroker) -> None:
    """Of the file, begun, or wished of; any other is told."""
    async with house(broker, orders("http://127.0.0.1:9/x")) as home:
        await home.init()
        for source in ("crm", "erp"):
            wish = msgspec.json.encode(msgspec.structs.replace(WISH, source=source))
            await home.connection.store(Message(home.subjects.intention(source), wish))
        lineages = Lineages(home.connection, home.subjects, ["later"])
        assert ["crm", "erp", "later", "orders"] == await lineages.names()
        found = await lineages.entries(["erp", "orders", "erp"])
        assert ["erp", "orders"] == [entry.source for entry in found]
        with pytest.raises(NotFine, match="there is no source 'nope'"):
            await lineages.entries(["nope"])
        await home.connection.store(Message(home.subjects.intention("crm"), b"7"))
        unreadable = (await lineages.entries(["crm", "erp"]))[0]
        assert Following.STOPPED is unreadable.state and "cannot read it" in unreadable.why
        document = msgspec.json.encode(await lineages.reports(["orders"]))
        assert b"s3cret" not in document
