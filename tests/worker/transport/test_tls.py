"""TLS with certificates made here: whom we trust, what we show, and what a wrong file says."""

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest

from fencepost.errors import UsageError
from fencepost.ports import SourceUnreachable
from fencepost.transport.tls import tls_of
from kit.certificates import Authority
from kit.source import Reply, ScriptedSource, sse, stream
from kit.ways import read, source_at, way_to

TWO = sse(("1", "{}"), ("2", "{}"))
URL = "https://127.0.0.1:9/events"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


async def test_an_authority_of_ones_own(authority: Authority) -> None:
    """A certificate that it signed for this address is trusted."""
    speaks = authority.server("127.0.0.1")
    async with (
        ScriptedSource(stream(TWO), tls=speaks) as source,
        way_to(source.url, tls_ca=str(authority.ca)) as way,
    ):
        assert (200, TWO) == await read(way, source.url)


async def test_a_name_is_checked_though_an_address_is_connected_to(authority: Authority) -> None:
    """The certificate is the name's, and the request says the name; another name's is refused."""
    async with ScriptedSource(stream(TWO), tls=authority.server("localhost")) as source:
        url = source.url.replace("127.0.0.1", "localhost")
        async with way_to(url, tls_ca=str(authority.ca)) as way:
            assert (200, TWO) == await read(way, url)
        assert url.split("/")[2] == source.requests[0].headers["host"]
        async with way_to(source.url, tls_ca=str(authority.ca)) as way:
            with pytest.raises(SourceUnreachable, match="a certificate that is not trusted"):
                await read(way, source.url)


async def test_nobody_else_is_trusted(authority: Authority, tmp_path: Path) -> None:
    """Not where another authority is configured, and not where none is."""
    other = Authority(tmp_path, "other")
    async with ScriptedSource(stream(TWO), tls=authority.server("127.0.0.1")) as source:
        nobody: dict[str, Any] = {}
        for fields in ({"tls_ca": str(other.ca)}, nobody):
            async with way_to(source.url, **fields) as way:
                with pytest.raises(SourceUnreachable, match="not trusted: check its name, and tls"):
                    await read(way, source.url)
        assert [] == source.requests


async def test_a_certificate_of_ones_own(authority: Authority) -> None:
    """A source that wants one gets it; without it the connection fails with one clear line."""
    cert, key = authority.sign("bridge")
    fields: dict[str, Any] = {
        "tls_ca": str(authority.ca),
        "tls_cert": str(cert),
        "tls_key": str(key),
    }
    wants = authority.server("127.0.0.1", wants_client=True)
    async with ScriptedSource(stream(TWO), tls=wants) as source:
        async with way_to(source.url, **fields) as way:
            assert (200, TWO) == await read(way, source.url)
        del fields["tls_cert"], fields["tls_key"]
        async with way_to(source.url, **fields) as way:
            with pytest.raises(SourceUnreachable, match="broke"):
                await read(way, source.url)
        assert 1 == len(source.requests)


async def test_another_origin_is_not_shown_the_certificate(
    authority: Authority, tmp_path: Path
) -> None:
    """Nor is it trusted for an authority that was configured for the first one."""
    cert, key = authority.sign("bridge")
    fields: dict[str, Any] = {
        "tls_ca": str(authority.ca),
        "tls_cert": str(cert),
        "tls_key": str(key),
    }
    async with ScriptedSource(stream(TWO), tls=authority.server("127.0.0.1")) as other:
        moved = Reply(status=307, headers={"location": other.url})
        async with (
            ScriptedSource(moved, tls=authority.server("127.0.0.1")) as source,
            way_to(source.url, redirects="any", allow_private=True, **fields) as way,
        ):
            with pytest.raises(SourceUnreachable, match="not trusted"):
                await read(way, source.url)
        assert 1 == len(source.requests)


class _Plain(ScriptedSource):
    """Says at once, without TLS, that it was not asked properly."""

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        writer.close()


async def test_plain_http_behind_https() -> None:
    """It is said what to look at."""
    async with _Plain() as source:
        url = source.url.replace("http://", "https://")
        async with way_to(url) as way:
            with pytest.raises(SourceUnreachable, match="broke off the TLS handshake"):
                await read(way, url)


def test_files_that_are_wrong(authority: Authority, tmp_path: Path) -> None:
    """One line with the setting and the file, before anything is connected to."""
    cert, key = authority.sign("bridge")
    other_key = authority.sign("other")[1]
    locked = authority.sign("locked", b"pw")
    bad = tmp_path / "bad.pem"
    bad.write_text("s3cret\n")
    wrong: list[tuple[dict[str, str], str]] = [
        ({"tls_ca": str(tmp_path / "none.pem")}, "tls_ca: .*none.pem: there is no such file"),
        ({"tls_ca": str(bad)}, "tls_ca: .*bad.pem: not PEM"),
        ({"tls_ca": str(tmp_path)}, "tls_ca: .*: (cannot be read|not PEM)"),
        ({"tls_cert": str(tmp_path / "none.pem")}, "tls_cert: .*none.pem: there is no such file"),
        ({"tls_cert": str(cert)}, "tls_cert: .*bridge.pem: not PEM"),
        ({"tls_cert": str(cert), "tls_key": str(bad)}, "tls_cert: .* with .*bad.pem: not PEM"),
        ({"tls_cert": str(cert), "tls_key": str(other_key)}, "the key is not the certificate's"),
        ({"tls_cert": str(locked[0]), "tls_key": str(locked[1])}, "a key with a password"),
    ]
    for fields, said in wrong:
        with pytest.raises(UsageError, match=rf"^sources\.orders\..*{said}") as failed:
            tls_of("orders", source_at(URL, **fields))
        assert "\n" not in str(failed.value)
        assert "s3cret" not in str(failed.value)
    right = source_at(URL, tls_ca=str(authority.ca), tls_cert=str(cert), tls_key=str(key))
    assert isinstance(tls_of("orders", right), ssl.SSLContext)
    assert None is tls_of("orders", source_at(URL))
