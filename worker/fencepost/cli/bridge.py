"""`fencepost bridge`: follow the sources and republish what was judged."""

import asyncio
import gc
from typing import Annotated

import typer

from fencepost.bridge.run import run_bridge
from fencepost.broker.jetstream import connect
from fencepost.cli.loading import with_app_dialects
from fencepost.cli.options import ConfigOption, QuietOption, ServerOption, settings_from
from fencepost.cli.output import log_to_stderr
from fencepost.cli.processes import cancelled_by, run_until_signal
from fencepost.cli.tracing import set_up_tracing
from fencepost.clock import RealWorld
from fencepost.errors import UsageError
from fencepost.patience import Patience, StoppedWaiting
from fencepost.settings import Settings
from fencepost.settings_file import login_for, source_headers
from fencepost.transport.http import HttpTransport
from fencepost.transport.tls import tls_of


def bridge(
    sources: Annotated[
        list[str] | None,
        typer.Argument(help="Follow only these. Default: all, those of the broker too"),
    ] = None,
    config: ConfigOption = None,
    server: ServerOption = None,
    quiet: QuietOption = False,
) -> None:
    """Follow sources: judge every connection, and publish its events under their generation.

    Run as many as you like with the same configuration: each source is followed by one of them.
    """
    log_to_stderr(quiet=quiet)
    settings = with_app_dialects(settings_from(config, server))
    chosen = sources or list(settings.sources)
    unknown = [name for name in chosen if name not in settings.sources]
    if unknown:
        raise UsageError(f"there is no source {', '.join(unknown)} in the configuration")
    for name in chosen:
        # A variable that is not set, or a wrong file, is found out before anything is connected to.
        source_headers(name, settings.sources[name])
        tls_of(name, settings.sources[name])
    set_up_tracing("bridge")
    # What was loaded stays for good: the collector need not go through it again and again.
    gc.freeze()
    run_until_signal(lambda stop: _bridge(settings, chosen, stop, only_these=bool(sources)))


async def _bridge(
    settings: Settings, chosen: list[str], stop: asyncio.Event, *, only_these: bool
) -> None:
    sources = {name: settings.sources[name] for name in chosen}
    login = login_for(settings.broker, "bridge")
    patience = Patience(RealWorld(), settings.broker.start_wait_s, stop)
    try:
        connection = await patience.wait_out(lambda: connect(settings.broker, login, "bridge"))
    except StoppedWaiting:
        return
    transport = HttpTransport(settings.bridge)
    try:
        running = run_bridge(
            settings, sources, connection, transport, RealWorld(), only_these=only_these
        )
        await cancelled_by(stop, running)
    finally:
        await transport.close()
        await connection.close()
