"""What really happened, as only the simulator knows it. The oracle reads this and nothing else."""

import msgspec

from fencepost_schemas.event import ClassifiedEvent
from fencepost_schemas.question import Answer, Held, Question
from fencepost_schemas.row import Row
from fencepost_schemas.verdict import EpochRecord


class Place(msgspec.Struct, frozen=True, order=True):
    """Where an announcement stands: a replica's epochs follow one another, ids grow in each."""

    replica: int
    epoch: int
    id: int


class Announcement(msgspec.Struct, frozen=True):
    """A task as one log of the source holds it. `index` counts in its log from 0."""

    place: Place
    index: int
    task: str
    data: bytes
    at_s: float


class Sending(msgspec.Struct, frozen=True):
    """An announcement on its way to a client."""

    announcement: Announcement
    at_s: float


class Effect(msgspec.Struct, frozen=True):
    """What landed in the sink."""

    handler: str
    task: str
    worker: str
    attempt: int
    at_s: float


class Trapped(msgspec.Struct, frozen=True):
    """A process to which something was done at a crash point that the product names."""

    process: str
    point: str
    deed: str
    at_s: float


class Published(msgspec.Struct, frozen=True):
    sequence: int
    at_s: float
    event: ClassifiedEvent


class Recorded(msgspec.Struct, frozen=True):
    sequence: int
    record: EpochRecord


class History(msgspec.Struct):
    """Everything at the end of a run, in the order in which it came about."""

    handlers: dict[str, str]
    """Each handler's name with its effect."""
    leaky: bool = False
    """True where the source loses events between what it replays and what it sends live."""
    announcements: list[Announcement] = []
    sendings: list[Sending] = []
    effects: list[Effect] = []
    published: list[Published] = []
    records: list[Recorded] = []
    overdue: list[int] = []
    """Where a cursor told of a loss, though an event or a verdict had come since."""
    rows: list[Row] = []
    held: list[Held] = []
    paused: dict[str, list[Held]] = {}
    """What is held under each question about a paused handler, with or without a row."""
    questions: list[Question] = []
    answers: list[Answer] = []
    trapped: list[Trapped] = []
    connections: int = 0
    """How often the source was asked."""
    faults: list[str] = []
    failures: list[str] = []
    """Processes that ended for a reason that nobody expects."""
    restless: str = ""
    """What was still going on when patience was over; "" where all came to rest."""
    virtual_s: float = 0.0


def task_of(payload: bytes) -> str:
    """Return which task an event's bytes are about."""
    return str(msgspec.json.decode(payload)["task"])
