"""Proves that whoever describes a source finds every signal and every scheme on one page."""

import re
from pathlib import Path

from fencepost_policies.dialects.signals import Signals
from fencepost_policies.schemes.named import SCHEMES

PAGE = Path(__file__).parents[3] / "docs" / "signals.md"
ROWS = [line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
NAMED = {name for row in ROWS for name in re.findall("`([^`]+)`", row)}


def test_the_page_lists_every_signal_and_no_other() -> None:
    """A field that nobody can find is not there, and one that is only written down neither."""
    assert {*Signals.__struct_fields__, *SCHEMES} == NAMED
