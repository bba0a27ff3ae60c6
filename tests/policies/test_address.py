"""Proves which addresses a source may be at, and that none hides inside another."""

import pytest

from fencepost_policies.address import Place, may_connect, place_of, written_down

PLACES = {
    Place.PUBLIC: ["93.184.216.34", "2606:2800:220:1::1", "64:ff9b::5db8:d822", "2002:5db8:d822::"],
    Place.INSIDE: [
        "127.0.0.1",
        "127.8.8.8",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "::1",
        "fd12:3456::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::a00:1",
        "2002:a00:1::",
    ],
    Place.ODD: [
        "169.254.169.254",
        "169.254.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::",
        "fd00:ec2::254",
        "100.100.100.200",
        "168.63.129.16",
        "fe80::1",
        "fe80::1%2",
        "fec0::1",
        "0.0.0.0",
        "::",
        "::7f00:1",
        "224.0.0.1",
        "239.1.1.1",
        "ff02::1",
        "240.0.0.1",
        "255.255.255.255",
    ],
}


@pytest.mark.parametrize(
    ("address", "place"), [(one, place) for place, them in PLACES.items() for one in them]
)
def test_where_an_address_leads(address: str, place: Place) -> None:
    """A wrapped address is where the one within it is."""
    assert place is place_of(address)


@pytest.mark.parametrize(
    "text", ["localhost", "127.1", "0x7f.0.0.1", "2130706433", "", "1.2.3.4:80"]
)
def test_what_is_no_address(text: str) -> None:
    """Only what was resolved is looked at; short spellings are names, and resolved first."""
    with pytest.raises(ValueError):
        place_of(text)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("LOCALHOST.", True),
        ("crm.localhost", True),
        ("localhost.evil.example", False),
        ("notlocalhost", False),
        ("127.1", False),
        ("crm.internal", False),
    ],
)
def test_what_a_url_writes_down(host: str, expected: bool) -> None:
    """An address, or this machine by its name; any other name may lead anywhere."""
    assert expected is written_down(host)


@pytest.mark.parametrize(
    ("address", "written", "allow_private", "expected"),
    [
        ("93.184.216.34", False, False, True),
        ("127.0.0.1", True, False, True),
        ("127.0.0.1", False, False, False),
        ("127.0.0.1", False, True, True),
        ("169.254.169.254", True, False, False),
        ("169.254.169.254", False, False, False),
        ("169.254.169.254", False, True, True),
    ],
)
def test_who_may_be_connected_to(
    address: str, written: bool, allow_private: bool, expected: bool
) -> None:
    """Written down is meant, but for what nobody means; allowed is allowed."""
    assert expected is may_connect(address, written=written, allow_private=allow_private)
