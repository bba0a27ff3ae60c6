"""`fencepost worker`: apply events by the ledger, and carry out answers."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fencepost.app import Fencepost
from fencepost.broker.jetstream import JetStream, connect
from fencepost.cli.loading import load_app
from fencepost.cli.options import (
    AppOption,
    ConfigOption,
    QuietOption,
    ServerOption,
    settings_from,
)
from fencepost.cli.output import log_to_stderr
from fencepost.cli.processes import run_until_signal
from fencepost.cli.tracing import set_up_tracing
from fencepost.clock import RealWorld
from fencepost.ledgers.kv import KvLedger
from fencepost.patience import Patience, StoppedWaiting
from fencepost.pool.renewal import renew_in_thread
from fencepost.pool.worker import Renewal, run_worker
from fencepost.settings import Settings
from fencepost.settings_file import login_for
from fencepost_schemas.subject import Subjects

OBJECTS_YOUNG = 20_000
"""Before the collector looks: a thousand events at work are that many, and all of them go by."""


def worker(
    app: AppOption = None,
    config: ConfigOption = None,
    server: ServerOption = None,
    quiet: QuietOption = False,
) -> None:
    """Run one worker of the app's pool. Start as many as you like, anywhere."""
    log_to_stderr(quiet=quiet)
    settings = settings_from(config, server, app)
    loaded = load_app(settings.app)
    set_up_tracing("worker")
    # What was loaded stays for good: the collector need not go through it again and again.
    gc.freeze()
    gc.set_threshold(OBJECTS_YOUNG)
    run_until_signal(lambda stop: _work(settings, loaded, stop), settings.pool.drain_s)


async def _work(settings: Settings, app: Fencepost, stop: asyncio.Event) -> None:
    login = login_for(settings.broker, "worker")
    patience = Patience(RealWorld(), settings.broker.start_wait_s, stop)
    try:
        connection = await patience.wait_out(lambda: connect(settings.broker, login, "worker"))
    except StoppedWaiting:
        return
    ledger = KvLedger(connection, Subjects(settings.broker.prefix), settings.ledger.retention_s)
    try:
        await run_worker(
            settings, app, connection, ledger, RealWorld(), stop, renewal=renewal_of(settings)
        )
    finally:
        await connection.close()


def renewal_of(settings: Settings) -> Renewal:
    """Return what keeps a worker's leases up: a thread, with a connection of its own."""

    @asynccontextmanager
    async def connected() -> AsyncIterator[JetStream]:
        connection = await connect(settings.broker, login_for(settings.broker, "worker"), "worker")
        try:
            yield connection
        finally:
            await connection.close()

    return lambda leases: renew_in_thread(leases, connected)
