"""Resolve a host and check where it leads; what is connected to is what was checked.

A client that resolves a name once more may be told another address the second time. So the caller
connects to the addresses that are returned here, and to no name.
"""

import asyncio
import socket
from ipaddress import ip_address

from fencepost.ports import SourceUnreachable
from fencepost_policies.address import may_connect

INSIDE = (
    "leads to an address inside a network: set allow_private = true in its configuration "
    "if that is meant"
)


async def addresses_of(host: str, port: int, *, written: bool, allow_private: bool) -> list[str]:
    """Return the addresses of a host that may be connected to, in the resolver's order.

    `written` says that the configured url itself holds the address. Raises SourceUnreachable where
    there is none, and where none of them may be connected to.
    """
    allowed = [
        address
        for address in await _resolve(host, port)
        if may_connect(address, written=written, allow_private=allow_private)
    ]
    if not allowed:
        raise SourceUnreachable(INSIDE)
    return allowed


async def _resolve(host: str, port: int) -> list[str]:
    try:
        return [str(ip_address(host))]
    except ValueError:
        pass
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise SourceUnreachable("has a name that cannot be resolved") from None
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
