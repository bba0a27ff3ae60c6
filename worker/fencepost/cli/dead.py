"""`fencepost dead`: the events that could not be applied, and why."""

from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer

from fencepost.broker.jetstream import connect
from fencepost.cli.asking import ActorOption, YesOption, actor_of, confirm, progress
from fencepost.cli.described import LETTER_COLUMNS, described_letter, letter_cells
from fencepost.cli.options import ConfigOption, JsonOption, ServerOption, settings_from
from fencepost.cli.output import plain, print_json, print_table
from fencepost.cli.processes import run
from fencepost.desk.graves import Graves
from fencepost.settings import Settings
from fencepost.settings_file import login_for
from fencepost_schemas.subject import Subjects

T = TypeVar("T")
SequenceArgument = Annotated[int, typer.Argument(min=1, help="The letter's number, as ls gives it")]

dead = typer.Typer(
    no_args_is_help=True, help="List, show, replay and drop events that cannot be applied."
)


@dead.command("ls")
def ls(
    handler: Annotated[str | None, typer.Option(help="Only of this handler")] = None,
    reason: Annotated[str, typer.Option(help="Only with this text in the reason")] = "",
    limit: Annotated[int, typer.Option(min=1, help="How many at most")] = 50,
    after: Annotated[int, typer.Option(min=0, help="Behind this number, for the next page")] = 0,
    config: ConfigOption = None,
    server: ServerOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the dead letters, oldest first."""
    settings = settings_from(config, server)
    with progress("reading the dead letters") as told:
        page = _at_the_graves(
            settings,
            lambda graves: graves.page(
                handler=handler, reason=reason, limit=limit, after=after, told=told
            ),
        )
    if as_json:
        print_json(page)
        return
    if not page.letters:
        typer.echo("no dead letter")
        return
    print_table(LETTER_COLUMNS, [letter_cells(letter) for letter in page.letters])
    if page.next is not None:
        typer.echo(f"there are more: --after {page.next}", err=True)


@dead.command("show")
def show(
    letter: SequenceArgument,
    config: ConfigOption = None,
    server: ServerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one dead letter: why it is there, its row, its headers and its bytes as data."""
    report = _at_the_graves(settings_from(config, server), lambda graves: graves.report(letter))
    if as_json:
        print_json(report)
        return
    for line in described_letter(report):
        typer.echo(plain(line))


@dead.command("replay")
def replay(
    letter: SequenceArgument,
    actor: ActorOption = None,
    yes: YesOption = False,
    config: ConfigOption = None,
    server: ServerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have one dead letter tried once more, as one more attempt of its row."""
    name = actor_of(actor)
    settings = settings_from(config, server)
    found = _at_the_graves(settings, lambda graves: graves.letter(letter))
    meaning = f"dead letter {letter} of {found.handler} ({found.reason}) is tried once more"
    confirm([plain(meaning)], yes=yes)
    answer = _at_the_graves(settings, lambda graves: graves.replay(found, name))
    if as_json:
        print_json(answer)
    else:
        typer.echo(
            f"dead letter {letter} is tried once more, by {name}; see `fencepost questions show "
            f"{answer.question}`, and drop the letter once it has gone well"
        )


@dead.command("drop")
def drop(
    letter: SequenceArgument,
    actor: ActorOption = None,
    yes: YesOption = False,
    config: ConfigOption = None,
    server: ServerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove one dead letter for good. Its ledger row stays as it is."""
    name = actor_of(actor)
    settings = settings_from(config, server)
    found = _at_the_graves(settings, lambda graves: graves.letter(letter))
    meaning = f"dead letter {letter} of {found.handler} ({found.reason}) is removed for good"
    confirm([plain(meaning)], yes=yes)
    _at_the_graves(settings, lambda graves: graves.drop(found, name))
    if as_json:
        print_json({"dropped": letter, "handler": found.handler, "actor": name})
    else:
        typer.echo(f"dead letter {letter} is dropped, by {name}; its ledger row stays as it is")


def _at_the_graves(settings: Settings, ask: Callable[[Graves], Awaitable[T]]) -> T:
    async def visit() -> T:
        connection = await connect(settings.broker, login_for(settings.broker, "desk"), "desk")
        try:
            return await ask(Graves(connection, Subjects(settings.broker.prefix)))
        finally:
            await connection.close()

    return run(visit())
