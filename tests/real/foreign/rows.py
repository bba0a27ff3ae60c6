"""Every kind of server from outside, and what must come out of the scenarios on each."""

from real.foreign.django_eventstream import DJANGO
from real.foreign.nchan import NCHAN
from real.foreign.npm import NPM
from real.foreign.sdks import SDKS

FOREIGN = (*NCHAN, *SDKS, *DJANGO, *NPM)
