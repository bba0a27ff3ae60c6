"""What may be said of a source on the broker: nothing secret, nothing to be run."""

from typing import Any

import pytest

from fencepost.errors import UsageError
from fencepost.intentions import checked_table
from fencepost.settings import Ledger, Settings

PLAIN: dict[str, Any] = {"url": "https://crm.example/events", "keys": "none"}


def test_what_may_be_kept() -> None:
    """All that says how a source speaks and what its keys are."""
    table = {
        **PLAIN,
        "keys": "durable",
        "key": "/id",
        "plain": {"scheme": "integer", "generation_header": "epoch"},
        "headers_env": {"Authorization": "FENCEPOST_SOURCE_CRM"},
        "namespace": "shared",
        "event_bytes_max": 2_000_000,
    }
    source = checked_table("crm", table, Settings())
    assert ("/id", "integer", "shared") == (source.key, source.plain.scheme, source.namespace)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"headers": {"Authorization": "s3cret"}}, "sources.crm.headers is not kept"),
        ({"unverifiable": "reconcile"}, "sources.crm.unverifiable is not kept"),
        ({"credentials": {"command": ["cat", "/etc/s3cret"]}}, "sources.crm.credentials is not"),
        ({"allow_private": True}, "sources.crm.allow_private is not kept"),
        ({"spoken": {}}, "sources.crm.spoken is not kept"),
        ({"tls_key": "/etc/s3cret"}, "sources.crm.tls_key is not kept"),
        ({"colour": "red"}, "sources.crm.colour is not kept"),
        ({"url": "https://crm.example/events?token=s3cret"}, "a query string or a login"),
        ({"url": "https://ada:s3cret@crm.example/"}, "a query string or a login"),
        ({"url": "https://s3cret@crm.example/"}, "a query string or a login"),
        ({"url": "https://crm.example/#s3cret"}, "a query string or a login"),
        ({"url": "file:///s3cret"}, "url must begin with http"),
        ({"url": 7}, "sources.crm: Expected `str`"),
        ({"keys": "all"}, "sources.crm: Invalid enum value"),
        ({"key": "/id"}, 'keys = "none" goes without a key'),
        ({"headers_env": {"A": "AWS_SECRET_ACCESS_KEY"}}, "must be named FENCEPOST_SOURCE_..."),
        ({"headers_env": {"A": "FENCEPOST_SOURCE_"}}, "must be named FENCEPOST_SOURCE_..."),
        ({"headers_env": {"A": "FENCEPOST_BROKER_PASSWORD"}}, "must be named FENCEPOST_SOURCE_"),
        ({"headers_env": {"a b": "FENCEPOST_SOURCE_X"}}, "'a b' is not the name of a header"),
    ],
)
def test_what_may_not_be_kept(more: dict[str, Any], said: str) -> None:
    """It is refused by the name of the field, and nothing of its value is said."""
    with pytest.raises(UsageError) as refused:
        checked_table("crm", {**PLAIN, **more}, Settings())
    assert said in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_its_dialect_is_found() -> None:
    """Of those that are shipped, and of those that the configuration describes; no other."""
    shop = Settings(dialects={"shop": {"like": "mercure"}})
    for dialect in ("mercure", "shop"):
        source = checked_table("crm", {**PLAIN, "dialect": dialect}, shop)
        assert source.speech_known
    with pytest.raises(UsageError, match=r"sources.crm.dialect: there is no dialect 'shop'"):
        checked_table("crm", {**PLAIN, "dialect": "shop"}, Settings())


def test_a_ledger_that_forgets_wants_to_know_how_late_a_key_comes_again() -> None:
    """As it does of the sources of a file."""
    forgetting = Settings(ledger=Ledger(retention_s=700_000))
    with pytest.raises(UsageError, match="reannounces_within_s must say"):
        checked_table("crm", PLAIN, forgetting)
    assert checked_table("crm", {**PLAIN, "reannounces_within_s": 60}, forgetting)
