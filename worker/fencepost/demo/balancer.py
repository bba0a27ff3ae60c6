"""A balancer without affinity: each new connection goes to the next replica."""

import asyncio
import contextlib
from itertools import cycle

CHUNK_BYTES = 65_536


class Balancer:
    """Forwards bytes on loopback. Use as an async context manager; `port` is where it listens."""

    def __init__(self, replica_ports: list[int]) -> None:
        self.port = 0
        self._next_port = cycle(replica_ports)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "Balancer":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def cut(self) -> None:
        """Break every connection in the middle, as a network does."""
        for task in self._tasks:
            task.cancel()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._forward(reader, writer, next(self._next_port)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int
    ) -> None:
        with contextlib.suppress(OSError), contextlib.closing(writer):
            replica_reader, replica_writer = await asyncio.open_connection("127.0.0.1", port)
            with contextlib.closing(replica_writer):
                there = asyncio.create_task(_pump(reader, replica_writer))
                back = asyncio.create_task(_pump(replica_reader, writer))
                try:
                    await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    there.cancel()
                    back.cancel()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
