"""`fencepost sources`: what there is, who follows it, and what became of its lineage."""

import tomllib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from fencepost.bridge.genesis import begin, checked_start
from fencepost.bridge.shelf import Shelf
from fencepost.broker.jetstream import JetStream
from fencepost.cli.asking import ActorOption, YesOption, actor_of, confirm
from fencepost.cli.described_sources import SOURCE_COLUMNS, described_source, source_cells
from fencepost.cli.options import ConfigOption, JsonOption, ServerOption, settings_from
from fencepost.cli.output import plain, print_json, print_table
from fencepost.cli.visiting import ask_under
from fencepost.clock import wall_ms
from fencepost.desk.intentions import Intentions
from fencepost.desk.lineages import Lineages
from fencepost.errors import NotFine, UsageError
from fencepost.intentions import checked_table
from fencepost.ledgers.kv import read_identity
from fencepost.settings import Settings
from fencepost_schemas.subject import BadSubject, Subjects, slug

T = TypeVar("T")
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The source's name")]
NoteOption = Annotated[str, typer.Option(help="Why, for the audit")]

sources = typer.Typer(
    no_args_is_help=True, help="List, show, add, pause, resume and rebaseline sources."
)


# --- looking
@sources.command("ls")
def ls(
    names: Annotated[list[str] | None, typer.Argument(help="Only these. Default: all")] = None,
    config: ConfigOption = None,
    server: ServerOption = None,
    as_json: JsonOption = False,
) -> int:
    """List sources: who follows each, where it stands, what may be missing.

    Ends with 1 where a source that was named is not followed, or is in doubt, and where any source
    has proven that events are gone since its last one.
    """
    settings = settings_from(config, server)
    entries = _at_the_desk(settings, lambda one: _lineages(settings, one).entries(names or ()))
    if as_json:
        print_json(entries)
    elif entries:
        now_ms = wall_ms()
        print_table(SOURCE_COLUMNS, [source_cells(entry, now_ms) for entry in entries])
    else:
        typer.echo("no source")
    lost = any(entry.loss is not None for entry in entries)
    return int(lost or (bool(names) and not all(entry.fine for entry in entries)))


