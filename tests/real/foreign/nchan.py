"""nchan: publish and subscribe in nginx, its log in memory and nowhere else."""

import itertools
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fencepost_schemas.reason import Reason
from real.process import Process, listening_socket, start
from real.rig import beside_the_gate, lines_of
from real.scenarios import (
    LITTLE,
    LONG,
    NOTHING,
    PAST,
    RESTART_FEWER,
    RESTART_MORE,
    UNKNOWN,
    WITHIN,
    Case,
    Row,
)

CONFIGURATION = """
load_module {modules}/ngx_nchan_module.so;
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 256; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  nchan_shared_memory_size 8M;
  server {{
    listen 127.0.0.1:{port};
    location = /publish {{
      nchan_publisher;
      nchan_channel_id events;
      nchan_message_buffer_length {window};
      nchan_message_timeout 10m;
    }}
    location = /events {{
      nchan_subscriber eventsource;
      nchan_channel_id events;
      nchan_subscriber_first_message {first};
    }}
  }}
}}
"""


def nginx() -> str:
    """Return the path of an nginx that has nchan beside it; fail where there is none."""
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    assert found and (_modules(found) / "ngx_nchan_module.so").exists(), (
        "no nginx with nchan here: apt-get install nginx-core libnginx-mod-nchan"
    )
    return found


def _modules(binary: str) -> Path:
    printed = subprocess.run([binary, "-V"], capture_output=True, text=True, check=True).stderr
    named = re.search(r"--modules-path=(\S+)", printed)
    return Path(named[1]) if named else Path("/usr/lib/nginx/modules")


class Nchan:
    """`window` is how many events it holds, `first` what a subscriber without a position begins
    with: "oldest" or "newest"."""

    path = "/events"
    greets = False

    def __init__(
        self, folder: Path, window: int = 100, first: str = "oldest", **source: Any
    ) -> None:
        self.folder = folder
        self.log = folder / "emitted"
        self.source: Mapping[str, Any] = {"key": "/k", "dialect": "nchan", **source}
        self.process: Process
        self._window = window
        self._first = first
        self._lives = itertools.count(1)

    async def start(self) -> Process:
        listening = listening_socket()
        text = CONFIGURATION.format(
            modules=_modules(nginx()),
            folder=self.folder,
            port=listening.getsockname()[1],
            window=self._window,
            first=self._first,
        )
        configuration = self.folder / "nginx.conf"
        configuration.write_text(text, "utf-8")
        output = self.folder / f"nginx-{next(self._lives)}.out"
        # This is how an nginx hands its sockets to the next one when its binary is replaced.
        inherited = {"NGINX": f"{listening.fileno()};"}
        line = [nginx(), "-c", str(configuration), "-p", str(self.folder)]
        self.process = await start(line, listening, output, environment=inherited)
        return self.process

    async def emit(self, *keys: str) -> None:
        async with beside_the_gate() as client:
            for key in keys:
                with self.log.open("a", encoding="utf-8") as log:
                    log.write(key + "\n")
                reply = await client.post(self._publisher, json={"k": key})
                # 201 where somebody is subscribed, 202 where nobody is.
                assert reply.status_code in (201, 202), reply.text

    async def forget(self) -> None:
        """Delete the channel, as its time-out would."""
        async with beside_the_gate() as client:
            reply = await client.delete(self._publisher)
            assert reply.status_code == 200, reply.text

    def emitted(self) -> list[str]:
        return lines_of(self.log)

    @property
    def _publisher(self) -> str:
        return f"http://127.0.0.1:{self.process.port}/publish"


# It says nothing: any id is accepted, and 200 is all there is. Its ids are a second and a number in
# it: within the second they are given out again.
OTHER_LOG = (Reason.OVERLAP_OTHER_BYTES, Reason.OVERLAP_MISSED)
CASES = (
    Case(NOTHING, (Reason.OVERLAP_MATCHED,)),
    Case(WITHIN, (Reason.OVERLAP_MATCHED,)),
    Case(PAST, (Reason.OVERLAP_MISSED,)),
    Case(RESTART_FEWER, OTHER_LOG),
    Case(RESTART_MORE, OTHER_LOG),
    Case(UNKNOWN, OTHER_LOG),
    Case(LITTLE, (Reason.OVERLAP_MATCHED,)),
    Case(LONG, (Reason.OVERLAP_MATCHED,)),
)
NCHAN = (
    Row(
        "nchan, from the newest event",
        "nchan",
        lambda folder, case: Nchan(folder, case.scenario.window, "newest"),
        CASES,
    ),
    Row(
        "nchan, from the oldest event",
        "plain",
        lambda folder, case: Nchan(folder, case.scenario.window, "oldest", dialect="plain"),
        CASES,
    ),
)
