"""`fencepost probe`: could a break of this server's stream ever be proven?"""

import json
import os
from typing import Annotated, Any

import typer

from fencepost.cli.options import JsonOption
from fencepost.cli.output import print_json, print_lines
from fencepost.cli.probed import described_report
from fencepost.cli.processes import run
from fencepost.clock import RealWorld
from fencepost.errors import NotFine, UsageError
from fencepost.probe.bounds import Bounds
from fencepost.probe.run import Wanted
from fencepost.probe.run import probe as ask
from fencepost.settings import DURATION_S_MAX, Bridge
from fencepost.transport.http import HttpTransport
from fencepost_policies.dialects.mcp import Dialect as Mcp
from fencepost_policies.probe.report import Report
from fencepost_policies.probe.troubles import Trouble
from fencepost_schemas.subject import slug

BOUNDS = Bounds()
REQUESTS_MAX = 100
"""More than this is no look at a server but a load on it."""


HeaderOption = Annotated[
    list[str] | None,
    typer.Option("--header", help="NAME=VARIABLE: a header whose value is in the environment"),
]
PrivateOption = Annotated[
    bool, typer.Option("--allow-private", help="The host's name may lead inside a network")
]
CaOption = Annotated[
    str | None, typer.Option("--tls-ca", help="A PEM file with who vouches for the server")
]
WaitOption = Annotated[float, typer.Option(help="Seconds to wait for events before the break")]
RequestsOption = Annotated[int, typer.Option(min=1, max=REQUESTS_MAX, help="Requests at most")]
SecondsOption = Annotated[float, typer.Option(help="Seconds at most, all in all")]
NameOption = Annotated[str, typer.Option(help="The source's name in what to paste")]
McpOption = Annotated[bool, typer.Option("--mcp", help="It is an MCP endpoint. Default: see")]
McpRequestOption = Annotated[
    list[str] | None,
    typer.Option("--mcp-request", help="JSON of a request to send in the MCP session first"),
]
McpCallOption = Annotated[
    str | None,
    typer.Option("--mcp-call", help="JSON of the MCP request whose own stream is followed"),
]


def probe(
    url: Annotated[str, typer.Argument(help="The url of the event stream, or an MCP endpoint")],
    headers: HeaderOption = None,
    allow_private: PrivateOption = False,
    tls_ca: CaOption = None,
    wait: WaitOption = BOUNDS.wait_s,
    requests: RequestsOption = BOUNDS.requests,
    seconds: SecondsOption = BOUNDS.seconds,
    name: NameOption = "source",
    mcp: McpOption = False,
    mcp_requests: McpRequestOption = None,
    mcp_call: McpCallOption = None,
    as_json: JsonOption = False,
) -> None:
    """Resume a server's stream rightly and wrongly, and say what could be proven after a break.

    Nothing is published and no broker is needed. Exit code 1: a break could not be proven.
    """
    wanted = Wanted(
        name=_checked_name(name),
        url=url,
        mcp=_mcp(mcp, mcp_requests or [], mcp_call),
        access={
            "headers_env": _headers(headers or []),
            "allow_private": allow_private,
            "tls_ca": tls_ca,
        },
        bounds=_bounds(requests, seconds, wait),
    )
    report = run(_ask(wanted))
    if as_json:
        print_json(report)
    else:
        print_lines(described_report(report))
        typer.echo(report.toml, nl=False)
    if not report.provable:
        raise NotFine(f"a break could not be proven: {report.because}{_advice(report)}")


async def _ask(wanted: Wanted) -> Report:
    bounds = wanted.bounds
    bridge = Bridge(
        headers_s=bounds.seconds, stall_s=bounds.seconds, connects_burst=bounds.requests
    )
    transport = HttpTransport(bridge)
    try:
        return await ask(wanted, transport, RealWorld(), _say)
    finally:
        await transport.close()


def _say(text: str) -> None:
    """Report progress, away from the results."""
    typer.echo(text, err=True)


def _advice(report: Report) -> str:
    if Trouble.QUIET not in report.troubles:
        return ""
    if report.dialect == "mcp":
        return "; wait longer with --wait, or say with --mcp-request what it is to tell of"
    return "; wait longer with --wait, or cause one"


def _bounds(requests: int, seconds: float, wait: float) -> Bounds:
    for option, value in (("--seconds", seconds), ("--wait", wait)):
        # Said this way round, a nan is refused too.
        if not 0 < value <= DURATION_S_MAX:
            raise UsageError(f"{option} must be above 0 and at most {DURATION_S_MAX}")
    if wait > seconds:
        raise UsageError(f"--wait {wait:g} is longer than --seconds {seconds:g}: raise that, too")
    return Bounds(requests=requests, seconds=seconds, wait_s=wait)


def _checked_name(name: str) -> str:
    try:
        return slug(name)
    except ValueError as error:
        raise UsageError(f"--name: {error}") from None


def _headers(pairs: list[str]) -> dict[str, str]:
    """Return which variable holds each header; a value itself would be seen by all on a machine."""
    named = {}
    for pair in pairs:
        header, _, variable = pair.partition("=")
        if not header or not variable:
            raise UsageError("--header: write NAME=VARIABLE, the variable that holds its value")
        if variable not in os.environ:
            raise UsageError(f"--header {header}: the variable it names is not set")
        named[header] = variable
    return named


def _mcp(told: bool, requests: list[str], call: str | None) -> Mcp | None:
    if not told and not requests and call is None:
        return None
    try:
        return Mcp(
            requests=tuple(_request(one) for one in requests),
            call=_request(call) if call is not None else None,
        )
    except ValueError as error:
        raise UsageError(f"--mcp-request, --mcp-call: {error}") from None


def _request(text: str) -> dict[str, Any]:
    request = json.loads(text)
    if not isinstance(request, dict):
        raise ValueError('write a JSON object, as in \'{"method": "resources/subscribe"}\'')
    return request
