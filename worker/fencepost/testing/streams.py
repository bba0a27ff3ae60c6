"""One stream in memory: its messages, what stands on each subject, and what it refuses."""

import asyncio
from functools import lru_cache

from fencepost.ports import Message, NotStored, StoredMessage
from fencepost_schemas.subject import StreamPlan

CONFLICT, TAKEN = 10071, 10077


class Stream:
    def __init__(self, plan: StreamPlan) -> None:
        self.plan = plan
        self.messages: dict[int, StoredMessage] = {}
        self.last: dict[str, int] = {}
        self.sequence = 0
        self.stored_s: dict[int, float] = {}
        """When each message was stored, those that are gone included."""

    def refusal(self, message: Message) -> NotStored | None:
        """Return why this message may not be stored now."""
        stands = self.last.get(message.subject, 0)
        if message.expect is not None and message.expect != stands:
            return NotStored(CONFLICT, f"wrong last sequence: {stands}")
        if self.plan.first_per_subject and stands:
            return NotStored(TAKEN, "maximum messages per subject exceeded")
        return None

    def put(self, message: Message) -> int:
        self.sequence += 1
        before = self.last.get(message.subject)
        if self.plan.last_per_subject and before is not None:
            del self.messages[before]
        self.messages[self.sequence] = StoredMessage(
            message.subject, self.sequence, message.payload, dict(message.headers)
        )
        self.last[message.subject] = self.sequence
        self.stored_s[self.sequence] = asyncio.get_running_loop().time()
        return self.sequence

    def matching(self, subject: str, sequence: int) -> StoredMessage | None:
        """Return the first message from a sequence on that a filter takes."""
        for number in range(sequence, self.sequence + 1):
            message = self.messages.get(number)
            if message is not None and takes(subject, message.subject):
                return message
        return None


@lru_cache(maxsize=65_536)
def takes(pattern: str, subject: str) -> bool:
    """Return True if a subject filter takes a subject."""
    wanted, parts = pattern.split("."), subject.split(".")
    for number, token in enumerate(wanted):
        if token == ">":
            return len(parts) > number
        if number >= len(parts) or token not in ("*", parts[number]):
            return False
    return len(wanted) == len(parts)
