"""Where a source may be: an address inside a network needs a word from whoever configures it.

A url that names a host tells nothing of where it leads: whoever answers for the name may point it
at the cloud's metadata, or at an administration page that trusts its own network.
"""

from enum import StrEnum
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address


class Place(StrEnum):
    """What an address leads to."""

    PUBLIC = "public"
    INSIDE = "inside"
    """This machine, or a private network."""
    ODD = "odd"
    """Where nobody serves events: link-local, metadata, unspecified, multicast, reserved."""


METADATA = frozenset({"169.254.169.254", "fd00:ec2::254", "100.100.100.200", "168.63.129.16"})
_SHARED = IPv4Address("100.64.0.0"), IPv4Address("100.127.255.255")
_TRANSLATED = IPv6Network("64:ff9b::/96")


def place_of(address: str) -> Place:
    """Return what a numeric address leads to; raise ValueError for anything else."""
    found = _within(ip_address(address))
    if str(found).split("%")[0] in METADATA:
        return Place.ODD
    if found.is_link_local or found.is_unspecified or found.is_multicast:
        return Place.ODD
    if found.is_loopback:
        return Place.INSIDE
    if found.is_reserved or (isinstance(found, IPv6Address) and found.is_site_local):
        return Place.ODD
    shared = isinstance(found, IPv4Address) and _SHARED[0] <= found <= _SHARED[1]
    return Place.INSIDE if found.is_private or shared else Place.PUBLIC


def written_down(host: str) -> bool:
    """Return True where a url's host says by itself that it is an address, or this machine."""
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        name = host.lower().rstrip(".")
        return name == "localhost" or name.endswith(".localhost")
    return True


def may_connect(address: str, *, written: bool, allow_private: bool) -> bool:
    """Return True where a source may be connected to at this address.

    `written` says that the configured url itself holds the address, or `localhost`: whoever wrote
    it down meant it. A name that merely leads inside is refused, as is a redirect to there.
    """
    place = place_of(address)
    return place is Place.PUBLIC or allow_private or (written and place is Place.INSIDE)


def _within(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the older address that a newer one only wraps, for that is where it leads."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in _TRANSLATED:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address
