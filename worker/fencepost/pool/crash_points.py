"""Named points at which a test, or the simulator, may let a worker die."""


class Crash(BaseException):
    """The death of a worker at a crash point: nothing of the program may catch it."""


def nothing_reached(point: str) -> None:
    """The crash point of every day: nothing happens."""
