"""`<milliseconds>-<n>`, as Redis streams count; numbers are left out."""

import re

from fencepost_policies.schemes.ordered import Ordered

_MS_SEQ = re.compile("([0-9]{1,20})(?:-([0-9]{1,20}))?")


def read(text: str) -> tuple[int, int] | None:
    """Return milliseconds and number; Redis takes a time without a number for number 0."""
    found = _MS_SEQ.fullmatch(text)
    return (int(found[1]), int(found[2] or 0)) if found else None


MS_SEQ = Ordered("ms-seq", read)
