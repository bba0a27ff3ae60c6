"""`fencepost ledger`: what is known of each event, and what to do after a loss."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
import typer

from fencepost.broker.jetstream import JetStream
from fencepost.cli.asking import ActorOption, YesOption, actor_of, confirm, progress
from fencepost.cli.copying import STDOUT, checked_copy, put_back, write_copy
from fencepost.cli.described import ROW_COLUMNS, described_row, row_cells
from fencepost.cli.options import ConfigOption, JsonOption, ServerOption, settings_from
from fencepost.cli.output import plain, print_json, print_table
from fencepost.cli.visiting import ask_under
from fencepost.clock import iso_time
from fencepost.desk.adoption import Adoption, Choice, Pinned, Pins
from fencepost.desk.copies import Imported
from fencepost.desk.rows import PAUSED, UNREADABLE, LedgerCount, Rows
from fencepost.errors import UsageError
from fencepost.ledgers.kv import read_identity
from fencepost.settings import Role, Settings
from fencepost_schemas.row import State
from fencepost_schemas.subject import Subjects

T = TypeVar("T")
RowArgument = Annotated[
    list[str], typer.Argument(metavar="HANDLER NAMESPACE KEY | ROW", help="Names the row")
]


class LedgerStats(msgspec.Struct, frozen=True):
    """The ledger's identity, which one each source is pinned to, and the rows, counted."""

    identity: str | None
    pinned: dict[str, str]
    counted: LedgerCount


ledger = typer.Typer(no_args_is_help=True, help="Look at the ledger, and mend it after a loss.")


