"""What an app emits: an event of its own, and where in its work it comes from."""

import msgspec


class Emission(msgspec.Struct, frozen=True):
    """What a handler says of the event that it emits. `payload` is its bytes, JSON as a rule."""

    type: str
    key: str
    payload: bytes


class Origin(msgspec.Struct, frozen=True):
    """What emits: a handler of an app at one row of the ledger, which is `row`.

    `namespace` is where its keys are unique. A reconciler names the source whose gap it fills,
    and the gap's id.
    """

    app: str
    row: str
    namespace: str
    fills: str = ""
    gap: str = ""
