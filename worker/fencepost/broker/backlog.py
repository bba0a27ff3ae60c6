"""Whether a consumer of this house has anything left to do, told by what its stream holds."""

from fencepost.broker.connection import Connection


async def nothing_left(connection: Connection, stream: str, consumer: str) -> bool:
    """Return True if the consumer is there and all that the stream holds for it is acked.

    The broker's own count of what is pending is not asked. It is 0 while the consumer is being
    made, and counts a message only some time after its publisher was told that it is stored (seen
    in 1 of 100 looks). Who ends work when nothing is left must not be told that too early.
    """
    info = await connection.api(f"CONSUMER.INFO.{stream}.{consumer}")
    if "error" in info or info["num_ack_pending"]:
        return False
    behind = info["delivered"]["stream_seq"] + 1
    for subject in info["config"]["filter_subjects"]:
        async for _ in connection.scan(stream, subject, behind):
            return False
    return True
