"""The error tree, split by who has to do something, and the exit code that says so.

    FencepostError
    ├── UsageError          you: the command line or the configuration is wrong      exit 2
    ├── NotFine             the thing asked about is not fine                        exit 1
    │   ├── SourceStopped   a source cannot be followed until somebody acts
    │   ├── Fenced          another bridge owns this source now
    │   ├── Unreadable      a record on the broker is none that this release knows
    │   └── LedgerDiffers   the ledger is not the one that the lineage is pinned to
    ├── Unreachable         something that we need does not answer                   exit 3
    │   ├── Unanswered      the broker did not reply in time: outcome unknown
    │   └── Denied          the broker refuses this login, or this login a subject
    └── Stopped             a signal ended the command before its end                exit 128+

Each message is one line and says what to do.
"""

import signal


class FencepostError(Exception):
    exit_code = 1


class UsageError(FencepostError):
    exit_code = 2


class NotFine(FencepostError):
    exit_code = 1


class SourceStopped(NotFine):
    pass


class Fenced(NotFine):
    pass


class Unreadable(NotFine):
    pass


class LedgerDiffers(NotFine):
    pass


class Unreachable(FencepostError):
    exit_code = 3


class Unanswered(Unreachable):
    pass


class Denied(Unreachable):
    pass


class Stopped(FencepostError):
    def __init__(self, number: signal.Signals) -> None:
        super().__init__(f"stopped by {number.name}")
        self.exit_code = 128 + number


def first_of(together: BaseExceptionGroup) -> BaseException:
    """Return the first error in a group, however deep the groups are nested."""
    error: BaseException = together
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
