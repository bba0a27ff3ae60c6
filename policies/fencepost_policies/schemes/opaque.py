"""Ids that can be equal or not, and nothing else."""

from fencepost_policies.schemes.scheme import Hole, Order


class Opaque:
    """Ids without an order that anybody promised."""

    name = "opaque"
    dense = False
    ties = True

    def compare(self, earlier: str, later: str) -> Order:
        return Order.SAME if earlier == later else Order.UNKNOWN

    def covers(self, floor: str, asked: str) -> bool | None:
        return True if floor == asked else None

    def hole(self, earlier: str, later: str) -> Hole | None:
        return None

    def generation(self, event_id: str) -> str:
        return ""
