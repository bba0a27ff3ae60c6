"""The ledger in memory, for tests: the port's semantics and nothing around them.

Every process of a test is given the same one. It forgets everything with its process, so nothing
that has to be remembered may stand on it.
"""

import asyncio

import msgspec

from fencepost.ledgers.told import write_and_wait
from fencepost.ports import Found, Told, Written
from fencepost_schemas.row import Row, UnknownRowVersion, decode_row, encode_row


class MemoryLedger:
    """Rows by subject, each with the revision of its newest write."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[int, bytes]] = {}
        self._revision = 0
        self._identity: str | None = None

    def submit(self, subject: str, row: Row, expect: int, told: Told) -> None:
        try:
            result: Written | Found | Exception = self._write(subject, row, expect)
        except UnknownRowVersion as error:
            result = error
        asyncio.get_running_loop().call_soon(told, result)

    async def write(self, subject: str, row: Row, expect: int) -> Written | Found:
        return await write_and_wait(self, subject, row, expect)

    def _write(self, subject: str, row: Row, expect: int) -> Written | Found:
        payload = encode_row(row)
        revision, stands = self._rows.get(subject, (0, b""))
        if revision == expect:
            return Written(self.put(subject, payload))
        if stands == payload:
            # It is this very write: a claim is a name of its own, so no other looks the same.
            return Written(revision)
        return self._found(subject)

    async def read(self, subject: str) -> Found:
        return self._found(subject)

    async def confirm(self) -> None:
        """Nobody can exchange it."""

    async def identity(self) -> str | None:
        return self._identity

    async def run(self) -> None:
        """Nothing is left to be done beside the writes."""
        await asyncio.Event().wait()

    def ensure_identity(self, identity: str) -> str:
        """Return the ledger's identity, making this one where there is none."""
        if self._identity is None:
            self._identity = identity
        return self._identity

    def put(self, subject: str, payload: bytes) -> int:
        """Store bytes whatever stands there, as another release might have; return the revision."""
        self._revision += 1
        self._rows[subject] = (self._revision, payload)
        return self._revision

    def _found(self, subject: str) -> Found:
        revision, payload = self._rows.get(subject, (0, b""))
        if not revision:
            return Found(None, 0)
        try:
            return Found(decode_row(payload), revision)
        except msgspec.DecodeError as error:
            raise UnknownRowVersion(f"ledger row {subject} cannot be read: {error}") from None
