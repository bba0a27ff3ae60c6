"""A pipe that this process holds to its end: what was started on it then ends, too."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

GUARDIAN = Path(__file__).with_name("guardian.py")


class Lifeline:
    """Commands on a lifeline get SIGTERM once nobody holds it: neither we nor who holds it for us.

    `close` lets go of it; so does the end of this process, by any signal.
    """

    def __init__(self) -> None:
        self._watched, self._held = os.pipe()

    def close(self) -> None:
        for descriptor in (self._watched, self._held):
            os.close(descriptor)

    def command(
        self, line: Sequence[str], kill_after_s: float, holds: "Lifeline | None" = None
    ) -> tuple[list[str], tuple[int, ...]]:
        """Return the command line that starts this one on the lifeline, and its descriptors.

        The command is killed `kill_after_s` behind its SIGTERM. As long as it lives it `holds`
        another lifeline, and so keeps alive what runs on that one.
        """
        descriptors = (self._watched,) if holds is None else (self._watched, holds._held)
        told = ",".join(str(descriptor) for descriptor in descriptors)
        start = [sys.executable, "-I", "-S", str(GUARDIAN), told, f"{kill_after_s:g}"]
        return [*start, *line], descriptors
