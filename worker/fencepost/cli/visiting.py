"""Ask the broker one thing under a role's login, and leave."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from fencepost.broker.jetstream import JetStream, connect
from fencepost.cli.processes import run
from fencepost.settings import Role, Settings
from fencepost.settings_file import login_for

T = TypeVar("T")


def ask_under(settings: Settings, role: Role, ask: Callable[[JetStream], Awaitable[T]]) -> T:
    """Return what `ask` finds.

    What rows, cursors and bridges lean on is written under init's login, which nobody who stays
    has; the desk's reads.
    """

    async def visit() -> T:
        connection = await connect(settings.broker, login_for(settings.broker, role), role)
        try:
            return await ask(connection)
        finally:
            await connection.close()

    return run(visit())
