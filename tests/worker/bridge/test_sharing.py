"""Bridges that share sources on a real broker: in a crowd, through its death, with odd records."""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from fencepost.bridge.catalogue import Catalogue
from fencepost.bridge.ownership import Ownership
from fencepost.broker.embedded import EmbeddedBroker
from fencepost.broker.jetstream import connect
from fencepost.clock import RealWorld
from fencepost.errors import Denied, NotFine, UsageError
from fencepost.ports import Message
from fencepost.settings_file import login_for
from fencepost_policies.ownership import owner_of
from fencepost_schemas.roster import Intention, Roster
from fencepost_schemas.subject import SOURCES
from kit.house import House, house
from kit.log import LogSource
from kit.orders import TOKENS, orders, see
from kit.users import users
from kit.wait import until

SOURCE = "http://127.0.0.1:9/x"
TABLE: dict[str, Any] = {"url": SOURCE, "keys": "durable", "key": "/k", "plain": TOKENS}


async def wish(home: House, source: str, raw: bytes | None = None, **fields: Any) -> None:
    """Write what is wished of a source, as it comes."""
    intention = Intention(source=source, actor="ada", at_ms=0, **fields)
    payload = raw if raw is not None else msgspec.json.encode(intention)
    await home.connection.store(Message(home.subjects.intention(source), payload))


async def owners(home: House) -> dict[str, str]:
    found, now_ms = await home.roster(), await home.connection.clock_ms(SOURCES)
    return {source: owner_of(found, source, now_ms) for source in found.claims}


async def see_claims(home: House, *sources: str) -> None:
    async def there() -> bool:
        return set(sources) == set(await owners(home))

    await until(there, f"claims of {sources}")


async def test_a_crowd_that_looks_at_once(broker: EmbeddedBroker) -> None:
    """Twelve bridges write the one record: no claim is lost or held twice, and all have a part."""
    known = dict.fromkeys([f"s{number}" for number in range(36)], 0)
    async with house(broker, {}) as home:
        await home.init()
        settings, world = home.settings.bridge, RealWorld()
        crowd = {
            name: Ownership(home.connection, home.subjects, name, settings, world)
            for name in [f"bridge-{number}" for number in range(12)]
        }
        running: dict[str, frozenset[str]] = dict.fromkeys(crowd, frozenset())

        async def look(name: str) -> None:
            running[name] = await crowd[name].look(known, running[name], {})
            claimed = Counter(source for own in running.values() for source in own)
            assert set(claimed.values()) <= {1}

        for _ in range(4):
            await asyncio.gather(*(look(name) for name in crowd))
        assert Counter(dict.fromkeys(crowd, 3)) == Counter((await owners(home)).values())
        await asyncio.gather(*(one.leave() for one in crowd.values()))
        assert Roster() == await home.roster()


async def test_a_lease_that_is_not_renewed_ends(broker: EmbeddedBroker) -> None:
    """By the broker's clock: until then nobody else has the source, and from then on another."""
    async with house(broker, {}, bridge={"lease_s": 1.0, "renew_s": 0.2}) as home:
        await home.init()
        settings, world = home.settings.bridge, RealWorld()
        silent, other = (
            Ownership(home.connection, home.subjects, name, settings, world)
            for name in ("bridge-a", "bridge-b")
        )
        assert {"orders"} == await silent.look({"orders": 0}, frozenset(), {})
        until_ms = (await home.roster()).members["bridge-a"].lease_until_ms

        async def taken() -> bool:
            before_ms = await home.connection.clock_ms(SOURCES)
            ours = await other.look({"orders": 0}, frozenset(), {})
            after_ms = await home.connection.clock_ms(SOURCES)
            assert ours or before_ms < until_ms, "its lease was over"
            assert not ours or after_ms >= until_ms, "its lease was not over"
            return bool(ours)

        await until(taken, "the other one to have it")
        assert frozenset() == await silent.look({"orders": 0}, frozenset({"orders"}), {})


async def test_a_broker_that_is_away_for_longer_than_a_lease(broker: EmbeddedBroker) -> None:
    """Nobody can say who lives meanwhile; when it is back each source has one bridge again."""
    async with LogSource() as first, LogSource() as second:
        both = {**orders(first.url), "crm": orders(second.url)["orders"]}
        async with house(broker, both, broker={"reply_s": 1.0}) as home:
            await home.init()
            async with home.bridge(shares=True) as one, home.bridge(shares=True) as other:

                async def divided() -> bool:
                    return 2 == len(set((await owners(home)).values()) - {""})

                await until(divided, "a source each")
                await first.add("a")
                await second.add("a")
                await see_keys(home, "a")
                await broker.kill()
                await asyncio.sleep(2 * home.settings.bridge.lease_s)
                await broker.start()
                await first.add("b")
                await second.add("b")
                await see_keys(home, "a", "b")
                await until(divided, "a source each, again")
                assert not one.done() and not other.done()
                await first.add("c")
                await second.add("c")
                await see_keys(home, "a", "b", "c")


async def see_keys(home: House, *keys: str) -> None:
    """Return once both sources have brought these and nothing else, in this order."""

    async def there() -> bool:
        found = [
            [json.loads(event.payload)["k"] for event in await home.events(source)]
            for source in ("orders", "crm")
        ]
        return [list(keys)] * 2 == found

    await until(there, f"{keys} of both")


