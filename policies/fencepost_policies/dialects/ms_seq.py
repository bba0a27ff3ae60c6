"""Streams whose ids are those of a Redis stream, `milliseconds-number`; LangGraph's are, too.

Ids grow and have holes, so that what lies between two of them cannot be counted. A Redis that was
emptied begins with larger ids, as its clock went on: only the overlap tells that from a resume.
"""

from fencepost_policies.dialects.asking import Asking
from fencepost_policies.dialects.described import About, Dialect

DIALECT = Dialect(
    scheme="ms-seq",
    ask=Asking(now="$", earliest="0"),
    about=About(
        server="Redis streams over SSE, LangGraph",
        tried="on a stand-in",
        source="a stand-in that numbers like XREAD",
        untried="LangGraph's own server, for which ask.earliest is -1",
    ),
)
