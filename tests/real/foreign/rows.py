"""Every kind of server from outside, and what must come out of the scenarios on each."""

from real.foreign.django_eventstream import DJANGO
from real.foreign.durable_streams import DURABLE_STREAMS
from real.foreign.nchan import NCHAN
from real.foreign.npm import SSE_LIBRARIES
from real.foreign.sdks import SDKS

FOREIGN = (*NCHAN, *SDKS, *DJANGO, *SSE_LIBRARIES, *DURABLE_STREAMS)
