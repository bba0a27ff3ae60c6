"""Ids that can be equal or not, and nothing else."""

from fencepost_policies.schemes.scheme import Order


class Opaque:
    """Ids without an order that anybody promised."""

    name = "opaque"

    def compare(self, earlier: str, later: str) -> Order:
        return Order.SAME if earlier == later else Order.UNKNOWN

    def covers(self, floor: str, asked: str) -> bool | None:
        return True if floor == asked else None
