"""What a handler emits: checked here, and published by whoever runs the handler."""

from collections.abc import Awaitable
from typing import Protocol

import msgspec

from fencepost.errors import UsageError
from fencepost_policies.keys import acceptable
from fencepost_schemas.emission import Emission
from fencepost_schemas.limits import KEY_BYTES_MAX, TYPE_BYTES_MAX


class Emitter(Protocol):
    def emit(self, emission: Emission) -> Awaitable[None]:
        """Publish it; done once it is durable."""


class Kept:
    """Keeps what is emitted, for a handler that is called in a unit test."""

    def __init__(self) -> None:
        self.emitted: list[Emission] = []

    async def emit(self, emission: Emission) -> None:
        self.emitted.append(emission)


class Forbidden:
    """For a checker, which only looks."""

    async def emit(self, emission: Emission) -> None:
        raise UsageError("a checker only looks: emit from the handler")


def checked_emission(type: str, key: str, data: object) -> Emission:
    """Return what is to be emitted; raise UsageError where it could not be applied once.

    `data` goes out as JSON, and bytes as they are.
    """
    if (
        not isinstance(type, str)
        or not 0 < len(type.encode("utf-8", "surrogatepass")) <= TYPE_BYTES_MAX
    ):
        raise UsageError(f"emit: type= takes 1 to {TYPE_BYTES_MAX} bytes")
    if not isinstance(key, str) or not acceptable(key):
        raise UsageError(
            f"emit: key= takes 1 to {KEY_BYTES_MAX} bytes without control characters: only by its "
            "key can an event be told from one that was applied"
        )
    if isinstance(data, bytes):
        return Emission(type, key, data)
    try:
        return Emission(type, key, msgspec.json.encode(data))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UsageError(f"emit: its data cannot be written as JSON: {error}") from None
