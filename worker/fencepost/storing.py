"""Store one message, and wait while the broker has not decided another write of its subject."""

import asyncio

from fencepost.ports import Broker, Message, NotStored, Stored

AGAIN_S = 0.02


async def store_decided(connection: Broker, message: Message) -> Stored | NotStored:
    """Return what the broker says once it can: on a cluster two writers may meet for a moment.

    Whoever takes that moment for a conflict, or for a failure, is wrong about what stands.
    """
    while True:
        reply = await connection.store(message)
        if not isinstance(reply, NotStored) or not reply.in_flight:
            return reply
        await asyncio.sleep(AGAIN_S)
