"""How a source's credentials are come by, where they may change while the bridge runs."""

import re

import msgspec

HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
OWN_HEADERS = ("accept", "accept-encoding", "cache-control", "host", "last-event-id")


def check_header_name(name: str) -> None:
    if not HEADER_NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of a header")
    if name.lower() in OWN_HEADERS:
        raise ValueError(f"the header {name} is fencepost's own to send")


class Credentials(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A token, from one of three places, and the header that it is sent in.

    `env` names an environment variable, `file` a file whose whole text it is, `command` a program
    and its arguments (no shell) that prints it. A file is read at each connection. What a command
    printed is used for `keep_s`, and not any more once the source has refused it.
    `scheme` goes before the token, with a space; "" sends the token as it is.
    """

    env: str = ""
    file: str = ""
    command: tuple[str, ...] = ()
    header: str = "Authorization"
    scheme: str = "Bearer"
    keep_s: float = 60.0
    command_s: float = 10.0

    def __post_init__(self) -> None:
        if sum(map(bool, (self.env, self.file, self.command))) != 1:
            raise ValueError("credentials come from one of env, file and command")
        check_header_name(self.header)
        if self.scheme and not HEADER_NAME.fullmatch(self.scheme):
            raise ValueError("credentials.scheme is one word, as in Bearer")
        if not all(self.command) or any("\0" in word for word in self.command):
            raise ValueError("credentials.command has an empty word, or one that no program takes")
        if "\0" in self.file:
            raise ValueError("credentials.file is no path")
        # Said this way round, a nan is refused too.
        if not 0 < self.command_s <= 60 or not 0 <= self.keep_s <= 24 * 3600:
            raise ValueError("credentials: 0 < command_s <= 60 and 0 <= keep_s <= 86400 must hold")
