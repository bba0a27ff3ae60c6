"""Starts a command that ends when whoever started it has ended, however that came.

    python -I -S guardian.py LIFELINE[,HELD...] KILL_AFTER_S COMMAND...

A script of its own, which imports nothing of ours: `fencepost.lifeline` runs it. It takes the
command's place, so that the command has the process id that its starter knows. A child of it stays
behind and watches the lifeline, a pipe whose other end the starter holds: the system closes that
end when the starter ends, also by SIGKILL. Then the command gets SIGTERM, and SIGKILL where it does
not end by itself. The child, and not the command, holds the other descriptors open.

This works on every system with pipes. The parent-death signal of Linux does not: it comes when the
starting thread ends, and it has no second signal.
"""

import os
import select
import signal
import sys
import time

LOOK_S = 0.5
"""The command's own end is noticed within this time."""
LAST_LOOK_S = 0.05


def main() -> None:
    descriptors = [int(number) for number in sys.argv[1].split(",")]
    kill_after_s, command = float(sys.argv[2]), sys.argv[3:]
    pid = os.getpid()
    if os.fork() == 0:
        try:
            _watch(pid, descriptors, kill_after_s)
        finally:
            os._exit(0)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)  # Python ignores them, and the command would
    os.execvp(command[0], command)


def _watch(pid: int, descriptors: list[int], kill_after_s: float) -> None:
    """Return when the process is gone: who is not our parent any more is, whoever has its id."""
    _let_go_of_all_but(descriptors)
    lifeline = select.poll()
    lifeline.register(descriptors[0], select.POLLIN)
    while os.getppid() == pid and not lifeline.poll(LOOK_S * 1000):
        pass
    kill_at_s = time.monotonic() + kill_after_s
    if os.getppid() == pid:
        os.kill(pid, signal.SIGTERM)
    while os.getppid() == pid:
        if time.monotonic() > kill_at_s:
            os.kill(pid, signal.SIGKILL)
        time.sleep(LAST_LOOK_S)


def _let_go_of_all_but(descriptors: list[int]) -> None:
    """Hold nothing that somebody waits to see closed: a log's pipe, a socket that listens."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)
    os.chdir("/")
    least = 3
    for kept in sorted(descriptors):
        os.closerange(least, kept)
        least = kept + 1
    os.closerange(least, os.sysconf("SC_OPEN_MAX"))


if __name__ == "__main__":
    main()
