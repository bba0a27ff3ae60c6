"""What a stream may lose by accident, though nobody may purge it: done by making it again."""

from fencepost.broker.connection import Connection
from fencepost.ports import Message, Stored
from fencepost.testing.streams import takes


async def lose(connection: Connection, stream: str, *subjects: str) -> None:
    """Make a stream again with all that it held, but for what these filters take.

    What is kept gets other sequences.
    """
    config = (await connection.api(f"STREAM.INFO.{stream}"))["config"]
    kept = [
        one
        async for one in connection.scan(stream, ">")
        if not any(takes(subject, one.subject) for subject in subjects)
    ]
    await connection.api(f"STREAM.DELETE.{stream}")
    await connection.api(f"STREAM.CREATE.{stream}", config)
    for one in kept:
        # The broker's own headers are orders when sent again.
        headers = {name: one.headers[name] for name in one.headers if name[:5] != "Nats-"}
        assert isinstance(
            await connection.store(Message(one.subject, one.payload, headers)), Stored
        )
