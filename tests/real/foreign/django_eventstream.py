"""django-eventstream, with a database that outlives it, with one that does not, and without."""

from pathlib import Path
from typing import Any

from fencepost_schemas.reason import Reason
from fencepost_schemas.standing import Standing
from real.scenarios import (
    LITTLE,
    LONG,
    NOTHING,
    PAST,
    RESTART_FEWER,
    RESTART_MORE,
    UNKNOWN,
    WITHIN,
    Case,
    Row,
)
from real.told import ToldServer

FOLDER = Path(__file__).parent / "django"
PYTHON = Path(__file__).parents[3] / ".venv-django" / "bin" / "python"

DIALECT = "django_eventstream"


class DjangoEventstream(ToldServer):
    """`storage` is "kept", "lost" with each process, or "none"."""

    greets = True

    def __init__(self, folder: Path, storage: str, window: int = 1_000, **source: Any) -> None:
        assert PYTHON.exists(), f"there is no {PYTHON}: run make test-real"
        line = [
            str(PYTHON),
            str(FOLDER / "source.py"),
            "--storage",
            storage,
            "--window",
            str(window),
        ]
        said = {"dialect": DIALECT, "key": "/k", **source}
        super().__init__(folder, line, "/events/", said)


MATCHED = (Reason.OVERLAP_MATCHED,)
RESET = (Reason.RESET_EVENT,)

# It says `stream-reset` where an id is not in its log. A counter that began anew gives the same ids
# again, and then it does not.
KEPT_CASES = (
    Case(NOTHING, MATCHED),
    Case(WITHIN, MATCHED),
    Case(PAST, RESET),
    Case(RESTART_FEWER, MATCHED, verdict=Standing.RESUMED),
    Case(RESTART_MORE, MATCHED, verdict=Standing.RESUMED),
    Case(UNKNOWN, (Reason.OVERLAP_OTHER_BYTES,)),
    Case(LITTLE, MATCHED),
    Case(LONG, MATCHED),
)
# It differs from the one that is kept in a restart, and nowhere else.
LOST_CASES = (
    Case(RESTART_FEWER, RESET),
    Case(RESTART_MORE, (Reason.OVERLAP_OTHER_BYTES,)),
)
# Without storage there are no ids, so there is nothing to ask for.
WITHOUT_CASES = tuple(
    Case(scenario, (Reason.POSITION_MISSING,), verdict=Standing.UNVERIFIABLE)
    for scenario in (NOTHING, WITHIN, PAST, RESTART_FEWER, RESTART_MORE, UNKNOWN)
)


def _version() -> str:
    lock = (FOLDER / "requirements.lock").read_text("utf-8")
    return lock.partition("django-eventstream==")[2].split()[0]


NAME = f"django-eventstream {_version()}"
DJANGO = (
    Row(
        f"{NAME}, with storage",
        DIALECT,
        lambda folder, case: DjangoEventstream(folder, "kept", case.scenario.window),
        KEPT_CASES,
    ),
    Row(
        f"{NAME}, with storage that a restart loses",
        DIALECT,
        lambda folder, case: DjangoEventstream(folder, "lost", case.scenario.window),
        LOST_CASES,
    ),
    Row(
        f"{NAME}, without storage",
        DIALECT,
        lambda folder, _: DjangoEventstream(folder, "none"),
        WITHOUT_CASES,
    ),
)
