"""The only builder and parser of subjects, and the table of streams.

Foreign text never enters a subject: a name from configuration is checked as a slug, and anything
that came over a wire becomes the base32 of a digest. A wildcard or a dot from outside could
otherwise turn one message into many.
"""

import hashlib
import re
from functools import lru_cache

import msgspec

from fencepost_schemas.limits import LANES, SLUG_CHARS_MAX
from fencepost_schemas.standing import Standing

NAMES_KNOWN_MAX = 4_096
"""Names and subjects that were checked before; each comes again with every event."""
GENERATIONS_KNOWN_MAX = 256

_SLUG = re.compile(rf"[a-z0-9]([a-z0-9-]{{0,{SLUG_CHARS_MAX - 2}}}[a-z0-9])?")
_GENERATION = re.compile(r"[0-9]{4,}-[a-z2-7]{8}")
_BASE32 = "abcdefghijklmnopqrstuvwxyz234567"
_PAIRS = [first + second for first in _BASE32 for second in _BASE32]
_TOKEN = re.compile(r"[a-z0-9-]{1,64}")


class BadSubject(ValueError):
    """A name or a subject that this house did not build."""


@lru_cache(maxsize=NAMES_KNOWN_MAX)
def slug(text: str) -> str:
    """Return `text` if it may stand in a subject as it is; raise BadSubject if not."""
    if not _SLUG.fullmatch(text):
        raise BadSubject(
            f"{text!r} is not a name: use 1 to {SLUG_CHARS_MAX} of a-z, 0-9 and -, "
            "beginning and ending with a letter or digit"
        )
    return text


@lru_cache(maxsize=NAMES_KNOWN_MAX)
def checked_generation(text: str) -> str:
    """Return the name of a generation; raise BadSubject for anything else."""
    return _checked(_GENERATION, text)


def digest_token(*parts: str, chars: int = 26) -> str:
    """Return lower-case base32 of blake2b-128 over the parts; it tells nothing of the text."""
    return _base32(_hashed(*parts).digest())[:chars]


def held_place(row_subject: str, generation: str, position: str) -> str:
    """Return the place of an event that is held by itself, and not by its row."""
    return digest_token(row_subject, generation, position)


def key_token(handler: str, namespace: str, key: str) -> str:
    """Return `digest_token` of the three, the names of which are the same for many keys."""
    hashed = _hashed_names(handler, namespace).copy()
    hashed.update(_told_apart(key))
    return _base32(hashed.digest())


def _hashed(*parts: str) -> "hashlib.blake2b":
    return hashlib.blake2b(b"".join([_told_apart(part) for part in parts]), digest_size=16)


_hashed_names = lru_cache(maxsize=NAMES_KNOWN_MAX)(_hashed)


def _told_apart(part: str) -> bytes:
    encoded = part.encode("utf-8", "surrogatepass")
    return len(encoded).to_bytes(8, "big") + encoded


def _base32(digest: bytes) -> str:
    """Return 16 bytes in lower-case base32, unpadded; the library's takes ten times longer."""
    number = int.from_bytes(digest, "big") << 2
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)])


def lane_of(key: str) -> int:
    """Return the lane of an idempotency key: equal keys travel in one lane, in order."""
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=1).digest()[0] % LANES


APP_PREFIX = "app-"
_APP_DIGEST_CHARS = 8


def app_source(app: str) -> str:
    """Return the source under whose name an app emits, and asks what is about no other source."""
    named = APP_PREFIX + slug(app)
    if len(named) <= SLUG_CHARS_MAX:
        return named
    digest = digest_token("app", app, chars=_APP_DIGEST_CHARS)
    return f"{named[: SLUG_CHARS_MAX - _APP_DIGEST_CHARS - 1].rstrip('-')}-{digest}"


def is_app_source(source: str) -> bool:
    """Return True for a name that only apps have."""
    return source.startswith(APP_PREFIX)


class EventSubject(msgspec.Struct, frozen=True):
    source: str
    generation: str
    standing: Standing
    lane: int


@lru_cache(maxsize=NAMES_KNOWN_MAX)
def _parse_event(prefix: str, subject: str) -> EventSubject:
    parts = subject.split(".")
    if len(parts) != 6 or parts[0] != prefix or parts[1] != "events":
        raise BadSubject(f"{subject!r} is not an event's subject")
    source, generation, standing, lane = parts[2:]
    if standing not in list(Standing) or not re.fullmatch(r"[0-9]{2}", lane) or int(lane) >= LANES:
        raise BadSubject(f"{subject!r} is not an event's subject")
    return EventSubject(
        slug(source), _checked(_GENERATION, generation), Standing(standing), int(lane)
    )


