"""Streams that number their events in the data, as the OpenAI Responses API does.

`sequence_number` is in each event's data, without a hole, and `starting_after=` asks for what is
behind it. The url names one response, so a number means something within that url alone; the server
names no generation, and the overlap proves the rest.
"""

from fencepost_policies.dialects import described
from fencepost_policies.dialects.asking import Asking
from fencepost_schemas.sse import Frame

DONE = "[DONE]"
"""What some of these streams end with; it is no event."""


class Dialect(described.Dialect, frozen=True, forbid_unknown_fields=True):
    def counts(self, frame: Frame) -> bool:
        return frame.data != DONE and super().counts(frame)


DIALECT = Dialect(
    scheme="integer-dense",
    position="/sequence_number",
    ask=Asking(where="query", name="starting_after"),
    about=described.About(
        server="OpenAI Responses API and the like",
        tried="on a stand-in",
        source="a stand-in after the API's reference",
        untried="the API itself, which needs an account",
    ),
)
