"""What people wish of sources: one record a source, and nobody undoes another's unseen."""

from collections.abc import Sequence
from typing import Any, cast

import msgspec
import pytest

from fencepost.broker.embedded import EmbeddedBroker
from fencepost.desk.adoption import Pins
from fencepost.desk.intentions import REBASELINER, TRIES_MAX, Intentions
from fencepost.desk.sweep import Keeper
from fencepost.errors import NotFine, UsageError
from fencepost.ports import Message, NotStored, Stored
from fencepost_schemas.subject import LEDGER, SOURCES
from kit.house import House, house
from kit.log import LogSource
from kit.orders import orders, see
from kit.rows import audit
from kit.wait import until

SOURCE = orders("http://127.0.0.1:9/x")
TABLE: dict[str, Any] = {"url": "http://127.0.0.1:9/x", "keys": "none"}


def desk(home: House, connection: Any = None) -> Intentions:
    keeper = cast(Keeper, connection) if connection is not None else home.connection
    return Intentions(keeper, home.subjects, frozenset(home.settings.sources))


class Meanwhile:
    """A connection on which somebody else is faster: `before` each store of a subject."""

    def __init__(
        self, home: House, subject: str, before: Sequence[Message], times: int = 1
    ) -> None:
        self._inner = home.connection
        self._subject = subject
        self._before = before
        self._times = times
        self.struck = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def store(self, message: Message) -> Stored | NotStored:
        if message.subject == self._subject and self.struck < self._times:
            self.struck += 1
            for other in self._before:
                await self._inner.store(other)
        return await self._inner.store(message)


async def test_two_people_at_once(broker: EmbeddedBroker) -> None:
    """The second one is told, and what the first wished stands."""
    async with house(broker, SOURCE) as home:
        await home.init()
        subject = home.subjects.intention("orders")
        other = await desk(home).pause("orders", "ada")
        again = Message(subject, msgspec.json.encode(other))
        with pytest.raises(NotFine, match="orders was changed by somebody else just now"):
            await desk(home, Meanwhile(home, subject, [again])).resume("orders", "bo")
        assert (await desk(home).of("orders")).paused
        assert ["ada"] == [entry.actor for entry in await audit(home)]


async def test_a_rebaseline_while_a_bridge_writes(broker: EmbeddedBroker) -> None:
    """It is tried again on the cursor that stands then, and gives up on one that never rests."""
    async with house(broker, SOURCE) as home:
        await home.init()
        moved = msgspec.structs.replace(await home.cursor(), owner="bridge-a", fresh=False)
        subject = home.subjects.cursor("orders")
        busy = [Message(subject, msgspec.json.encode(moved))]
        after = await desk(home, Meanwhile(home, subject, busy)).rebaseline(
            "orders", "7", "ada", "why"
        )
        cursor = await home.cursor()
        assert after == cursor
        assert (REBASELINER, True, True, "7") == (
            cursor.owner,
            cursor.fresh,
            cursor.rebaselined,
            cursor.start,
        )
        restless = Meanwhile(home, subject, busy, times=TRIES_MAX)
        with pytest.raises(NotFine, match="pause it, then try again"):
            await desk(home, restless).rebaseline("orders", "8", "ada", "why")
        assert TRIES_MAX == restless.struck
        assert "bridge-a" == (await home.cursor()).owner, "the other one's word stands"
        assert 1 == len(await audit(home))


async def test_what_cannot_be_read_is_left_alone(broker: EmbeddedBroker) -> None:
    """A record and a cursor of another release."""
    async with house(broker, SOURCE) as home:
        await home.init()
        await home.connection.store(Message(home.subjects.cursor("orders"), b'{"source":7}'))
        with pytest.raises(NotFine, match="this release cannot read it as Cursor"):
            await desk(home).rebaseline("orders", "now", "ada", "why")
        await home.connection.store(Message(home.subjects.intention("orders"), b"7"))
        for call in (desk(home).pause("orders", "ada"), desk(home).resume("orders", "ada")):
            with pytest.raises(NotFine, match="not an intention that this release knows"):
                await call
        assert [] == await audit(home)


async def test_names_and_actors(broker: EmbeddedBroker) -> None:
    """What is no name, what is in the file, what is nowhere, and who is nobody."""
    async with house(broker, SOURCE) as home:
        await home.init()
        with pytest.raises(UsageError, match="is not a name"):
            await desk(home).pause("a.b", "ada")
        with pytest.raises(UsageError, match="orders is in the configuration file"):
            await desk(home).add("orders", TABLE, "ada", replace=False)
        with pytest.raises(NotFine, match="there is no source crm"):
            await desk(home).resume("crm", "ada")
        with pytest.raises(UsageError, match="no name for who does this"):
            await desk(home).pause("orders", "\n")
        await desk(home).add("crm", TABLE, "ada", replace=False)
        with pytest.raises(NotFine, match="crm was added before: --replace changes it"):
            await desk(home).add("crm", TABLE, "ada", replace=False)
        assert TABLE == (await desk(home).of("crm")).table
        assert 1 == len(await home.connection.subjects(SOURCES, home.subjects.intentions()))


async def test_a_bridge_goes_on_after_an_adoption(broker: EmbeddedBroker) -> None:
    """Fenced by the desk, it begins anew from the cursor: nobody has to start it again."""
    async with LogSource() as source, house(broker, orders(source.url)) as home:
        await home.init()
        async with home.bridge(shares=True) as running:
            await source.add("a")
            await see(home, 1)
            await home.connection.api(f"STREAM.DELETE.{LEDGER}")
            await Pins(home.connection, home.subjects).adopt("another", "orders", "keep", "ada")
            await source.add("b")
            await see(home, 2)

            async def pinned() -> bool:
                cursor = await home.cursor()
                return cursor.ledger == "another" and cursor.owner.startswith("bridge-")

            await until(pinned, "the bridge to have the cursor again")
            assert not running.done()
        assert ["1", "2"] == [event.position for event in await home.events()]
