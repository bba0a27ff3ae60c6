"""A fault that nobody foresaw, in a user's dialect or our own: it stops its source and no other."""

from collections.abc import Sequence
from typing import Any, NoReturn

import pytest

from fencepost.bridge.faults import stack_of, told_of
from fencepost.broker.embedded import EmbeddedBroker
from fencepost_policies.dialects.described import Dialect as Described
from fencepost_policies.dialects.places import Reading
from fencepost_policies.dialects.plain import Dialect as Plain
from fencepost_policies.lineage import ordinal_of
from fencepost_policies.overlap import Ask
from fencepost_schemas.sse import Frame
from kit.house import House, house
from kit.source import End, ScriptedSource, sse, stream
from kit.wait import until

SECRET = "s3cret"


class Broken(Described, frozen=True):
    """A user's own dialect with a slip in one of its functions."""

    slip: str = ""

    def reading(self, ask: Ask | None) -> Reading:
        return self

    def read(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        return frames

    def __getattribute__(self, name: str) -> Any:
        if name == object.__getattribute__(self, "slip"):
            return trip
        return object.__getattribute__(self, name)


def trip(*given: object, **named: object) -> NoReturn:
    raise KeyError(SECRET)


def source_at(url: str, **more: Any) -> dict[str, Any]:
    return {"url": url, "keys": "durable", "key": "/k", **more}


async def _stopped(home: House, name: str) -> bool:
    return name in (await home.roster()).stops


@pytest.mark.parametrize(
    "slip", ["asks", "hearing", "reading", "read", "counts", "replayed", "ends", "type_of"]
)
async def test_a_dialect_that_raises_stops_its_source_and_no_other(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture, slip: str
) -> None:
    """It is told by its place and without what was read; its neighbour is followed on."""
    async with (
        ScriptedSource(stream(sse(("1", '{"k":"a"}')), end=End.HANG)) as wrong,
        ScriptedSource(stream(sse(("1", '{"k":"b"}')), end=End.HANG)) as right,
        house(
            broker,
            {
                "wrong": source_at(wrong.url, dialect="broken", spoken=Broken(slip=slip)),
                "right": source_at(right.url),
            },
            dialects={},
        ) as home,
    ):
        await home.init()
        async with home.bridge(shares=True) as running:
            await until(lambda: _stopped(home, "wrong"), "the source to be stopped")
            await until(lambda: _published(home, "right"), "the other one's event")
            assert not running.done()
        told = (await home.roster()).stops["wrong"].reason
    assert told.startswith("wrong: its dialect raised KeyError in ")
    assert told.endswith(": mend the dialect")
    assert "test_faults.py line" in told
    assert SECRET not in told + caplog.text


async def _published(home: House, source: str) -> bool:
    return bool(await home.events(source))


@pytest.mark.parametrize("dialect", [Plain(), Broken()], ids=["shipped", "a-user's"])
def test_a_fault_that_passed_through_no_dialect_is_not_laid_on_one(dialect: object) -> None:
    """Whoever reads it sees the place: their own code beside the dialect, or ours."""
    with pytest.raises(ValueError) as caught:
        ordinal_of(SECRET)
    # This file is the user's here, and the call in it no part of what a bridge does.
    assert caught.tb.tb_next is not None
    told = told_of(caught.value.with_traceback(caught.tb.tb_next), dialect)
    assert told.startswith("ValueError was raised in ordinal_of, ")
    assert told.endswith(", or report it")
    assert SECRET not in told


def test_a_fault_in_a_file_whose_name_is_not_utf_8_is_told() -> None:
    """It goes into the roster, which is stored."""
    scope: dict[str, Any] = {}
    exec(compile("def slip(): raise KeyError('x')", "/apps/caf\udce9.py", "exec"), scope)
    with pytest.raises(KeyError) as caught:
        scope["slip"]()
    for told in (told_of(caught.value, Plain()), stack_of(caught.value)):
        assert "caf\\udce9.py" in told
        told.encode()