class Subjects(msgspec.Struct, frozen=True):
    """Builds and parses every subject under one prefix."""

    prefix: str = "fp"

    def __post_init__(self) -> None:
        slug(self.prefix)

    # --- events, epochs, cursors
    def event(self, source: str, generation: str, standing: Standing, lane: int) -> str:
        if not 0 <= lane < LANES:
            raise BadSubject(f"lane {lane} is not in 0..{LANES - 1}")
        return _lanes_of(self.prefix, source, generation, standing)[lane]

    def parse_event(self, subject: str) -> EventSubject:
        """Return what an event's subject says; raise BadSubject for any other."""
        return _parse_event(self.prefix, subject)

    def events_of(self, source: str | None = None) -> str:
        """The filter over one source's events, or over all."""
        named = f"{slug(source)}." if source is not None else ""
        return f"{self.prefix}.events.{named}>"

    def events_in(self, source: str, generation: str) -> str:
        """The filter over the events of one generation."""
        return f"{self.prefix}.events.{slug(source)}.{_checked(_GENERATION, generation)}.>"

    def epoch(self, source: str, generation: str) -> str:
        return f"{self.prefix}.epochs.{slug(source)}.{_checked(_GENERATION, generation)}"

    def epochs_of(self, source: str) -> str:
        return f"{self.prefix}.epochs.{slug(source)}.*"

    def cursor(self, source: str) -> str:
        return f"{self.prefix}.cursors.{slug(source)}"

    def cursors(self) -> str:
        """The filter over all cursors."""
        return f"{self.prefix}.cursors.*"

    # --- who follows what
    def roster(self) -> str:
        return f"{self.prefix}.roster"

    def intention(self, source: str) -> str:
        return f"{self.prefix}.intentions.{slug(source)}"

    def intentions(self) -> str:
        """The filter over what is wished of all sources."""
        return f"{self.prefix}.intentions.*"

    def progress(self, app: str, feed: str) -> str:
        """Where it is written how far an app has come: in `events`, or in `gaps.<source>`."""
        kind, _, source = feed.partition(".")
        behind = f".{slug(source)}" if source else ""
        return f"{self.prefix}.progress.{slug(app)}.{slug(kind)}{behind}"

    # --- the desk
    def question(self, source: str, question: str) -> str:
        return f"{self.prefix}.questions.{slug(source)}.{_checked(_TOKEN, question)}"

    def questions_of(self, source: str | None = None) -> str:
        return f"{self.prefix}.questions.{slug(source) if source is not None else '*'}.*"

    def question_anywhere(self, question: str) -> str:
        """The filter that finds a question by its id alone."""
        return f"{self.prefix}.questions.*.{_checked(_TOKEN, question)}"

    def held(self, source: str, seam: str, row: str) -> str:
        return f"{self.prefix}.held.{slug(source)}.{_checked(_TOKEN, seam)}.{_checked(_TOKEN, row)}"

    def held_under(self, source: str, seam: str) -> str:
        return f"{self.prefix}.held.{slug(source)}.{_checked(_TOKEN, seam)}.*"

    def answer(self, question: str) -> str:
        return f"{self.prefix}.answers.{_checked(_TOKEN, question)}"

    def answers(self) -> str:
        return f"{self.prefix}.answers.*"

    def audit(self, writer: str) -> str:
        return f"{self.prefix}.audit.{slug(writer)}"

    def dead(self, handler: str) -> str:
        return f"{self.prefix}.dead.{slug(handler)}"

    def dead_of(self, handler: str | None = None) -> str:
        """The filter over the dead letters of one handler, or of all."""
        return f"{self.prefix}.dead.{slug(handler) if handler is not None else '*'}"

    # --- retries
    def retry(self, app: str, handler: str, lane: int) -> str:
        return f"{self.prefix}.retries.{slug(app)}.{slug(handler)}.{lane:02d}"

    def retries_of(self, app: str) -> str:
        """The filter over the parked retries of one app."""
        return f"{self.prefix}.retries.{slug(app)}.>"

    # --- the ledger
    def row(self, handler: str, namespace: str, digest: str) -> str:
        return _rows_in(self.prefix, handler, namespace) + _checked(_TOKEN, digest)

    def rows(self) -> str:
        return f"{self.prefix}.ledger.*.*.*"

    def rows_of(self, handler: str | None = None, namespace: str | None = None) -> str:
        """The filter over the rows of a handler, of a namespace, or of both."""
        named = [slug(name) if name is not None else "*" for name in (handler, namespace)]
        return f"{self.prefix}.ledger.{'.'.join(named)}.*"

    def row_anywhere(self, digest: str) -> str:
        """The filter that finds a row by its digest alone."""
        return f"{self.prefix}.ledger.*.*.{_checked(_TOKEN, digest)}"

    def checked_row(self, subject: str) -> str:
        """Return the subject if it is a row's; raise BadSubject for anything else."""
        parts = subject.split(".")
        if len(parts) != 5 or parts[0] != self.prefix or parts[1] != "ledger":
            raise BadSubject(f"{subject!r} is not a row's subject")
        return self.row(*parts[2:])

    def ledger_identity(self) -> str:
        return f"{self.prefix}.ledger.identity"


