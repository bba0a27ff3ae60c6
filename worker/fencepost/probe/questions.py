"""The questions, in order: first as a client that means well, then with what no server can know."""

from fencepost.ports import Door
from fencepost.probe.asking import Asking
from fencepost.probe.recording import Recording
from fencepost_policies.probe.answers import Question
from fencepost_policies.probe.rehearsal import Positions, positions_of

BEGINNING_ID = "0"


async def ask_plain(asking: Asking, listening: Recording) -> None:
    """Ask a plain server. Its connections stay open: live events are to be seen on all of them."""
    await asking.wait_for_events(listening)
    if not asking.had():
        await asking.ask(Question.BEGINNING, BEGINNING_ID)
    if not asking.had():
        return
    await asking.ask(Question.BESIDE, "")
    # The break is where the first position is asked for: nothing is awaited in between.
    events = asking.had()
    positions = true_positions(positions_of(events))
    for question, position in (*positions, *asking.wrong_positions(events)):
        await asking.ask(question, position)
    await asking.wait_for_live(listening)


async def ask_in_session(asking: Asking, listening: Recording, stranger: Door) -> None:
    """Ask a server that has sessions, and gives each session one stream at a time.

    `stranger` is a door to it in a session that it never gave; "" where it gives none at all.
    """
    await asking.wait_for_events(listening)
    events = asking.had()
    positions = positions_of(events)
    await listening.close()
    first = positions.older or positions.last_but_one
    if not first:
        async with asking.letting_go(Question.BESIDE, ""):
            return
    question = Question.OLDER if positions.older else Question.LAST_BUT_ONE
    async with asking.letting_go(question, first), asking.letting_go(Question.AGAIN, first):
        pass
    rest = [one for one in true_positions(positions) if one[0] is not question]
    for question, position in (*asking.wrong_positions(events), *rest):
        async with asking.letting_go(question, position):
            pass
    if stranger.session:
        async with asking.letting_go(Question.SESSION, positions.newest or first, stranger):
            pass


def true_positions(positions: Positions) -> list[tuple[Question, str]]:
    found = [
        (Question.OLDER, positions.older),
        (Question.LAST_BUT_ONE, positions.last_but_one),
        (Question.NEWEST, positions.newest),
    ]
    return [(question, asked) for question, asked in found if asked]
