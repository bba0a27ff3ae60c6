"""Whether a broker keeps what it is given, as `fencepost init` made it."""

import logging

from fencepost.errors import Denied, NotFine
from fencepost.ports import Broker
from fencepost_schemas.limits import PAYLOAD_BYTES_LEAST

log = logging.getLogger("fencepost.broker")


async def check_broker(connection: Broker) -> None:
    """Tell of each stream that is not as it was made; raise NotFine where one of them forgets.

    Raises NotFine as well where the broker's messages are too small.
    """
    check_payload(connection.payload_bytes_max)
    try:
        drifts = await connection.drifts()
    except Denied as error:
        # Other rights than those of deploy/nats-roles.conf: the streams are used as they are.
        log.warning("%s; whether its streams are as they were made is not known", error)
        return
    for drift in drifts:
        log.warning("%s: run `fencepost init`", drift)
    forgetful = [drift for drift in drifts if drift.forgets]
    if forgetful:
        raise NotFine(
            f"{'; '.join(map(str, forgetful))}. Such a stream forgets what was applied, asked or "
            "wished, and work is done twice: run `fencepost init`, which sets it right"
        )


def check_payload(payload_bytes_max: int) -> None:
    """Raise NotFine where the broker's messages are too small for what the house writes."""
    if payload_bytes_max < PAYLOAD_BYTES_LEAST:
        raise NotFine(
            f"the broker takes messages of {payload_bytes_max} bytes at most (max_payload), and "
            f"records of fencepost need {PAYLOAD_BYTES_LEAST}: raise max_payload on the broker"
        )
