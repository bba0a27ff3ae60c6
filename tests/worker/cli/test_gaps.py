"""Gaps as people meet them at the command line: a row, a question, a letter among the dead."""

from pathlib import Path

from fencepost import Context, Gap, Reject
from fencepost.broker.embedded import EmbeddedBroker
from fencepost_schemas.question import QuestionKind
from fencepost_schemas.row import State
from fencepost_schemas.verdict import gap_id
from kit.gaps import GAP, Refills, filled, gap_row, publish_record, reconciling, register
from kit.house import house
from kit.pool import SOURCE, Runs, app_with, dead, see_questions, working
from kit.rows import fencepost
from kit.wait import until

ID = gap_id("orders", GAP)
SHORT = {"handler_timeout_s": 0.4, "lease_s": 1.0, "ack_wait_s": 1.2}


async def test_a_gap_that_is_open_is_a_row_and_a_question(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """Each is found by what `sources show` or the other one says of it."""

    async def fail(gap: Gap, ctx: Context) -> None:
        raise ConnectionError("the other side is away")

    app = reconciling(app_with(Runs()), Refills(), fail, attempts=1)
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        await register(home, app)
        await publish_record(home)
        async with working(home, app):
            (question,) = await see_questions(home, 1, QuestionKind.GAP)
            await filled(home)
        row = await fencepost(home, tmp_path, "ledger", "get", "fill", "orders", ID)
        assert "in_doubt" in row.out
        assert "the other side is away" in row.out
        listed = await fencepost(home, tmp_path, "questions", "ls")
        assert question.id in listed.out
        shown = await fencepost(home, tmp_path, "questions", "show", question.id)
        assert (0, "") == (shown.code, shown.err)
        assert "fill could not fill the gap of orders behind 1 of" in shown.out
        for ruling in ("applied", "retry", "discard"):
            assert ruling in shown.out


async def test_a_rejected_gap_can_be_tried_once_more(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """It lies among the dead, and a person's word has its reconciler called again."""
    refills = Refills()

    async def refuse_first(gap: Gap, ctx: Context) -> None:
        if ctx.attempt == 1:
            raise Reject("too long ago")

    app = reconciling(app_with(Runs()), refills, refuse_first)
    async with house(broker, SOURCE, pool=SHORT) as home:
        await home.init()
        await register(home, app)
        await publish_record(home)
        async with working(home, app):
            await filled(home)
            (letter,) = await dead(home)
            number = str(letter.sequence)
            shown = await fencepost(home, tmp_path, "dead", "show", number)
            assert "too long ago" in shown.out and "fencepost.gap" in shown.out

            async def replayed() -> bool:
                # "Once more" is refused for as long as the attempt before may still act.
                told = ["dead", "replay", number, "--yes"]
                return 0 == (await fencepost(home, tmp_path, *told)).code

            await until(replayed, "the replay to be taken", 20.0)

            async def applied() -> bool:
                return (await gap_row(home)).state is State.APPLIED

            await until(applied, "the gap to be filled")
    assert ([GAP, GAP], [1, 2]) == (refills.gaps, refills.attempts)
