"""Proves that the worst of several standings does not depend on how they are gathered."""

from itertools import product

import pytest

from fencepost_schemas.standing import Standing, worst

PAIRS = list(product(Standing, repeat=2))
TRIPLES = list(product(Standing, repeat=3))


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_worst_is_commutative(first: Standing, second: Standing) -> None:
    """Who is named first does not matter."""
    assert worst(first, second) is worst(second, first)


@pytest.mark.parametrize("standing", Standing)
def test_worst_is_idempotent(standing: Standing) -> None:
    """Hearing the same twice changes nothing."""
    assert worst(standing, standing) is standing


@pytest.mark.parametrize("three", TRIPLES)
def test_worst_is_associative(three: tuple[Standing, Standing, Standing]) -> None:
    """The order of gathering does not matter."""
    first, second, third = three
    assert worst(worst(first, second), third) is worst(first, worst(second, third))


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_worst_is_never_better_than_either(first: Standing, second: Standing) -> None:
    """No doubt is laundered by what stands beside it."""
    assert worst(first, second) in (first, second)
    assert worst(first, second).rank == max(first.rank, second.rank)


def test_the_words_and_their_ranks_are_the_documented_ones() -> None:
    """Tests outside the repository rely on the words; the order is from best to worst."""
    assert ["genesis", "resumed", "reoriginated", "unverifiable"] == [
        standing.value for standing in sorted(Standing, key=lambda standing: standing.rank)
    ]


@pytest.mark.parametrize(
    ("standing", "tainted"),
    [
        (Standing.GENESIS, False),
        (Standing.RESUMED, False),
        (Standing.REORIGINATED, True),
        (Standing.UNVERIFIABLE, True),
    ],
)
def test_a_standing_is_tainted_where_a_key_is_needed(standing: Standing, tainted: bool) -> None:
    """Only a beginning and a proven continuation go without."""
    assert tainted is standing.tainted
