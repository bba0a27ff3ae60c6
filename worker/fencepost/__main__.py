"""`fencepost`, or `python -m fencepost`: the command line, in a process that comes to its end."""

import atexit
import logging
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import NoReturn


def main() -> NoReturn:
    """Run a command, and end this process with its code, within a bound."""
    signal.signal(signal.SIGINT, _at_once)
    if os.getpid() == 1:
        # The first process of a container is not ended by a signal that nobody handles.
        signal.signal(signal.SIGTERM, _at_once)
        signal.signal(signal.SIGHUP, _at_once)
    atexit.register(_leave, os.getpid())  # what is registered first is called last
    from fencepost.cli import main as run_command
    from fencepost.cli.ending import END_S, FLUSH_S, ending, flush_streams, within
    from fencepost.cli.tracing import flush_tracing

    signal.signal(signal.SIGINT, _interrupt)
    ending.code = _code_of(run_command)
    if signal.getsignal(signal.SIGINT) is _interrupt:
        signal.signal(signal.SIGINT, _at_once)
    ending.begin(END_S)
    flush_streams()
    within(FLUSH_S, flush_tracing)
    sys.exit(ending.code)


def _code_of(run_command: Callable[[], None]) -> int:
    try:
        run_command()
    except SystemExit as said:
        return said.code if isinstance(said.code, int) else 0
    except BaseException:  # a fault of this program: it is shown as Python does
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def _interrupt(number: int, _: FrameType | None) -> None:
    """Interrupt once; whoever swallows that is ended by the next one."""
    signal.signal(signal.SIGINT, _at_once)
    raise KeyboardInterrupt


def _at_once(number: int, _: FrameType | None) -> None:
    os._exit(128 + number)


def _leave(pid: int) -> None:
    """End the process behind every hook, without the interpreter's own way to the end.

    There is nothing in that for us, and no thread can end what blocks in it.
    """
    if os.getpid() != pid:
        return  # a process that a handler forked
    from fencepost.cli.ending import ending, flush_streams

    logging.shutdown()
    flush_streams()
    os._exit(ending.code)


if __name__ == "__main__":
    main()
