"""SIGTERM ends a worker within its drain and a stated bound, whatever does not want to end."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from fencepost.broker.embedded import EmbeddedBroker
from fencepost.cli.ending import END_S, HARD_S
from fencepost.cli.signals import TOGETHER_S
from kit.command import Command, Ran
from kit.pool import event, publish
from kit.stubborn import DRAIN_S, Stubborn, stubborn
from kit.wait import until

BOUND_S = DRAIN_S + END_S + HARD_S
SLACK_S = 20.0
"""For a machine that is busy with other tests: what hangs would hang on for an hour."""


GENTLE = ("enter hangs", "exit hangs")
"""A lifespan that does hear that it is cancelled."""


async def ended(worker: Stubborn) -> Ran:
    ran = await worker.command.ended(BOUND_S + SLACK_S)
    assert "Traceback" not in ran.err, ran.err
    return ran


@pytest.mark.parametrize("handler", ["swallows-once", "blocks", "spins"])
async def test_sigterm_ends_a_worker_whose_handler_does_not_end(
    broker: EmbeddedBroker, tmp_path: Path, handler: str
) -> None:
    """Its code is 0, as it was told to stop; the log names the event whose handler was left."""
    async with stubborn(broker, tmp_path) as worker:
        await worker.begin(handler)
        worker.tell()
        ran = await ended(worker)
    assert 0 == ran.code, ran.err
    assert (handler != "swallows-once") == ("left behind" in ran.err), ran.err
    assert ("ended by force" in ran.err) == (f"task {handler} at '1' of orders" in ran.err)


async def test_sigterm_ends_a_worker_with_everything_in_it_that_does_not_end(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """Tasks, threads that the interpreter waits for and such that it does not: each is named."""
    async with stubborn(broker, tmp_path) as worker:
        for handler in ("own-executor", "own-thread", "task-behind"):
            await worker.begin(handler)
        for handler in ("swallows", "plain", "to-thread"):
            await worker.begin(handler)
        worker.tell()
        ran = await ended(worker)
    assert 0 == ran.code, ran.err
    left = ran.err.partition("left behind")[2]
    for name in (
        "task swallows at '1' of orders",
        "task task-behind",
        "thread handler plain",
        "thread asyncio_0",
        "thread own-executor_0",
        "thread own-thread",
    ):
        assert name in left, ran.err


async def test_a_call_that_keeps_the_interpreters_lock_is_ended(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """No thread of Python can run then: the process is ended all the same, with another code."""
    async with stubborn(broker, tmp_path) as worker:
        await worker.begin("keeps-the-lock")
        worker.tell()
        ran = await worker.command.ended(BOUND_S + SLACK_S)
    assert ran.code in (1, -signal.SIGALRM), ran.err


async def test_sigterm_ends_workers_whose_lifespan_does_not_end(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """Wherever it stands, and whether or not it hears that it is cancelled."""

    async def end(lifespan: str, word: str) -> None:
        folder = tmp_path / lifespan.replace(" ", "-")
        folder.mkdir()
        async with stubborn(broker, folder, lifespan) as worker:
            await (worker.note(word) if word else worker.runs())
            worker.tell()
            ran = await ended(worker)
        assert 0 == ran.code, ran.err
        assert (lifespan not in GENTLE) == ("ended by force" in ran.err), ran.err

    await asyncio.gather(
        end("enter hangs", "entering"),
        end("enter swallows", "entering"),
        end("exit hangs", ""),
        end("exit swallows", ""),
        end("exit blocks", ""),
    )


async def test_a_worker_that_waited_for_its_broker_is_at_its_start_still(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """The app's lifespan, which it enters behind that, is cancelled as it is otherwise."""

    async def waits(command: Command) -> None:
        await until(lambda: "waiting for the broker" in command.err, "the worker to wait")

    async with stubborn(broker, tmp_path, "enter hangs", begins=waits) as worker:
        await worker.note("entering")
        worker.tell()
        ran = await ended(worker)
    assert 0 == ran.code, ran.err
    assert "ended by force" not in ran.err


