"""One durable consumer in memory: what was delivered and is not acked, and what is acked."""

import asyncio
from typing import Protocol

import msgspec

from fencepost.ports import ConsumerPlan, StoredMessage
from fencepost.testing.streams import Stream


class Pulls(Protocol):
    """Whoever asks for messages: `outstanding` of them, which are handed over one by one."""

    outstanding: int

    def hand(self, consumer: "Consumer", message: StoredMessage) -> None: ...


class Consumer:
    def __init__(self, stream: Stream, plan: ConsumerPlan) -> None:
        self.stream = stream
        self.plan = plan
        self.next_sequence = plan.behind + 1
        self.due: dict[int, float] = {}
        """When each unacked message may be delivered again."""
        self.acked_at: dict[int, float] = {}
        self.known: set[int] = set()
        """What it remembers to have delivered before: a hint, and forgotten with acks."""
        self.pulls: list[Pulls] = []

    @property
    def idle(self) -> bool:
        """True where nothing waits and nothing is unacked."""
        return not self.due and all(
            self.stream.matching(subject, self.next_sequence) is None
            for subject in self.plan.subjects
        )

    def take_due(self, now_s: float) -> StoredMessage | None:
        """Return the next message to deliver: one whose time is over, else a new one."""
        for sequence in sorted(self.due):
            if self.due[sequence] <= now_s:
                message = self.stream.messages.get(sequence)
                if message is None:
                    del self.due[sequence]
                    continue
                self.due[sequence] = now_s + self.plan.ack_wait_s
                return message
        found = [
            message
            for subject in self.plan.subjects
            if (message := self.stream.matching(subject, self.next_sequence)) is not None
        ]
        if not found or len(self.due) >= self.plan.pending_max:
            return None
        message = min(found, key=lambda one: one.sequence)
        self.next_sequence = message.sequence + 1
        self.due[message.sequence] = now_s + self.plan.ack_wait_s
        return message

    def settle(self, sequence: int, word: bytes) -> None:
        """Do what a word says; one on what is settled already says nothing."""
        now_s = asyncio.get_running_loop().time()
        if sequence not in self.due:
            return
        if word.startswith((b"+ACK", b"+TERM")):
            del self.due[sequence]
            self.acked_at[sequence] = now_s
        elif word.startswith(b"+WPI"):
            self.due[sequence] = now_s + self.plan.ack_wait_s
        elif word.startswith(b"-NAK"):
            told = msgspec.json.decode(word[5:]) if len(word) > 5 else {}
            self.due[sequence] = now_s + told.get("delay", 0) / 1e9
