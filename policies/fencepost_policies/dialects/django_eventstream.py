"""django-eventstream: ids name a number for each channel, and a reset is an event of its own.

With storage it says `stream-reset` where it no longer holds what was asked for, but a counter that
began afresh and has passed the asked number is replayed as if nothing had been; the overlap finds
that out. Without storage there are no ids, and slow readers lose events on an open connection:
nothing can be proven. `stream-error` carries the id `error`, which is no position.
"""

from fencepost_policies.dialects.described import About, Dialect

DIALECT = Dialect(
    scheme="vector",
    reset_events=("stream-reset",),
    ignore=("stream-open", "stream-error", "keep-alive"),
    position_pattern="[^:,]+:[0-9].*",
    about=About(
        server="django-eventstream",
        tried="on a real server",
        source="django-eventstream 5.3.4 on Django, with its database storage and without",
        untried="its storage in Redis",
    ),
)
