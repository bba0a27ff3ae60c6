"""Proves that one matter has one question, and that each kind takes the answers that fit."""

from itertools import product

import msgspec
import pytest

from fencepost_schemas.question import (
    Answer,
    Held,
    Question,
    QuestionKind,
    Ruling,
    row_question_id,
    seam_question_id,
)
from fencepost_schemas.standing import Standing
from fencepost_schemas.subject import Subjects

ROW = "fp.ledger.charge.crm.abc"


def test_a_seam_has_one_question_whoever_asks() -> None:
    """The id is a function of source and generation alone."""
    assert seam_question_id("crm", "0003-k7f2abcd") == seam_question_id("crm", "0003-k7f2abcd")


def test_other_seams_have_other_questions() -> None:
    """No two of many seams share a question, and no source can borrow another's."""
    seams = [(f"s{source}", f"{n:04d}-aaaaaaaa") for source, n in product(range(20), range(50))]
    assert len(seams) == len({seam_question_id(*seam) for seam in seams})
    assert seam_question_id("ab", "c") != seam_question_id("a", "bc")


def test_other_rows_attempts_and_kinds_have_other_questions() -> None:
    """A second doubt about the same row is a new question: the first answer does not cover it."""
    matters = list(product((QuestionKind.DOUBT, QuestionKind.REFUSAL), (ROW, ROW + "d"), range(20)))
    assert len(matters) == len({row_question_id(*matter) for matter in matters})
    assert row_question_id(QuestionKind.DOUBT, ROW, 11) != row_question_id(
        QuestionKind.DOUBT, ROW + "1", 1
    )


def test_the_id_of_a_question_about_a_row_is_the_same_for_every_asker() -> None:
    """A question that is asked again after a crash overwrites itself."""
    assert row_question_id(QuestionKind.DOUBT, ROW, 1) == row_question_id(
        QuestionKind.DOUBT, ROW, 1
    )


@pytest.mark.parametrize(
    "question",
    [
        seam_question_id("crm", "0003-k7f2abcd"),
        row_question_id(QuestionKind.DOUBT, ROW, 1),
        row_question_id(QuestionKind.REFUSAL, ROW, 0),
    ],
)
def test_a_question_id_may_stand_in_a_subject(question: str) -> None:
    """Every id that we mint is a token that the subject builder takes."""
    assert f"fp.answers.{question}" == Subjects().answer(question)


@pytest.mark.parametrize(
    ("kind", "rulings"),
    [
        (QuestionKind.SEAM, {Ruling.SAME, Ruling.RECONCILE, Ruling.ACCEPT, Ruling.DISCARD}),
        (QuestionKind.DOUBT, {Ruling.APPLIED, Ruling.RETRY, Ruling.DISCARD}),
        (QuestionKind.REFUSAL, {Ruling.APPLIED, Ruling.DISCARD}),
        (QuestionKind.REJECTION, {Ruling.RETRY}),
        (QuestionKind.PAUSE, {Ruling.RESUME}),
    ],
)
def test_each_kind_takes_the_rulings_that_make_sense(
    kind: QuestionKind, rulings: set[Ruling]
) -> None:
    """A refused event has no bytes to run again, and a seam is no single application."""
    assert rulings == set(kind.rulings)
    assert len(rulings) == len(kind.rulings)


def test_every_kind_can_be_discarded_and_every_ruling_is_of_use() -> None:
    """Whoever is asked can always say no; no ruling is left without a question."""
    gone = {QuestionKind.PAUSE, QuestionKind.REJECTION, QuestionKind.LOSS}
    about_events = set(QuestionKind) - gone
    assert all(Ruling.DISCARD in kind.rulings for kind in about_events)
    assert set(Ruling) == {ruling for kind in QuestionKind for ruling in kind.rulings}


@pytest.mark.parametrize("ruling", Ruling)
def test_every_ruling_has_a_meaning_in_one_line(ruling: Ruling) -> None:
    """A person chooses by the meaning, so it is there and short."""
    assert ruling.meaning.strip() == ruling.meaning != ""
    assert "\n" not in ruling.meaning


def test_a_question_keeps_the_bytes_of_its_event() -> None:
    """Bytes that are no UTF-8 survive the way to the desk and back."""
    question = Question(
        id="seam-abc",
        kind=QuestionKind.SEAM,
        source="crm",
        generation="0003-k7f2abcd",
        standing=Standing.UNVERIFIABLE,
        asked_ms=1,
        text="is it?",
        event=Held("fp.events.x", {"ce-type": "a%20b"}, b"\xff\0", "billing", "charge"),
    )
    payload = msgspec.json.encode(question)
    assert question == msgspec.json.decode(payload, type=Question)


def test_an_answer_comes_back_from_its_bytes() -> None:
    """What the broker keeps is what was answered."""
    answer = Answer("seam-abc", "crm", QuestionKind.SEAM, Ruling.SAME, "eve", 7, "sure")
    assert answer == msgspec.json.decode(msgspec.json.encode(answer), type=Answer)


def test_an_answer_outside_the_vocabulary_is_no_answer() -> None:
    """A ruling that nobody knows is refused on reading."""
    payload = msgspec.json.encode(
        Answer("seam-abc", "crm", QuestionKind.SEAM, Ruling.SAME, "eve", 7)
    ).replace(b'"same"', b'"whatever"')
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(payload, type=Answer)
