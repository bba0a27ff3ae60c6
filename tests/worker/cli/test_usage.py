"""What is wrong with a command line, a file or an app: one line, what to do, and code 2."""

import socket
from pathlib import Path

import pytest

from kit.command import configure, run_command

NOWHERE = "nats://127.0.0.1:9"
SOURCE = {"orders": {"url": "http://127.0.0.1:9/x", "keys": "durable", "key": "/k"}}
APP = "from fencepost import Fencepost\napp = Fencepost('shop')\n"
HANDLER = "@app.on('task')\nasync def charge(task: dict[str, str]) -> None: ...\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nope"], "No such command 'nope'"),
        (["bridge", "--nope"], "No such option: --nope"),
        (["dev", "--port", "65536"], "'--port'"),
        (["questions", "answer"], "Missing argument 'question'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
async def test_a_command_line_that_is_wrong(
    tmp_path: Path, arguments: list[str], expected: str
) -> None:
    """One line, with where to find help; no box and no traceback."""
    ran = await run_command(*arguments, folder=tmp_path)
    assert 2 == ran.code
    assert expected in ran.complaint
    assert ran.complaint.endswith("--help`")
    assert 1 == len(ran.err.splitlines())


@pytest.mark.parametrize("arguments", [[], ["questions"]])
async def test_a_command_without_its_command(tmp_path: Path, arguments: list[str]) -> None:
    """It prints help, and is usage all the same."""
    ran = await run_command(*arguments, folder=tmp_path)
    assert 2 == ran.code
    assert "Usage" in ran.out + ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[broker\n", "fencepost.toml: not TOML: "),
        ("[brocker]\n", "fencepost.toml: Object contains unknown field `brocker`"),
        (
            "[pool]\nlease_s = 90\n",
            "fencepost.toml: pool: lease_s < ack_wait_s must hold",
        ),
        ('[sources.orders]\nurl = "x"\nkeys = "none"\n', "fencepost.toml: sources.orders: url "),
    ],
    ids=["no TOML", "unknown field", "durations out of order", "bad value"],
)
async def test_a_configuration_that_is_wrong(tmp_path: Path, text: str, expected: str) -> None:
    """Found before anything is connected to: there is no broker here."""
    (tmp_path / "fencepost.toml").write_text(text, "utf-8")
    ran = await run_command("bridge", "--server", NOWHERE, folder=tmp_path)
    assert 2 == ran.code
    assert ran.complaint.startswith(expected)


async def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """One that was named must be there."""
    ran = await run_command("init", "--config", "other.toml", folder=tmp_path)
    expected = "other.toml: there is no such file; name one with --config"
    assert (2, expected) == (ran.code, ran.complaint)


async def test_variables_that_are_not_set(tmp_path: Path) -> None:
    """A password and a header that the environment should hold: field and variable are named."""
    configure(tmp_path, NOWHERE, SOURCE, broker={"password_env": "SHOP_PW"})
    ran = await run_command("bridge", folder=tmp_path)
    expected = "broker.password_env: the variable SHOP_PW is not set"
    assert (2, expected) == (ran.code, ran.complaint)
    headed = {"orders": {**SOURCE["orders"], "headers_env": {"Authorization": "SHOP_TOKEN"}}}
    configure(tmp_path, NOWHERE, headed)
    ran = await run_command("bridge", folder=tmp_path)
    assert 2 == ran.code
    assert "sources.orders.headers_env: the variable SHOP_TOKEN for Authorization" in ran.complaint
    asked = {"orders": {**SOURCE["orders"], "credentials": {"env": "SHOP_TOKEN"}}}
    configure(tmp_path, NOWHERE, asked)
    ran = await run_command("bridge", folder=tmp_path)
    expected = "sources.orders.credentials: the variable SHOP_TOKEN is not set"
    assert (2, expected) == (ran.code, ran.complaint)


async def test_a_certificate_file_that_is_not_there(tmp_path: Path) -> None:
    """Found before anything is connected to, in one line."""
    fields = {"url": "https://127.0.0.1:9/x", "tls_ca": "ca.pem"}
    configure(tmp_path, NOWHERE, {"orders": {**SOURCE["orders"], **fields}})
    ran = await run_command("bridge", folder=tmp_path)
    assert (2, "sources.orders.tls_ca: ca.pem: there is no such file") == (ran.code, ran.complaint)


async def test_an_app_that_is_wrong(tmp_path: Path) -> None:
    """Found before anything is connected to; `test_loading` has every way to be wrong."""
    configure(tmp_path, NOWHERE, SOURCE)
    ran = await run_command("worker", folder=tmp_path)
    assert 2 == ran.code
    assert ran.complaint.startswith("there is no app: add app =")
    (tmp_path / "shop.py").write_text("1/0\n", "utf-8")
    ran = await run_command("worker", "--app", "shop:app", folder=tmp_path)
    expected = "app shop: importing it failed: ZeroDivisionError: division by zero"
    assert (2, expected) == (ran.code, ran.complaint)


async def test_dev_without_a_source(tmp_path: Path) -> None:
    """There would be nothing to do."""
    ran = await run_command("dev", folder=tmp_path)
    assert (2, "there is no source: add [sources.NAME] to fencepost.toml") == (
        ran.code,
        ran.complaint,
    )


async def test_dev_on_a_port_that_is_taken(tmp_path: Path) -> None:
    """The port is named, and what to do; nothing is left running."""
    (tmp_path / "shop.py").write_text(APP + HANDLER, "utf-8")
    configure(tmp_path, NOWHERE, SOURCE, app="shop:app")
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        ran = await run_command("dev", "--port", str(port), folder=tmp_path)
    assert 1 == ran.code
    assert f"port {port} on 127.0.0.1 cannot be used" in ran.complaint
    assert "--port" in ran.complaint


async def test_dev_on_a_folder_that_is_a_file(tmp_path: Path) -> None:
    """The data cannot go there."""
    (tmp_path / "shop.py").write_text(APP + HANDLER, "utf-8")
    configure(tmp_path, NOWHERE, SOURCE, app="shop:app")
    ran = await run_command("dev", "--port", "0", "--data", "shop.py", folder=tmp_path)
    assert 1 == ran.code
    assert "the folder shop.py cannot be used for the broker's data" in ran.complaint


async def test_an_exporter_that_is_none(tmp_path: Path) -> None:
    """The variable is OpenTelemetry's; a word that we do not know is told."""
    configure(tmp_path, NOWHERE, SOURCE)
    more = {"OTEL_TRACES_EXPORTER": "jaeger"}
    ran = await run_command("bridge", folder=tmp_path, more=more)
    expected = "OTEL_TRACES_EXPORTER=jaeger: use none, console or otlp"
    assert (2, expected) == (ran.code, ran.complaint)


async def test_version(tmp_path: Path) -> None:
    """Tab-separated in a pipe, one document with --json."""
    plain = await run_command("version", folder=tmp_path)
    assert (0, "") == (plain.code, plain.err)
    assert plain.out.startswith("part\tversion\nfencepost\t")
    document = await run_command("version", "--json", folder=tmp_path)
    assert (0, 1) == (document.code, len(document.out.splitlines()))
    assert document.out.startswith('{"fencepost":')