@ledger.command("ls")
def ls(
    handler: Annotated[str | None, typer.Option(help="Only of this handler")] = None,
    namespace: Annotated[str | None, typer.Option(help="Only of this namespace")] = None,
    state: Annotated[list[str] | None, typer.Option(help="Only in this state; repeat it")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most")] = 50,
    after: Annotated[int, typer.Option(min=0, help="Behind this number, for the next page")] = 0,
    config: ConfigOption = None,
    server: ServerOption = None,
    as_json: JsonOption = False,
) -> None:
    """List rows, the one that changed longest ago first."""
    states = _checked_states(state or [])
    settings = settings_from(config, server)
    with progress("reading the ledger") as told:
        page = _at_the_ledger(
            settings,
            lambda rows: rows.page(
                handler=handler,
                namespace=namespace,
                states=states,
                limit=limit,
                after=after,
                told=told,
            ),
        )
    if as_json:
        print_json(page)
        return
    if not page.rows:
        typer.echo("no row")
        return
    print_table(ROW_COLUMNS, [row_cells(entry) for entry in page.rows])
    if page.next is not None:
        typer.echo(f"there are more: --after {page.next}", err=True)


@ledger.command("get")
def get(
    row: RowArgument,
    config: ConfigOption = None,
    server: ServerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one row with every field, and what is recorded beside it."""
    settings = settings_from(config, server)
    with progress("looking for conflicts") as told:
        report = _at_the_ledger(settings, lambda rows: rows.report(*row, told=told))
    if as_json:
        print_json(report)
        return
    for line in described_row(report):
        typer.echo(plain(line))


@ledger.command("stats")
def stats(
    config: ConfigOption = None, server: ServerOption = None, as_json: JsonOption = False
) -> None:
    """Count the rows, and show what has been open for longest and what is pinned to the ledger."""
    settings = settings_from(config, server)
    subjects = Subjects(settings.broker.prefix)
    with progress("counting the ledger") as told:

        async def look(connection: JetStream) -> LedgerStats:
            rows, pins = Rows(connection, subjects), Pins(connection, subjects)
            return LedgerStats(
                identity=await read_identity(connection, subjects),
                pinned={one.source: one.ledger for one in await pins.all()},
                counted=await rows.count(told),
            )

        found = ask_under(settings, "desk", look)
    if as_json:
        print_json(found)
    else:
        _print_stats(found)


@ledger.command("release")
def release(
    row: RowArgument,
    actor: ActorOption = None,
    yes: YesOption = False,
    config: ConfigOption = None,
    server: ServerOption = None,
    as_json: JsonOption = False,
) -> None:
    """End the lease of a row now, because its worker is known to be dead."""
    name = actor_of(actor)
    settings = settings_from(config, server)
    entry = _at_the_ledger(settings, lambda rows: rows.releasable(*row), "init")
    assert entry.row is not None
    held = entry.row
    meaning = [
        f"{held.handler} {held.namespace} {held.key}: {held.state}, attempt {held.attempt}",
        f"its lease of {held.owner} ends now instead of at {iso_time(held.lease_until_ms)}",
        "if that worker lives, its handler may still have its effect after another began",
    ]
    confirm([plain(line) for line in meaning], yes=yes)
    released = _at_the_ledger(settings, lambda rows: rows.release(entry, name), "init")
    if as_json:
        print_json({"subject": entry.subject, "row": released, "actor": name})
        return
    until = iso_time(released.quarantine_until_ms)
    typer.echo(f"{entry.subject}: released by {name}; its quarantine stays until {until}")
    typer.echo("a worker takes it up when the broker delivers its event again (pool.ack_wait_s)")


@ledger.command("adopt")
def adopt(
    actor: ActorOption = None,
    standing: Annotated[
        str, typer.Option(help="doubt: ask about what comes; keep: nothing was forgotten")
    ] = "doubt",
    yes: YesOption = False,
    config: ConfigOption = None,
    server: ServerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Go on with a ledger that is not the one that the sources were begun with."""
    name = actor_of(actor)
    choice = _checked_choice(standing)
    settings = settings_from(config, server)
    subjects = Subjects(settings.broker.prefix)

    async def look(connection: JetStream) -> Adoption:
        identity = await read_identity(connection, subjects)
        return await Pins(connection, subjects).adoption(identity)

    adoption = ask_under(settings, "init", look)
    if not adoption.differing:
        if as_json:
            print_json({"identity": adoption.identity, "adopted": []})
        else:
            typer.echo(f"every source is pinned to {adoption.identity}: there is nothing to adopt")
        return
    confirm(_meaning_of(adoption, choice), yes=yes)

    async def carry_out(connection: JetStream) -> list[Pinned]:
        pins = Pins(connection, subjects)
        return [
            await pins.adopt(adoption.identity, one.source, choice, name)
            for one in adoption.differing
        ]

    adopted = ask_under(settings, "init", carry_out)
    if as_json:
        print_json({"identity": adoption.identity, "adopted": adopted, "actor": name})
        return
    names = ", ".join(one.source for one in adoption.differing)
    typer.echo(f"{names}: pinned to {adoption.identity} by {name}; start the workers again")


def _meaning_of(adoption: Adoption, choice: Choice) -> list[str]:
    lines = [f"this ledger is {adoption.identity}; pinned to another one:"]
    lines += [
        f"  {one.source}: to {one.ledger}, {one.generation} is {one.standing}; "
        f"written last by {one.owner}"
        for one in adoption.differing
    ]
    lines.append(
        "a bridge of these sources that runs is refused at its next write, and begins anew"
    )
    if choice == "keep":
        lines.append("standing is kept: what this ledger does not know counts as never applied")
    else:
        lines.append(
            "what comes from now on is in doubt, and asked about before anything of it is applied"
        )
    for one in adoption.unsettled:
        lines.append(
            f"{one.consumer}: {one.events} events that were published before are not settled; they "
            "keep their standing, and are applied where this ledger does not know them"
        )
    return [plain(line) for line in lines]


@ledger.command("export")
def export(
    file: Annotated[str, typer.Argument(help="Where to, or - for stdout")],
    config: ConfigOption = None,
    server: ServerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy the whole ledger as lines of JSON. Stop the workers before."""
    settings = settings_from(config, server)
    with progress("copying the ledger") as told:
        rows = ask_under(settings, "desk", lambda one: write_copy(one, file, told))
    if file == STDOUT:
        return
    if as_json:
        print_json({"file": file, "rows": rows})
    else:
        typer.echo(f"{rows} rows are in {file}")


@ledger.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="A copy that export wrote")],
    actor: ActorOption = None,
    config: ConfigOption = None,
    server: ServerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put a copy back: rows that are absent are inserted, and none that stands is touched."""
    name = actor_of(actor)
    settings = settings_from(config, server)
    checked = checked_copy(file, Subjects(settings.broker.prefix))
    with progress("putting the copy back") as told:
        done = ask_under(settings, "init", lambda one: put_back(one, checked, file, name, told))
    if as_json:
        print_json(done)
    else:
        _print_imported(done)


def _print_imported(done: Imported) -> None:
    typer.echo(
        f"{done.rows} rows in the copy: {done.inserted} inserted, {done.stood} stood as they are, "
        f"{done.differing} stand differently and were left alone"
    )
    for line in done.differing_rows:
        typer.echo(f"  {plain(line)}")
    if done.differing > len(done.differing_rows):
        typer.echo(f"  and {done.differing - len(done.differing_rows)} more")
    typer.echo(f"the ledger is {done.identity}")
    if done.moved:
        typer.echo(
            f"{', '.join(done.moved)} went on after the copy was taken, so what was applied since "
            "is not in it: the ledger has a name of its own, and workers refuse it until "
            "`fencepost ledger adopt`"
        )


def _print_stats(found: LedgerStats) -> None:
    typer.echo(f"ledger {found.identity or '(none: run `fencepost init`)'}")
    for source, identity in found.pinned.items():
        same = "pinned to it" if identity == found.identity else f"pinned to another: {identity}"
        typer.echo(f"source {plain(source)}: {plain(same)}")
    counted = found.counted
    typer.echo(f"rows {counted.rows}")
    if counted.counts:
        rows = [
            [handler, state, str(count)]
            for handler, states in counted.counts.items()
            for state, count in states.items()
        ]
        print_table(["handler", "state", "rows"], rows)
    if counted.paused:
        typer.echo("waiting because their handler is paused (`fencepost questions show QUESTION`)")
        waiting = [[one.question, one.handler, str(one.rows)] for one in counted.paused]
        print_table(["question", "handler", "rows"], waiting)
    if counted.oldest_open:
        typer.echo("open for longest")
        print_table(ROW_COLUMNS, [row_cells(entry) for entry in counted.oldest_open])


def _checked_states(states: list[str]) -> tuple[str, ...]:
    known = [*(state.value for state in State), PAUSED, UNREADABLE]
    wrong = [state for state in states if state not in known]
    if wrong:
        raise UsageError(f"--state {wrong[0]!r} is none: use {', '.join(known)}")
    return tuple(states)


def _checked_choice(text: str) -> Choice:
    if text == "keep":
        return "keep"
    if text == "doubt":
        return "doubt"
    raise UsageError(f"--standing {text!r}: use doubt or keep")


def _at_the_ledger(
    settings: Settings, ask: Callable[[Rows], Awaitable[T]], role: Role = "desk"
) -> T:
    subjects = Subjects(settings.broker.prefix)
    return ask_under(settings, role, lambda connection: ask(Rows(connection, subjects)))
