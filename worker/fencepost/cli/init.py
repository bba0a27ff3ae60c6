"""`fencepost init`: make the streams and the ledger's identity, and begin the sources. Once."""

from typing import Annotated

import msgspec
import typer

from fencepost.bridge.genesis import begin, checked_start
from fencepost.bridge.shelf import Shelf
from fencepost.broker.jetstream import connect
from fencepost.broker.topology import ensure_streams
from fencepost.cli.options import ConfigOption, JsonOption, ServerOption, settings_from
from fencepost.cli.output import print_json, print_table
from fencepost.cli.processes import run
from fencepost.clock import RealWorld, random_name, wall_ms
from fencepost.errors import UsageError
from fencepost.ledgers.kv import ensure_identity
from fencepost.pool.identity import check_identity
from fencepost.settings import Settings
from fencepost.settings_file import login_for
from fencepost_schemas.subject import Subjects


class InitReport(msgspec.Struct, frozen=True):
    ledger: str
    streams_made: list[str]
    streams_mended: list[str]
    begun: list[str]
    begun_before: list[str]


def init(
    sources: Annotated[
        list[str] | None, typer.Argument(help="Sources to begin. Default: all of the configuration")
    ] = None,
    start: Annotated[
        str, typer.Option("--from", help="Where to begin: now, earliest, or an event's id")
    ] = "now",
    config: ConfigOption = None,
    server: ServerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make the broker's streams, the ledger's identity, and begin sources. Safe to repeat."""
    settings = settings_from(config, server)
    report = run(initialise(settings, sources or list(settings.sources), start))
    if as_json:
        print_json(report)
        return
    rows = [["ledger", report.ledger]]
    rows += [["stream", f"{name} made"] for name in report.streams_made]
    rows += [["mended", drift] for drift in report.streams_mended]
    rows += [["source", f"{name} begins {start}"] for name in report.begun]
    rows += [
        ["source", f"{name} was begun before; nothing changed"] for name in report.begun_before
    ]
    print_table(["what", "is"], rows)


async def initialise(settings: Settings, sources: list[str], start: str) -> InitReport:
    """Do what `fencepost init` does, and return what was done."""
    unknown = [name for name in sources if name not in settings.sources]
    if unknown:
        raise UsageError(
            f"there is no source {', '.join(unknown)} in the configuration; it has "
            f"{', '.join(settings.sources) or 'none'}"
        )
    checked_start(start)
    subjects = Subjects(settings.broker.prefix)
    connection = await connect(settings.broker, login_for(settings.broker, "init"), "init")
    try:
        streams = await ensure_streams(connection, settings.broker)
        ledger = await ensure_identity(connection, subjects, random_name(16), wall_ms())
        await check_identity(connection, subjects, ledger)
        shelf = Shelf(connection, subjects)
        begun = {name: await begin(shelf, name, start, ledger, RealWorld()) for name in sources}
    finally:
        await connection.close()
    return InitReport(
        ledger=ledger,
        streams_made=streams.made,
        streams_mended=[str(drift) for drift in streams.mended],
        begun=[name for name, new in begun.items() if new],
        begun_before=[name for name, new in begun.items() if not new],
    )
