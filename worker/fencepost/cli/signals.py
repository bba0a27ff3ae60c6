"""Hears SIGINT, SIGTERM and SIGHUP, also while the main thread does not come round."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

from fencepost.cli.ending import arm, ending
from fencepost.clock import monotonic_s

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TOGETHER_S = 0.5
"""Signals so close to the first are one wish: a terminal and timeout(1) send more than one."""
_NOTED = 0x80
"""Marks a signal that Python's handler noted; the byte of the same signal may have come before."""


class Signals:
    """Calls `told` with the first signal that says stop; a later one ends the process at once.

    The interpreter writes each signal's number into a pipe the moment it comes, and a thread reads
    it: a handler that blocks the loop, or any call that gives the interpreter's lock back, is not
    in the way. Python's handler, which runs on the main thread, is for what keeps the lock but
    looks for signals now and then, and for whoever took the pipe's place: an app may add handlers
    of signals to its loop. `limit_s` says how long the end may take.

    A SIGHUP that is ignored stays ignored: so nohup(1) asks for it. A process that a handler forks
    would write its own signals into our pipe: it gets the signals' defaults back.
    """

    def __init__(self, told: Callable[[int], None], limit_s: Callable[[], float]) -> None:
        self._told = told
        self._limit_s = limit_s
        self._armed = False
        self._closed = False
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._before = {
            number: signal.signal(number, self._note)
            for number in STOPPING
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN
        }
        if signal.getsignal(signal.SIGALRM) == signal.SIG_IGN:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        os.register_at_fork(
            before=self._before_fork,
            after_in_parent=self._in_parent,
            after_in_child=self._in_child,
        )
        self._wakeup_before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._listen, name="fencepost-signals", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Leave signals to who had them before."""
        self._closed = True
        signal.set_wakeup_fd(self._wakeup_before)
        for number, before in self._before.items():
            signal.signal(number, before)
        os.close(self._write)
        self._thread.join()
        os.close(self._read)

    def _before_fork(self) -> None:
        # Held back: the child's own would come here until it has left this pipe.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)

    def _in_parent(self) -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)

    def _in_child(self) -> None:
        if not self._closed:
            signal.set_wakeup_fd(-1)
            for number in self._before:
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)

    def _note(self, number: int, _: FrameType | None) -> None:
        # The main thread may hold any lock here, so nothing is done that needs one.
        if not self._armed:
            self._armed = True
            arm(self._limit_s())
        with contextlib.suppress(OSError):
            os.write(self._write, bytes([number | _NOTED]))

    def _listen(self) -> None:
        first_s: float | None = None
        while came := os.read(self._read, 64):
            for byte in came:
                number, noted = byte & ~_NOTED, bool(byte & _NOTED)
                if number not in STOPPING:
                    continue
                now_s = monotonic_s()
                if first_s is None:
                    first_s = now_s
                    self._armed = True
                    self._told(number)
                elif not noted and now_s - first_s > TOGETHER_S:
                    name = signal.Signals(number).name
                    ending.at_once(128 + number, f"{name} after another signal")
