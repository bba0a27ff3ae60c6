"""Proves where a redirect is followed to, and when what is configured stays behind."""

import pytest

from fencepost_policies.redirect import Hop, Rule, next_hop

HERE = Hop("GET", "https://crm.example/events?token=s3cret")
POST = Hop("POST", "https://crm.example/mcp")


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("/v2/events", "https://crm.example/v2/events"),
        ("other?x=1", "https://crm.example/other?x=1"),
        ("?x=1", "https://crm.example/events?x=1"),
        ("https://crm.example/v2#part", "https://crm.example/v2"),
        ("https://CRM.example:443/v2", "https://crm.example/v2"),
        ("https://somebody:pw@crm.example/v2", "https://crm.example/v2"),
    ],
)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_the_same_origin_is_followed(status: int, location: str, url: str) -> None:
    """Port, case and fragment make no other origin; the login of a Location is nobody's."""
    assert Hop("GET", url) == next_hop(HERE, status, location, "same-origin")


def test_the_login_of_our_own_url_stays_with_its_origin() -> None:
    """It is sent again to its origin, and to no other."""
    here = Hop("GET", "https://ada:pw@crm.example/a")
    own = next_hop(here, 307, "https://crm.example/b", "any")
    assert Hop("GET", "https://ada:pw@crm.example/b") == own
    other = next_hop(here, 307, "https://eve:x@other.example/b", "any")
    assert Hop("GET", "https://other.example/b", own=False) == other


@pytest.mark.parametrize(
    "location",
    [
        "https://other.example/events",
        "https://crm.example:8443/events",
        "//other.example/events",
        "https://crm.example.evil.example/",
        "https://crm.example@evil.example/",
    ],
)
def test_another_origin_only_where_it_is_allowed(location: str) -> None:
    """Then it is not our own, and nothing that is configured goes there."""
    assert None is next_hop(HERE, 307, location, "same-origin")
    hop = next_hop(HERE, 307, location, "any")
    assert hop is not None
    assert not hop.own


def test_whoever_leaves_does_not_come_back() -> None:
    """It was another server that sent us home, and may have chosen what we ask there."""
    away = next_hop(HERE, 307, "https://other.example/", "any")
    assert away is not None
    back = next_hop(away, 307, "https://crm.example/admin", "any")
    assert Hop("GET", "https://crm.example/admin", own=False) == back


@pytest.mark.parametrize(
    ("location", "rule"),
    [
        ("", "any"),
        ("http://crm.example/events", "any"),
        ("ftp://crm.example/events", "any"),
        ("javascript:alert(1)", "any"),
        ("https://[::1/events", "any"),
        ("https://crm.example:99999/", "any"),
        ("https://crm.example:0/", "any"),
        ("https://crm.example/a b", "any"),
        ("https://crm.example/é", "any"),
        ("https://crm.example/\x01", "any"),
        ("/v2", "none"),
    ],
)
def test_what_is_not_followed(location: str, rule: Rule) -> None:
    """Nowhere, nothing usable, from https to http, or forbidden altogether."""
    assert None is next_hop(HERE, 302, location, rule)


@pytest.mark.parametrize("status", [200, 204, 300, 304, 305, 306, 401, 503])
def test_what_is_no_redirect(status: int) -> None:
    """Other answers are taken as they are, Location or not."""
    assert None is next_hop(HERE, status, "/v2", "any")


@pytest.mark.parametrize(
    ("status", "method"), [(301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")]
)
def test_only_two_redirects_send_a_body_again(status: int, method: str) -> None:
    """And never to another origin: a body may hold anything."""
    hop = next_hop(POST, status, "/mcp/", "same-origin")
    assert Hop(method, "https://crm.example/mcp/") == hop
    away = next_hop(POST, status, "https://other.example/mcp", "any")
    assert (away is None) is (method == "POST")
