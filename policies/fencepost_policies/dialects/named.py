"""The dialects that are written in Python, by the name that a configuration gives them."""

from collections.abc import Mapping

from fencepost_policies.dialects import (
    described,
    django_eventstream,
    durable_streams,
    ms_seq,
    nchan,
    sequence,
    snapshot,
)

NAMED: Mapping[str, described.Dialect] = {
    "nchan": nchan.DIALECT,
    "django_eventstream": django_eventstream.DIALECT,
    "sequence": sequence.DIALECT,
    "ms_seq": ms_seq.DIALECT,
    "durable_streams": durable_streams.DIALECT,
    "snapshot": snapshot.DIALECT,
}
