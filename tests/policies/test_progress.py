"""Proves when events count as gone unseen: neither in silence, nor where nothing was lost."""

import msgspec
import pytest

from fencepost_policies.progress import Look, Loss, loss_in, moved_on, reached
from fencepost_schemas.progress import Progress, Published

AGE = 1_000
THEN = 10_000
G = "0001-aaaaaaaa"
LATER_G = "0002-bbbbbbbb"

IDLE = Progress("shop", "events", "made", 50, THEN, published={"orders": Published(G, 40)})
"""All up to 50 was dealt with; the source had published 40 by then."""
BUSY = Progress("shop", "events", "made", 50, THEN, waiting=51, waiting_since_ms=THEN - 5)
"""All up to 50 was dealt with, and 51 was waiting."""


def look(**changes: object) -> Look:
    """Return a look at a stream that holds nothing, much later."""
    plain = Look(
        made="made",
        last=90,
        floor=50,
        idle=False,
        now_ms=THEN + 5 * AGE,
        age_ms=AGE,
        published={"orders": Published(G, 40)},
    )
    return msgspec.structs.replace(plain, **changes)


def counted(count: int, left: int = 0, generation: str = G) -> Look:
    return look(published={"orders": Published(generation, count)}, left={"orders": left})


@pytest.mark.parametrize(
    ("known", "seen", "expected"),
    [
        # An app that begins, and one for which nothing came: cursors alone have grown too old.
        (None, counted(45), None),
        (IDLE, look(), None),
        # As many are there as came; or less, and then the difference is gone.
        (IDLE, counted(47, left=7), None),
        (IDLE, counted(47, left=5), Loss(50, 91, THEN, {"orders": 2}, whole=True)),
        (IDLE, counted(47), Loss(50, 91, THEN, {"orders": 7}, whole=True)),
        # Nothing that came since can be too old yet.
        (IDLE, msgspec.structs.replace(counted(47), now_ms=THEN + AGE - 1), None),
        # Another generation began: what came in it is known, what came before it is not.
        (IDLE, counted(3, generation=LATER_G), Loss(50, 91, THEN, {"orders": 3}, whole=False)),
        (IDLE, counted(3, left=3, generation=LATER_G), None),
        # What was waiting is there, was dealt with, or is gone.
        (BUSY, look(waiting=51, waiting_since_ms=THEN - 5), None),
        (BUSY, look(now_ms=THEN + 10, floor=51, waiting=60), None),
        (BUSY, look(now_ms=THEN + AGE - 6, idle=True), None),
        (BUSY, look(waiting=60), Loss(50, 60, THEN - 5, {}, whole=False)),
        (BUSY, look(), Loss(50, 91, THEN - 5, {}, whole=False)),
        # The broker counts as acked what grew too old.
        (BUSY, look(floor=89), Loss(50, 91, THEN - 5, {}, whole=False)),
        (BUSY, look(idle=True), Loss(50, 91, THEN - 5, {}, whole=False)),
        # The stream was made again, with sequences of its own.
        (IDLE, look(made="again", last=7, floor=0),
         Loss(0, 8, THEN, {}, whole=False, other_stream=True)),
        (BUSY, look(made="again", last=7, floor=0, waiting=3),
         Loss(0, 3, THEN, {}, whole=False, other_stream=True)),
    ],
)  # fmt: skip
def test_what_is_gone_unseen(known: Progress | None, seen: Look, expected: Loss | None) -> None:
    assert expected == loss_in(known, seen)


@pytest.mark.parametrize("known", [IDLE, BUSY])
@pytest.mark.parametrize(
    "seen",
    [counted(47), look(waiting=60), look(idle=True), look(made="again", last=7, floor=0)],
    ids=["gone", "waiting", "idle", "another stream"],
)
def test_a_loss_is_asked_about_once(known: Progress, seen: Look) -> None:
    """Behind the record that follows a look, the same look shows nothing that is gone."""
    after = moved_on(known, seen, "shop", "events")
    assert loss_in(after, seen) is None
    assert reached(after, seen) == after.sequence


@pytest.mark.parametrize(
    ("known", "seen", "expected"),
    [
        (None, look(), 50),
        (None, look(idle=True), 90),
        (IDLE, look(floor=20), 50),
        (IDLE, look(floor=70), 70),
        (IDLE, look(made="again", floor=3), 3),
    ],
)
def test_an_app_never_goes_back(known: Progress | None, seen: Look, expected: int) -> None:
    """A consumer that was made again may count from the beginning; the record does not."""
    assert expected == reached(known, seen)
