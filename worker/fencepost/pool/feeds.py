"""What a worker takes in: its consumers, what sees to each, and how far the app is in each."""

from functools import partial

import msgspec

from fencepost.app import Fencepost
from fencepost.pool.answers import Answers
from fencepost.pool.deliveries import Deliveries
from fencepost.pool.drive import Driver
from fencepost.pool.gaps import Gaps
from fencepost.pool.intake import Feed, consumer_name, in_a_task
from fencepost.pool.pauses import Pauses
from fencepost.pool.progress import Track
from fencepost.pool.retries import Retries
from fencepost.ports import Broker
from fencepost.settings import Settings
from fencepost_schemas.subject import ANSWERS, EVENTS, RETRIES, Subjects

ANSWER_SLOTS = 4
RETRY_SLOTS = 16
GAP_SLOTS = 4


class Rooms(msgspec.Struct, frozen=True):
    """What sees to what a worker takes in."""

    driver: Driver
    pauses: Pauses
    deliveries: Deliveries
    answers: Answers
    retries: Retries
    gaps: Gaps


def tracks_of(app: Fencepost, connection: Broker, subjects: Subjects) -> list[Track]:
    """Return how far the app is in the events, and in the gaps of each source it reconciles."""
    events = Track(
        app.name, "events", consumer_name(app.name, ""), subjects.events_of(), connection, subjects
    )
    gaps = [
        Track(
            app.name,
            f"gaps.{source}",
            consumer_name(app.name, _gaps_of(source)),
            subjects.epochs_of(source),
            connection,
            subjects,
        )
        for source in app.reconcilers
    ]
    return [events, *gaps]


def feeds_of(
    settings: Settings, app: Fencepost, subjects: Subjects, rooms: Rooms, tracks: list[Track]
) -> list[Feed]:
    """Return the consumers of the app: events, answers, retries, and the gaps of each source.

    Gaps that were there before its reconciler are not called up: what they hid may be long settled.
    One consumer for all would pass over, or call up, the gaps of whoever is registered later.
    """
    slots, events, *gaps = settings.pool.slots, *tracks
    begin_events = partial(events.begin, from_now=False)
    answers, retries = in_a_task(rooms.answers.work_on), in_a_task(rooms.retries.work_on)
    parked = subjects.retries_of(app.name)
    return [
        Feed(EVENTS, "", (subjects.events_of(),), slots, rooms.deliveries.begin, begin_events),
        Feed(ANSWERS, "-answers", (subjects.answers(),), ANSWER_SLOTS, answers),
        Feed(RETRIES, "-retries", (parked,), RETRY_SLOTS, retries),
        *(
            Feed(
                EVENTS,
                _gaps_of(source),
                (subjects.epochs_of(source),),
                GAP_SLOTS,
                in_a_task(rooms.gaps.work_on),
                partial(track.begin, from_now=True),
            )
            for source, track in zip(app.reconcilers, gaps, strict=True)
        ),
    ]


def _gaps_of(source: str) -> str:
    return f"-gaps-{source}"
