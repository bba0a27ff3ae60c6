"""`fencepost questions`: what is asked, what it is about, and your answer."""

import getpass
import json
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer

from fencepost.broker.jetstream import connect
from fencepost.cli.options import ConfigOption, JsonOption, ServerOption, settings_from
from fencepost.cli.output import plain, print_json, print_table
from fencepost.cli.processes import run
from fencepost.clock import iso_time
from fencepost.desk.book import Book, Entry
from fencepost.errors import UsageError
from fencepost.settings import Settings
from fencepost.settings_file import login_for
from fencepost_schemas.question import Held, Ruling
from fencepost_schemas.subject import Subjects

T = TypeVar("T")
RULINGS = "; ".join(f"{ruling}: {ruling.meaning}" for ruling in Ruling)
PAYLOAD_CHARS_SHOWN = 2_000

questions = typer.Typer(no_args_is_help=True, help="List, show and answer questions.")


@questions.command("ls")
def ls(
    source: Annotated[str | None, typer.Option(help="Only of this source")] = None,
    answered: Annotated[bool, typer.Option("--all", help="Answered ones too")] = False,
    config: ConfigOption = None,
    server: ServerOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the open questions, oldest first."""
    settings = settings_from(config, server)
    if source is not None and settings.sources and source not in settings.sources:
        raise UsageError(f"there is no source {source!r} in the configuration")
    entries = _at_the_desk(settings, lambda book: book.entries(answered=answered, source=source))
    if as_json:
        print_json(entries)
        return
    if not entries:
        typer.echo("no open question" if not answered else "no question")
        return
    print_table(
        ["question", "source", "generation", "asked", "waiting", "answers"],
        [
            [
                entry.question.id,
                entry.question.source,
                entry.question.generation,
                iso_time(entry.question.asked_ms),
                str(entry.held),
                entry.answer.ruling if entry.answer else " ".join(entry.question.kind.rulings),
            ]
            for entry in entries
        ],
    )


@questions.command("show")
def show(
    question: Annotated[str, typer.Argument(help="The question's id")],
    config: ConfigOption = None,
    server: ServerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one question: its evidence, what may be missing, its event, and what may be answered."""
    entry = _at_the_desk(settings_from(config, server), lambda book: book.entry(question))
    if as_json:
        print_json(entry)
        return
    for line in _described(entry):
        typer.echo(plain(line))


@questions.command("answer")
def answer(
    question: Annotated[str, typer.Argument(help="The question's id")],
    ruling: Annotated[str, typer.Argument(help=RULINGS)],
    actor: Annotated[str | None, typer.Option("--as", help="Who answers. Default: you")] = None,
    note: Annotated[str, typer.Option(help="Why, for the audit")] = "",
    config: ConfigOption = None,
    server: ServerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer a question. The first answer stands; a second one is told who was first."""
    settings = settings_from(config, server)
    name = actor or _own_name()
    given = _at_the_desk(settings, lambda book: book.answer(question, ruling, name, note))
    if as_json:
        print_json(given)
    else:
        typer.echo(f"{given.question}: {given.ruling}, by {given.actor}. {given.ruling.meaning}")


def _own_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # As in a container that runs under a number without a name.
        raise UsageError("this system has no name for you: say who answers with --as") from None


def _at_the_desk(settings: Settings, ask: Callable[[Book], Awaitable[T]]) -> T:
    async def visit() -> T:
        connection = await connect(settings.broker, login_for(settings.broker, "desk"), "desk")
        try:
            return await ask(Book(connection, Subjects(settings.broker.prefix)))
        finally:
            await connection.close()

    return run(visit())


def _described(entry: Entry) -> list[str]:
    question = entry.question
    lines = [
        f"{question.id}  ({question.kind}, asked {iso_time(question.asked_ms)})",
        f"  {question.text}",
        f"  source {question.source}, generation {question.generation}, {question.standing}",
        f"  waiting under it: {entry.held}",
    ]
    for reason in question.reasons:
        lines.append(f"  because: {reason} ({reason.meaning})")
    for fact in question.facts:
        lines.append(
            f"  fact: {fact.witness} {fact.finding} {fact.facet}: {fact.reason}, "
            f"expected {fact.expected!r}, saw {fact.observed!r}"
        )
    if question.gap is not None:
        gap = question.gap
        lines.append(
            f"  may be missing: after {gap.after_generation} {gap.after_position or '(nothing)'}, "
            f"before {gap.before_generation} {gap.before_position or '(its first)'}"
        )
    if question.error:
        lines.append(f"  error: {question.error}")
    if question.event is not None:
        lines += _described_event(question.event)
    if entry.answer is not None:
        given = entry.answer
        note = f": {given.note}" if given.note else ""
        lines.append(f"  answered {given.ruling} by {given.actor} at {iso_time(given.at_ms)}{note}")
        return lines
    lines.append("  answers:")
    for ruling in question.kind.rulings:
        lines.append(f"    {ruling:<10} {ruling.meaning}")
    lines.append(f"  fencepost questions answer {question.id} ANSWER --note WHY")
    return lines


def _described_event(held: Held) -> list[str]:
    text = held.payload.decode("utf-8", "replace")
    shown = text if len(text) <= PAYLOAD_CHARS_SHOWN else text[:PAYLOAD_CHARS_SHOWN] + " ..."
    kind = held.headers.get("ce-type", "")
    return [f"  event {kind} at {held.headers.get('ce-position', '')}: {json.dumps(shown)}"]
