"""Which ledger this is: sources are pinned to it, and no other can stand in for it."""

import msgspec


class LedgerIdentity(msgspec.Struct, frozen=True):
    """Made once, at init: a ledger that was made again is another one, and remembers nothing."""

    identity: str
    made_ms: int
