"""The naive client, as the incident had it: any 200 is good, and a lower id means "restarted".

Run as `python -m fencepost.demo.naive URL SINK`. It remembers its last id, resumes with it, and
does each task that comes.
"""

import asyncio
import json
import sys
from pathlib import Path

import httpx2

from fencepost_schemas.sse import Decoder

RETRY_S = 0.2


async def follow(url: str, sink: Path) -> None:
    last_event_id = ""
    with sink.open("a", buffering=1) as executed:
        async with httpx2.AsyncClient(timeout=None, trust_env=False) as client:
            while True:
                headers = {"Last-Event-ID": last_event_id} if last_event_id else {}
                try:
                    async with client.stream("GET", url, headers=headers) as response:
                        decoder = Decoder(last_event_id)
                        async for chunk in response.aiter_bytes():
                            for frame in decoder.feed(chunk):
                                if frame.data is None:
                                    continue
                                # A lower id than the last one: the server must have restarted,
                                # so accept and continue.
                                last_event_id = frame.last_event_id
                                key = json.loads(frame.data)["idempotency_key"]
                                executed.write(json.dumps({"key": key}) + "\n")
                except httpx2.HTTPError:
                    pass
                await asyncio.sleep(RETRY_S)


if __name__ == "__main__":
    asyncio.run(follow(sys.argv[1], Path(sys.argv[2])))
