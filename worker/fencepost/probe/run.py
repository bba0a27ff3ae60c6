"""A whole probe: find out how the server is to be spoken to, ask it, and report."""

from collections.abc import Mapping
from typing import Any

import msgspec

from fencepost.bridge.doors import PlainDoor, door_for
from fencepost.bridge.mcp import McpDoor
from fencepost.errors import Unreachable, UsageError
from fencepost.ports import Transport, World
from fencepost.probe.asking import Asking, Say, refusal
from fencepost.probe.bounds import BoundedTransport, Bounds
from fencepost.probe.questions import ask_in_session, ask_plain
from fencepost.settings import Source
from fencepost_policies.dialects.mcp import WITHOUT_RESUMPTION
from fencepost_policies.dialects.mcp import Dialect as Mcp
from fencepost_policies.probe.answers import speaks_mcp
from fencepost_policies.probe.ids import scrambled
from fencepost_policies.probe.report import Report, Target, report_on
from fencepost_schemas.event import KeyScope


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a person asked for. `mcp` is how to speak to an MCP endpoint; None finds out.

    `access` are fields of a source by which it is reached, such as `headers_env` and `tls_ca`.
    """

    name: str
    url: str
    mcp: Mcp | None = None
    access: Mapping[str, Any] = {}
    bounds: Bounds = Bounds()


async def probe(wanted: Wanted, transport: Transport, world: World, say: Say) -> Report:
    """Ask the server and return what it comes to.

    Raises Unreachable where there is no server or none that speaks to us, UsageError where the url
    or a header cannot be used.
    """
    bounded = BoundedTransport(transport, wanted.bounds)
    if wanted.mcp is None:
        report = await _probe_plain(wanted, bounded, world, say)
        if report is not None:
            return report
        say("it answers like an MCP endpoint")
    told = wanted.mcp or Mcp()
    try:
        return await _probe_mcp(wanted, told, bounded, world, say)
    except Unreachable as error:
        refused = "answered initialize" in str(error) or "refused a request" in str(error)
        if not refused or not told.resumable:
            raise
    say(f"it makes no session; asking as MCP {WITHOUT_RESUMPTION}")
    stateless = msgspec.structs.replace(told, protocol=WITHOUT_RESUMPTION, call=None)
    return await _probe_mcp(wanted, stateless, bounded, world, say)


async def _probe_plain(
    wanted: Wanted, transport: BoundedTransport, world: World, say: Say
) -> Report | None:
    """Return the report, None where this is an MCP endpoint."""
    source = _source(wanted)
    door = door_for(wanted.name, source, transport, world)
    assert isinstance(door, PlainDoor)
    asking = Asking(door, source.speech, transport, world, wanted.bounds, say)
    try:
        listening = await asking.listen()
        first = listening.answer()
        if not first.streams:
            await listening.until(lambda answer: bool(answer.said), 1.0)
            first = listening.answer()
        if speaks_mcp(first):
            return None
        if first.status != 200:
            raise Unreachable(f"the server {refusal(first)}")
        if first.streams:
            await ask_plain(asking, listening)
        return _report(wanted, None, asking, transport, world)
    finally:
        await asking.close()


async def _probe_mcp(
    wanted: Wanted, told: Mcp, transport: BoundedTransport, world: World, say: Say
) -> Report:
    source = _source(wanted, dialect="mcp", mcp=told)
    door, stranger = (door_for(wanted.name, source, transport, world) for _ in range(2))
    asking = Asking(door, told, transport, world, wanted.bounds, say)
    try:
        listening = await asking.listen()
        if isinstance(stranger, McpDoor):
            stranger.session = scrambled(door.session, world.random_name(12))
        if listening.answer().streams:
            await ask_in_session(asking, listening, stranger)
        return _report(wanted, told, asking, transport, world)
    finally:
        await asking.close()


def _report(
    wanted: Wanted, mcp: Mcp | None, asking: Asking, transport: BoundedTransport, world: World
) -> Report:
    target = Target(name=wanted.name, url=wanted.url, mcp=mcp, access=wanted.access)
    return report_on(
        target,
        asking.answers(),
        asking.not_asked,
        salt=world.random_name(12),
        waited_s=wanted.bounds.wait_s,
        requests=transport.requests,
        took_s=transport.took_s,
    )


def _source(wanted: Wanted, **more: Any) -> Source:
    """Return the source that is asked; a redirect is reported, for it costs requests as well."""
    try:
        return Source(url=wanted.url, keys=KeyScope.NONE, redirects="none", **wanted.access, **more)
    except ValueError as error:
        raise UsageError(str(error)) from None
