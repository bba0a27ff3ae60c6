"""The end of this process: it comes within a bound, whatever does not want to end.

A process ends in order where it can. Once its end has begun, a thread counts down beside it: at
the bound it says what was left and ends the process with its code. Where not even a thread can run,
because a C call keeps the interpreter's lock, faulthandler's own thread and then the kernel do it.
"""

import asyncio
import contextlib
import faulthandler
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable

from fencepost.cli.tracing import flush_tracing
from fencepost.clock import monotonic_s
from fencepost.leftovers import names_of

log = logging.getLogger("fencepost.cli")

END_S = 5.0
"""From what a process takes to drain to its end: nothing is waited for any longer."""
HARD_S = 1.0
"""Behind the bound, before the kernel ends a process in which no thread of Python can run."""
LAST_WORDS_S = 0.5
"""For saying what was left: who reads our stderr may have stopped reading it."""
FLUSH_S = 1.0
"""For spans to go out: a collector that hangs must not hold the end."""
_OWN_THREADS = ("fencepost-", "Otel")


class Ending:
    """How and by when this process ends. There is one, as a process ends once."""

    def __init__(self) -> None:
        self.code = 0
        self.loop: asyncio.AbstractEventLoop | None = None
        self._over_s: float | None = None
        self._began_s = 0.0
        self._sooner = threading.Event()
        self._lock = threading.Lock()

    def begin(self, limit_s: float) -> None:
        """Have the process end within this time. Said again, it may only become less."""
        with self._lock:
            now_s = monotonic_s()
            first = self._over_s is None
            if self._over_s is not None and self._over_s <= now_s + limit_s:
                return
            self._over_s = now_s + limit_s
            arm(limit_s)
            self._sooner.set()
            if first:
                self._began_s = now_s
                threading.Thread(target=self._count_down, name="fencepost-end", daemon=True).start()

    def at_once(self, code: int, why: str) -> None:
        """End the process now."""
        with contextlib.suppress(RuntimeError):  # so late no thread may be begun any more
            within(LAST_WORDS_S, lambda: self._last_words(why))
        os._exit(code)

    def _count_down(self) -> None:
        while True:
            assert self._over_s is not None
            left_s = self._over_s - LAST_WORDS_S - monotonic_s()
            if left_s <= 0:
                break
            self._sooner.wait(left_s)
            self._sooner.clear()
        self.at_once(self.code, f"not at its end after {monotonic_s() - self._began_s:.1f} s")

    def _last_words(self, why: str) -> None:
        log.error("%s: ended by force; left behind: %s", why, what_is_left(self.loop))
        flush_streams()
        flush_tracing()


ending = Ending()


def arm(limit_s: float) -> None:
    """Have the process ended from outside of Python, soon after this time.

    What keeps the interpreter's lock keeps every thread of Python from running. faulthandler's
    thread needs no lock: it says where each thread stands, and exits with 1. It may be held up by a
    stderr that nobody reads. SIGALRM, whose default is the process's end, may not; but it does
    nothing to the first process of a container.

    A C call that had the lock when the signal came, and neither gives it back nor looks for
    signals, keeps this from being called: SIGKILL ends such a process, and nothing else.
    """
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        faulthandler.dump_traceback_later(limit_s + HARD_S / 2, exit=True, file=2)
    signal.setitimer(signal.ITIMER_REAL, limit_s + HARD_S)


def within(limit_s: float, do: Callable[[], None]) -> None:
    """Do something, and wait no longer than this for it."""
    thread = threading.Thread(target=do, name="fencepost-last-words", daemon=True)
    thread.start()
    thread.join(limit_s)


def flush_streams() -> None:
    for stream in (sys.stdout, sys.stderr):
        # Whoever read it may be gone, or it was closed.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()


def what_is_left(loop: asyncio.AbstractEventLoop | None) -> str:
    """Return what still runs, by name, and where the main thread stands if it stands in a call."""
    tasks = asyncio.all_tasks(loop) if loop is not None else set()
    return names_of(tasks, busy_threads()) + _main_thread()


def busy_threads() -> list[threading.Thread]:
    """Return the threads that are neither the main one nor this program's own."""
    return [
        thread
        for thread in threading.enumerate()
        if thread is not threading.main_thread() and not thread.name.startswith(_OWN_THREADS)
    ]


def _main_thread() -> str:
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    if frame is None:
        return ""
    innermost = traceback.extract_stack(frame)[-1]
    if innermost.filename.endswith("selectors.py"):
        return ""
    return f"; the main thread stands in {innermost.filename}:{innermost.lineno}"
