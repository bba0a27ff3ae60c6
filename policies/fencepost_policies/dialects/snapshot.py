"""Servers that begin each connection with their whole state: Firebase, LaunchDarkly.

There is nothing to resume: each connection begins anew, and says so. What was missed in between is
made up for by the state, which comes first, under a type of its own (`put`), with the changes
behind it (`patch`, `delete`); a handler of `put` replaces what it knows.
"""

from fencepost_policies.dialects.described import About, Dialect

STATE = "put"

DIALECT = Dialect(
    resumable=False,
    snapshot_events=(STATE,),
    ignore=("keep-alive",),
    about=About(
        server="Firebase Realtime Database, LaunchDarkly",
        tried="on a stand-in",
        source="a stand-in that speaks as Firebase's REST reference has it",
        untried="both services themselves, which need an account",
    ),
)
