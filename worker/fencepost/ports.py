"""What the rooms need of the world, in a few methods each; adapters are chosen at the edge."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from fencepost_schemas.row import Row


class SourceResponse(Protocol):
    """An open response of a source. Header names are lower case."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes; raise SourceUnreachable where it breaks or stalls."""


class SourceUnreachable(Exception):
    """The connection could not be made, or broke, or went silent. Passing, and never fatal."""


class Transport(Protocol):
    """The only way to a source."""

    def open(
        self, url: str, headers: Mapping[str, str], asked: str
    ) -> AbstractAsyncContextManager[SourceResponse]:
        """Open a stream; `asked` is sent as Last-Event-ID unless it is empty."""

    async def close(self) -> None: ...


class Written(msgspec.Struct, frozen=True):
    """The row stands; `revision` is what the next write of it must expect."""

    revision: int


class Found(msgspec.Struct, frozen=True):
    """The row that stands there now, and its revision (None and 0 where there is none)."""

    row: Row | None
    revision: int


class Ledger(Protocol):
    """Rows by compare-and-set. Nothing else can change one."""

    async def write(self, subject: str, row: Row, expect: int) -> Written | Found:
        """Write the row if its subject stands at `expect` (0: absent); else return what stands.

        Returns only once one of the two is known, however long the broker takes.
        """

    async def read(self, subject: str) -> Found:
        """Return what stands, through the leader."""

    async def identity(self) -> str | None:
        """Return the ledger's identity, None where init has not made one."""

    async def run(self) -> None:
        """Do what writes need to have done beside them, for ever."""