async def test_the_lifespan_is_left_although_a_handler_does_not_end(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """What the app holds open is closed, whoever is left behind."""
    async with stubborn(broker, tmp_path) as worker:
        for handler in ("swallows", "plain", "fills-the-executor"):
            await worker.begin(handler)
        worker.tell()
        ran = await ended(worker)
    assert 0 == ran.code, ran.err
    assert "left" in worker.notes(), ran.err


async def test_sigterm_ends_a_worker_whose_exit_hook_does_not_end(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    async with stubborn(broker, tmp_path, ATEXIT="hangs") as worker:
        await worker.runs()
        worker.tell()
        ran = await ended(worker)
    assert 0 == ran.code, ran.err


async def test_sigterm_ends_a_worker_whose_output_nobody_reads(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """Its handler and its log stand in writes to full pipes."""
    read, write = os.pipe()
    try:
        async with stubborn(broker, tmp_path, output=write) as worker:
            await worker.begin("talks")
            worker.tell()
            assert 0 == (await worker.command.ended(BOUND_S + SLACK_S)).code
    finally:
        os.close(read)
        os.close(write)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_during_the_import_of_the_app_ends_at_once(
    broker: EmbeddedBroker, tmp_path: Path, number: signal.Signals
) -> None:
    async with stubborn(broker, tmp_path, IMPORT="hangs") as worker:
        await worker.note("importing")
        worker.tell(number)
        ran = await ended(worker)
    assert ran.code in (128 + number, -number), ran.err


@pytest.mark.parametrize(
    ("handler", "number"),
    [
        ("works", signal.SIGTERM),
        ("works", signal.SIGINT),
        ("blocks", signal.SIGTERM),
        ("spins", signal.SIGINT),
        ("swallows", signal.SIGTERM),
    ],
)
async def test_a_second_signal_ends_at_once(
    broker: EmbeddedBroker, tmp_path: Path, handler: str, number: signal.Signals
) -> None:
    """Also while a handler does not let anything else run."""
    async with stubborn(broker, tmp_path) as worker:
        await worker.begin(handler)
        worker.tell()
        # Nothing tells when signals no longer count as one.
        await asyncio.sleep(TOGETHER_S * 1.5)
        worker.tell(number)
        ran = await ended(worker)
    assert 128 + number == ran.code, ran.err


async def test_a_signal_of_a_child_is_none_of_ours(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """A child that a handler forks has our pipe for signals; SIGTERM ends it, and nobody else."""
    async with stubborn(broker, tmp_path) as worker:
        await publish(worker.home, event("forks", type="forks"))
        await worker.note("child--15")
        await worker.begin("works")
        assert "stopping" not in worker.command.err
        worker.tell()
        ran = await ended(worker)
    assert 0 == ran.code, ran.err


async def test_signals_at_the_same_moment_are_one(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """A terminal, a supervisor and timeout(1) may each send one for the same wish."""
    async with stubborn(broker, tmp_path) as worker:
        await worker.begin("works")
        worker.tell(signal.SIGTERM)
        worker.tell(signal.SIGINT)
        worker.tell(signal.SIGTERM)
        ran = await ended(worker)
    assert 0 == ran.code, ran.err


@pytest.mark.parametrize("trouble", ["stopped", "killed"])
@pytest.mark.parametrize("handler", ["", "swallows"])
async def test_sigterm_ends_a_worker_whose_broker_is_away(
    broker: EmbeddedBroker, tmp_path: Path, trouble: str, handler: str
) -> None:
    """The client library tries to come back, and does not let go of it when it is cancelled."""
    async with stubborn(broker, tmp_path) as worker:
        await (worker.begin(handler) if handler else worker.runs())
        assert broker.process is not None
        if trouble == "killed":
            await broker.kill()
        else:
            broker.process.send_signal(signal.SIGSTOP)
        if trouble == "killed":
            await until(lambda: "connection lost" in worker.command.err, "the loss to be noticed")
        worker.tell()
        ran = await ended(worker)
        if trouble == "stopped":
            broker.process.send_signal(signal.SIGCONT)
    assert ran.code in (0, 3), ran.err
