"""Read what stands on the broker, which may be of another release, or nobody's of this house."""

from typing import TypeVar

import msgspec

from fencepost.errors import Unreadable
from fencepost.ports import StoredMessage

T = TypeVar("T")


def read_record(stored: StoredMessage, noun: type[T]) -> T:
    """Return what a message says; raise Unreadable, in one line, where it is no such record."""
    try:
        return msgspec.json.decode(stored.payload, type=noun)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unreadable(
            f"{stored.subject} (message {stored.sequence}): this release cannot read it as "
            f"{noun.__name__}: {error}; find out who wrote it"
        ) from None