@sources.command("show")
def show(
    name: NameArgument,
    limit: Annotated[int, typer.Option(min=1, help="How many generations, the newest")] = 20,
    config: ConfigOption = None,
    server: ServerOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show one source: its generations with seams, facts and gaps.

    Ends with 1 where it is not followed, or is in doubt.
    """
    settings = settings_from(config, server)
    (report,) = _at_the_desk(settings, lambda one: _lineages(settings, one).reports([name]))
    if as_json:
        print_json(report)
    else:
        print_table(["what", "is"], described_source(report, limit))
    return int(not report.entry.fine)


# --- changing
@sources.command("add")
def add(
    name: NameArgument,
    url: Annotated[str | None, typer.Option(help="Where it is; without anything secret")] = None,
    keys: Annotated[str | None, typer.Option(help="durable, generation or none")] = None,
    key: Annotated[str | None, typer.Option(help="JSON pointer to the key in the data")] = None,
    dialect: Annotated[str | None, typer.Option(help="How it speaks; the default is plain")] = None,
    header_env: Annotated[
        list[str] | None,
        typer.Option(help="HEADER=FENCEPOST_SOURCE_...: the variable that holds a header's value"),
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="A TOML file with [sources.NAME]; options go before it")
    ] = None,
    start: Annotated[
        str, typer.Option("--from", help="Where to begin: now, earliest, or an event's id")
    ] = "now",
    replace: Annotated[bool, typer.Option("--replace", help="Change one that was added")] = False,
    note: NoteOption = "",
    actor: ActorOption = None,
    config: ConfigOption = None,
    server: ServerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have the bridges follow one more source; they know of it within seconds."""
    who = actor_of(actor)
    settings = settings_from(config, server)
    checked_name(name)
    checked_start(start)
    table = _table_in(file, name) if file is not None else {}
    given = {"url": url, "keys": keys, "key": key, "dialect": dialect}
    table |= {field: value for field, value in given.items() if value is not None}
    if header_env:
        table["headers_env"] = {**table.get("headers_env", {}), **_headers_in(header_env)}
    checked_table(name, table, settings)

    async def carry_out(connection: JetStream) -> bool:
        intentions = _intentions(settings, connection)
        await intentions.check_addable(name, replace=replace)
        begun = await _begin(connection, settings, name, start)
        await intentions.add(name, table, who, note, replace=replace)
        return begun

    begun = ask_under(settings, "init", carry_out)
    done = "changed" if replace else "added"
    if as_json:
        print_json({"source": name, done: True, "begun": begun, "actor": who})
        return
    place = f"it begins {start}" if begun else "it goes on from its cursor"
    typer.echo(plain(f"{name}: {done} by {who}; {place}"))


@sources.command("pause")
def pause(
    name: NameArgument,
    note: NoteOption = "",
    actor: ActorOption = None,
    config: ConfigOption = None,
    server: ServerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have nobody follow a source until it is resumed; its cursor stays where it is."""
    who = actor_of(actor)
    settings = settings_from(config, server)
    done = ask_under(
        settings,
        "init",
        lambda one: _intentions(settings, one).pause(checked_name(name), who, note),
    )
    _tell(done, f"{name}: paused by {who}; bridges let it go within seconds", as_json=as_json)


@sources.command("resume")
def resume(
    name: NameArgument,
    note: NoteOption = "",
    actor: ActorOption = None,
    config: ConfigOption = None,
    server: ServerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have a source followed again that was paused, or that stopped by itself."""
    who = actor_of(actor)
    settings = settings_from(config, server)
    done = ask_under(
        settings,
        "init",
        lambda one: _intentions(settings, one).resume(checked_name(name), who, note),
    )
    _tell(done, f"{name}: resumed by {who}; a bridge takes it within seconds", as_json=as_json)


@sources.command("rebaseline")
def rebaseline(
    name: NameArgument,
    start: Annotated[
        str, typer.Option("--from", help="Where to go on: now, earliest, or an event's id")
    ],
    note: Annotated[str, typer.Option(help="Why, for the audit")],
    actor: ActorOption = None,
    yes: YesOption = False,
    config: ConfigOption = None,
    server: ServerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have a source go on from another place, in a generation of its own."""
    who = actor_of(actor)
    if not note.strip():
        raise UsageError("--note: say why, for whoever looks at the gap later")
    settings = settings_from(config, server)
    checked_name(name)
    checked_start(start)
    meaning = [
        f"{name} is asked from {start} next, whatever it was followed to",
        "what comes is reoriginated: keys decide what is applied, and what has none is asked about",
        "everything between what was reached and the first event that comes is in its gap",
    ]
    confirm([plain(line) for line in meaning], yes=yes)
    done = ask_under(
        settings,
        "init",
        lambda one: _intentions(settings, one).rebaseline(name, start, who, note),
    )
    if as_json:
        print_json({"source": name, "from": start, "left": done.generation, "actor": who})
        return
    typer.echo(plain(f"{name}: goes on from {start} with its next connection, by {who}"))


# --- inside
def checked_name(name: str) -> str:
    try:
        return slug(name)
    except BadSubject as error:
        raise UsageError(str(error)) from None


def _table_in(file: Path, name: str) -> dict[str, Any]:
    """Return [sources.NAME] of a TOML file; raise UsageError where it has none."""
    try:
        document = tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file}: not TOML: {error}") from None
    tables = document.get("sources")
    table = tables.get(name) if isinstance(tables, dict) else None
    if not isinstance(table, dict):
        raise UsageError(f"{file}: there is no [sources.{name}] in it")
    return table


def _headers_in(pairs: list[str]) -> dict[str, str]:
    headers = {}
    for pair in pairs:
        header, equals, variable = pair.partition("=")
        if not equals or not header or not variable:
            raise UsageError("--header-env: say HEADER=VARIABLE")
        headers[header] = variable
    return headers


async def _begin(connection: JetStream, settings: Settings, name: str, start: str) -> bool:
    subjects = Subjects(settings.broker.prefix)
    ledger = await read_identity(connection, subjects)
    if ledger is None:
        raise NotFine("the ledger has no identity: run `fencepost init`")
    return await begin(Shelf(connection, subjects), name, start, ledger)


def _tell(done: object, text: str, *, as_json: bool) -> None:
    if as_json:
        print_json(done)
    else:
        typer.echo(plain(text))


def _lineages(settings: Settings, connection: JetStream) -> Lineages:
    return Lineages(connection, Subjects(settings.broker.prefix), settings.sources)


def _intentions(settings: Settings, connection: JetStream) -> Intentions:
    configured = frozenset(settings.sources)
    return Intentions(connection, Subjects(settings.broker.prefix), configured)


def _at_the_desk(settings: Settings, ask: Callable[[JetStream], Awaitable[T]]) -> T:
    return ask_under(settings, "desk", ask)