@lru_cache(maxsize=GENERATIONS_KNOWN_MAX)
def _lanes_of(prefix: str, source: str, generation: str, standing: Standing) -> tuple[str, ...]:
    """Return the subject of each lane."""
    name = _checked(_GENERATION, generation)
    events = f"{prefix}.events.{slug(source)}.{name}.{standing.value}"
    return tuple([f"{events}.{lane:02d}" for lane in range(LANES)])


@lru_cache(maxsize=NAMES_KNOWN_MAX)
def _rows_in(prefix: str, handler: str, namespace: str) -> str:
    return f"{prefix}.ledger.{slug(handler)}.{slug(namespace)}."


def _checked(pattern: re.Pattern[str], text: str) -> str:
    if not pattern.fullmatch(text):
        raise BadSubject(f"{text!r} may not stand in a subject")
    return text


class StreamPlan(msgspec.Struct, frozen=True):
    """One stream as the house wants it; `worker.broker.topology` makes it so."""

    name: str
    subjects: tuple[str, ...]
    holds: str
    age_limited: bool = False
    last_per_subject: bool = False
    first_per_subject: bool = False
    atomic: bool = False
    message_ttl: bool = False
    work_queue: bool = False
    deletable: bool = False
    """Whether single messages may be deleted; all of them at once never may."""


EVENTS = "FENCEPOST_EVENTS"
SOURCES = "FENCEPOST_SOURCES"
QUESTIONS = "FENCEPOST_QUESTIONS"
ANSWERS = "FENCEPOST_ANSWERS"
RETRIES = "FENCEPOST_RETRIES"
AUDIT = "FENCEPOST_AUDIT"
DEAD = "FENCEPOST_DEAD"
LEDGER = "FENCEPOST_LEDGER"


def stream_plans(prefix: str) -> tuple[StreamPlan, ...]:
    """Return the stream table for one prefix."""
    slug(prefix)
    return (
        StreamPlan(
            EVENTS,
            (f"{prefix}.events.>", f"{prefix}.epochs.>", f"{prefix}.cursors.*"),
            "classified events, verdict records, cursors",
            age_limited=True,
            atomic=True,
            message_ttl=True,
        ),
        StreamPlan(
            SOURCES,
            (f"{prefix}.roster", f"{prefix}.intentions.*", f"{prefix}.progress.>"),
            "which bridge follows which source, what people wish of each, how far each app is",
            last_per_subject=True,
        ),
        StreamPlan(
            QUESTIONS,
            (f"{prefix}.questions.>", f"{prefix}.held.>"),
            "questions, and the events that wait under them",
            last_per_subject=True,
            message_ttl=True,
        ),
        StreamPlan(
            ANSWERS,
            (f"{prefix}.answers.*",),
            "answers; the first one wins in the broker",
            first_per_subject=True,
        ),
        StreamPlan(
            RETRIES,
            (f"{prefix}.retries.>",),
            "events whose retry is far off; what was dealt with is gone",
            work_queue=True,
        ),
        StreamPlan(AUDIT, (f"{prefix}.audit.*",), "who answered what, when"),
        StreamPlan(DEAD, (f"{prefix}.dead.*",), "events that cannot be applied", deletable=True),
        StreamPlan(
            LEDGER,
            (f"{prefix}.ledger.>",),
            "what was applied",
            last_per_subject=True,
            atomic=True,
            message_ttl=True,
        ),
    )
