"""Who plays in an act: the kind of server, its naive client, and how fencepost is told of it."""

import msgspec

from fencepost.demo.source import FLOOR_HEADER, GENERATION_HEADER

SOURCE = "tasks"
KEYS = ('keys = "durable"',)
HASTY = ("[bridge]", "retry_first_s = 0.2")


class Cast(msgspec.Struct, frozen=True):
    """`source` and `naive` are modules; `path` is what follows the host in a client's url.

    `settings` are the lines of the configuration behind the url.
    """

    source: str
    naive: str
    path: str
    settings: tuple[str, ...]

    def config(self, url: str) -> str:
        lines = [f"[sources.{SOURCE}]", f'url = "{url}"', *self.settings, *HASTY]
        return "\n".join(lines) + "\n"


def _plain(*signals: str) -> Cast:
    """Return the cast of a plain source; a signal that it does not give is not configured."""
    return Cast(
        source="fencepost.demo.source",
        naive="fencepost.demo.naive",
        path="/events/{client}",
        settings=(
            *KEYS,
            'key = "/idempotency_key"',
            f"[sources.{SOURCE}.plain]",
            'scheme = "integer"',
            *signals,
        ),
    )


SILENT = _plain()
HONEST = _plain(f'generation_header = "{GENERATION_HEADER}"', f'window_header = "{FLOOR_HEADER}"')
MCP = Cast(
    source="fencepost.demo.mcp_source",
    naive="fencepost.demo.naive_mcp",
    path="/{client}/mcp",
    settings=(
        *KEYS,
        'key = "/params/data/idempotency_key"',
        'dialect = "mcp"',
        f"[sources.{SOURCE}.mcp]",
        'requests = [{method = "tools/call", params = {name = "follow", arguments = {}}}]',
    ),
)
