"""Streams that number their events in the data, as the OpenAI Responses API does.

`sequence_number` is in each event's data, without a hole, and `starting_after=` asks for what is
behind it. The url names one response, so a number means something within that url alone; the server
names no generation, and the overlap proves the rest. A response comes to an end, which is said.
"""

from fencepost_policies.dialects.asking import Asking
from fencepost_policies.dialects.described import About, Dialect

DIALECT = Dialect(
    scheme="integer-dense",
    position="/sequence_number",
    end_events=("response.completed", "response.failed", "response.incomplete"),
    end_data=("[DONE]",),
    ask=Asking(where="query", name="starting_after"),
    about=About(
        server="OpenAI Responses API and the like",
        tried="on a stand-in",
        source="a stand-in after the API's reference",
        untried="the API itself, which needs an account",
    ),
)
