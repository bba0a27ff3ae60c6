"""Proves that the rule of the source document is here to the letter."""

from itertools import product

import pytest

from fencepost_policies.classic import StreamResumptionViolation, classify_reconnect

# Written from the document's text, not from the code: same generation?, first id against the
# requested one (-1 less, 0 equal, 1 greater), replay window declared?
TRUTH = {
    (False, -1, False): "reoriginated",
    (False, -1, True): "reoriginated",
    (False, 0, False): "reoriginated",
    (False, 0, True): "reoriginated",
    (False, 1, False): "reoriginated",
    (False, 1, True): "reoriginated",
    (True, -1, False): "reoriginated",
    (True, -1, True): "reoriginated",
    (True, 0, False): "reoriginated",
    (True, 0, True): "reoriginated",
    (True, 1, False): "unverifiable",
    (True, 1, True): "resumed",
}


@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize(("asked", "seen"), list(product(("", "a", "b", "A", "a "), repeat=2)))
def test_classic_is_its_truth_table(asked: str, seen: str, declared: bool) -> None:
    """Over all small inputs the answer is the table's. Two empty generations count as equal."""
    for requested, first in product(range(-3, 4), repeat=2):
        sign = (first > requested) - (first < requested)
        expected = TRUTH[asked == seen, sign, declared]
        assert expected == classify_reconnect(requested, asked, first, seen, declared)


@pytest.mark.parametrize(
    ("first", "generation", "declared", "expected"),
    [
        (13, "b", True, "reoriginated"),
        (13, "a", True, "reoriginated"),
        (4118, "a", True, "reoriginated"),
        (4119, "a", True, "resumed"),
        (4119, "a", False, "unverifiable"),
        (4119, "b", True, "reoriginated"),
    ],
)
def test_the_incident_of_the_document(
    first: int, generation: str, declared: bool, expected: str
) -> None:
    """A client at 4118 meets a server at 12: none of its ways back in is called resumed."""
    assert expected == classify_reconnect(4118, "a", first, generation, declared)


def test_the_violation_is_a_runtime_error() -> None:
    """Callers of the document's interface catch what the document raises."""
    assert issubclass(StreamResumptionViolation, RuntimeError)