@pytest.mark.parametrize(
    ("raw", "fields", "said"),
    [
        (b"garbage", {}, "JSON is malformed"),
        (b'{"source":7}', {}, "Expected `str`"),
        (None, {"table": {**TABLE, "headers": {"A": "b"}}}, "sources.crm.headers is not kept"),
        (None, {"table": {**TABLE, "url": SOURCE + "?a=b"}}, "a query string or a login"),
        (
            None,
            {"table": {**TABLE, "headers_env": {"A": "FENCEPOST_SOURCE_NOT_SET"}}},
            "the variable FENCEPOST_SOURCE_NOT_SET for A is not set",
        ),
    ],
    ids=["garbage", "another shape", "a secret", "a query string", "a variable"],
)
async def test_a_record_that_cannot_be_followed(
    broker: EmbeddedBroker,
    caplog: pytest.LogCaptureFixture,
    raw: bytes | None,
    fields: Mapping[str, Any],
    said: str,
) -> None:
    """However it came there: the bridge says so, once, does not offer it, and follows the rest."""
    async with LogSource() as source, house(broker, orders(source.url)) as home:
        await home.init()
        async with home.bridge(shares=True) as running:
            await see_claims(home, "orders")
            await wish(home, "crm", raw, **fields)
            await until(lambda: said in caplog.text, "the complaint")
            await source.add("a")
            await see(home, 1)
            assert {"orders"} == set(await owners(home))
            assert not running.done()
        assert 1 == caplog.text.count("crm: not followed by this bridge")


async def test_what_the_file_says_counts(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """A source of the same name on the broker is another matter; a pause of it is not."""
    async with LogSource() as source, house(broker, orders(source.url)) as home:
        await home.init()
        await wish(home, "orders", table={**TABLE, "url": "http://127.0.0.1:9/elsewhere"})
        # Nobody's here: in the file of other bridges, if in any.
        await wish(home, "other", paused=True)
        async with home.bridge(shares=True):
            await source.add("a")
            await see(home, 1)
            assert "what the file says counts" in caplog.text
            await wish(home, "orders", paused=True)
            await see_claims(home)
            await wish(home, "orders")
            await see_claims(home, "orders")


async def test_a_bridge_of_some_sources_takes_no_others(broker: EmbeddedBroker) -> None:
    """What is wished of its own counts; what is added on the broker does not concern it."""
    async with house(broker, orders(SOURCE)) as home:
        await home.init()
        await wish(home, "crm", table=TABLE)
        settings = home.settings
        for only_these, expected in ((True, {"orders"}), (False, {"orders", "crm"})):
            catalogue = Catalogue(
                home.connection, home.subjects, settings, settings.sources, only_these=only_these
            )
            await catalogue.refresh()
            assert expected == set(catalogue.followable)
            await wish(home, "orders", paused=True)
            await catalogue.refresh()
            assert (expected - {"orders"}, {"orders"}) == (
                set(catalogue.followable),
                catalogue.paused,
            )
            await wish(home, "orders")


async def test_a_change_is_followed_at_once(broker: EmbeddedBroker) -> None:
    """The new place is asked with the cursor that the old one left; the old one is left alone."""
    async with LogSource() as old, LogSource() as new, house(broker, {}) as home:
        await home.init()
        one = orders(old.url)
        async with house(broker, one) as beginning:
            await beginning.init()
        await wish(home, "orders", table={**TABLE, "url": old.url})
        async with home.bridge(shares=True):
            await old.add("a")
            await see(home, 1)
            await wish(home, "orders", table={**TABLE, "url": new.url})
            await new.asked_times(1)
            await new.add("a", "b")
            await see(home, 2)
        assert (["1"], 1) == ([one.asked for one in new.requests], len(old.requests))
        assert ["genesis", "resumed"] == await home.verdicts()


async def test_nothing_to_follow(broker: EmbeddedBroker) -> None:
    """Neither in the file nor on the broker, it is a matter of usage; begun nowhere, not fine."""
    async with house(broker, {}) as home:
        await home.init()
        async with home.bridge(shares=True) as running:
            await asyncio.wait([running], timeout=20)
            assert isinstance(running.exception(), UsageError)
        await wish(home, "crm", table=TABLE)
        async with home.bridge(shares=True) as running:
            await asyncio.wait([running], timeout=20)
            ended = running.exception()
            assert isinstance(ended, NotFine)
            assert "crm: not begun yet: run `fencepost init` once" == str(ended)
        assert {} == (await home.roster()).members, "whatever ended it, it has left"


async def test_a_bridge_without_the_right_to_the_roster(broker: EmbeddedBroker) -> None:
    """Subject and login are named; it does not follow without."""
    async with house(broker, orders(SOURCE)) as home:
        await home.init()
    config = users(publish={"deny": ["fp.roster"]})
    await broker.stop()
    login = {"user": "role", "password": "pw"}
    async with (
        EmbeddedBroker(broker.store, extra=config) as strict,
        house(strict, orders(SOURCE), broker=login) as home,
        home.bridge(shares=True) as running,
    ):
        await asyncio.wait([running], timeout=20)
        ended = running.exception()
        assert isinstance(ended, Denied)
        assert "does not let the bridge login publish to fp.roster" in str(ended)


async def test_leaving_without_a_broker_does_not_take_long(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """It says that the others will have to wait."""
    caplog.set_level(logging.INFO, "fencepost")
    async with house(broker, orders(SOURCE), broker={"reply_s": 30.0}) as home:
        await home.init()
        settings = home.settings
        connection = await connect(settings.broker, login_for(settings.broker, "bridge"), "bridge")
        one = Ownership(connection, home.subjects, "bridge-a", settings.bridge, RealWorld())
        await one.look({"orders": 0}, frozenset(), {})
        await broker.kill()
        async with asyncio.timeout(10.0):
            await one.leave()
        assert "the other bridges will wait for the end of our lease" in caplog.text
        await connection.close()
