"""nchan, the publish and subscribe module of nginx: ids are `time:tag`, and history is in memory.

What it says of continuity is nothing: past its buffer it begins at the oldest message that it
holds, after a restart it is silent, and an id of a later second than its own clock (a clock that
was set back) is answered with 200 and never an event. Within one second ids are reused across a
restart. So all proof comes from the overlap. The one signal is a comment, `410 Gone`, once a
channel is deleted.
"""

from fencepost_policies.dialects.described import About, Dialect

DIALECT = Dialect(
    scheme="time-tag",
    ignore=("ping",),
    reset_comments=("410 Gone",),
    about=About(
        server="nchan",
        tried="on a real server",
        source="nchan 1.3.6 in nginx (Debian), one channel, history in memory",
        untried="history in Redis; several channels in one subscription, whose ids are vectors",
    ),
)
