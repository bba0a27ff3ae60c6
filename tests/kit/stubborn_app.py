"""The app of `kit.stubborn`: whatever in it can refuse to end, does."""

import asyncio
import atexit
import concurrent.futures
import contextlib
import multiprocessing
import os
import re
import sys
import threading
import time
from collections.abc import AsyncIterator

from fencepost import Fencepost

HOUR_S = 3600.0
LIFESPAN = os.environ.get("LIFESPAN", "")


def note(word: str) -> None:
    with open(os.environ["NOTED"], "a", encoding="utf-8") as noted:
        noted.write(word + "\n")


def block() -> None:
    time.sleep(HOUR_S)


async def swallow_for_ever() -> None:
    """Go on whatever comes: it can only be left behind."""
    while True:
        with contextlib.suppress(BaseException):
            await asyncio.sleep(HOUR_S)


@contextlib.asynccontextmanager
async def lifespan() -> AsyncIterator[None]:
    if LIFESPAN == "enter hangs":
        note("entering")
        await asyncio.sleep(HOUR_S)
    if LIFESPAN == "enter swallows":
        note("entering")
        await swallow_for_ever()
    yield
    note("leaving")
    if LIFESPAN == "exit hangs":
        await asyncio.sleep(HOUR_S)
    if LIFESPAN == "exit swallows":
        await swallow_for_ever()
    if LIFESPAN == "exit blocks":
        block()
    note("left")


app = Fencepost("stubborn", lifespan=lifespan)

if os.environ.get("IMPORT") == "hangs":
    note("importing")
    time.sleep(HOUR_S)

if os.environ.get("ATEXIT") == "hangs":
    atexit.register(time.sleep, HOUR_S)


@app.on("swallows-once")
async def swallows_once(payload: bytes) -> None:
    note("swallows-once")
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(HOUR_S)
    await asyncio.sleep(HOUR_S)


@app.on("swallows")
async def swallows(payload: bytes) -> None:
    note("swallows")
    await swallow_for_ever()


@app.on("plain")
def plain(payload: bytes) -> None:
    note("plain")
    time.sleep(HOUR_S)


@app.on("blocks")
async def blocks(payload: bytes) -> None:
    note("blocks")
    block()


@app.on("spins")
async def spins(payload: bytes) -> None:
    note("spins")
    turns = 0
    while True:
        with contextlib.suppress(BaseException):
            turns += 1


@app.on("keeps-the-lock")
async def keeps_the_lock(payload: bytes) -> None:
    """A C call that never gives the interpreter's lock back; it looks for signals now and then."""
    note("keeps-the-lock")
    re.match(r"(a|a)*$", "a" * 60 + "b")


@app.on("to-thread")
async def to_thread(payload: bytes) -> None:
    note("to-thread")
    await asyncio.to_thread(time.sleep, HOUR_S)


@app.on("fills-the-executor")
async def fills_the_executor(payload: bytes) -> None:
    loop = asyncio.get_running_loop()
    calls = [loop.run_in_executor(None, time.sleep, HOUR_S) for _ in range(64)]
    note("fills-the-executor")
    await asyncio.gather(*calls)


@app.on("own-executor")
async def own_executor(payload: bytes) -> None:
    pool = concurrent.futures.ThreadPoolExecutor(thread_name_prefix="own-executor")
    pool.submit(time.sleep, HOUR_S)
    note("own-executor")


@app.on("own-thread")
async def own_thread(payload: bytes) -> None:
    threading.Thread(target=time.sleep, args=(HOUR_S,), name="own-thread").start()
    note("own-thread")


@app.on("task-behind")
async def task_behind(payload: bytes) -> None:
    """Leave a task behind that does not end."""
    kept.append(asyncio.create_task(swallow_for_ever(), name="task-behind"))
    await asyncio.sleep(0)
    note("task-behind")


@app.on("talks")
async def talks(payload: bytes) -> None:
    """Fill the pipe that stdout is, whose other end nobody reads."""
    note("talks")
    while True:
        sys.stdout.write("x" * 1000)
        sys.stdout.flush()


@app.on("awaits-a-file")
async def awaits_a_file(payload: bytes) -> None:
    note("awaits-a-file")
    # The test is another process, and a file is all that both of them see.
    while not os.path.exists(os.environ["NOTED"] + ".go"):  # noqa: ASYNC110, ASYNC240
        await asyncio.sleep(0.02)


@app.on("forks")
async def forks(payload: bytes) -> None:
    """Have a child of the same program, and end it with SIGTERM."""
    child = multiprocessing.get_context("fork").Process(target=block)
    child.start()
    child.terminate()
    child.join()
    note(f"child-{child.exitcode}")


@app.on("works")
async def works(payload: bytes) -> None:
    note("works")
    await asyncio.sleep(HOUR_S)


kept: list[asyncio.Task[None]] = []
