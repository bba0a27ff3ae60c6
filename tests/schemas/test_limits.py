"""Proves the relations between the bounds that no single module can see."""

from fencepost_schemas import limits, sse


def test_the_decoder_has_the_bounds_of_the_house() -> None:
    """The decoder stands alone and repeats two bounds; they are the same ones."""
    assert limits.LINE_BYTES_MAX == sse.LINE_BYTES_MAX
    assert limits.EVENT_BYTES_MAX == sse.EVENT_BYTES_MAX


def test_a_batch_of_the_bridge_fits_the_brokers_bound() -> None:
    """The verdict record and the cursor ride along with the events."""
    assert limits.BATCH_EVENTS_MAX + 2 <= limits.BATCH_MESSAGES_MAX <= 1_000


def test_lanes_share_the_keys_evenly() -> None:
    """A lane is one byte of a digest modulo the number of lanes."""
    assert 256 % limits.LANES == 0


def test_every_bound_is_positive() -> None:
    """A bound of zero would stop everything, and a negative one bound nothing."""
    bounds = {name: value for name, value in vars(limits).items() if name.isupper()}
    assert {} == {name: value for name, value in bounds.items() if value <= 0}


def test_what_is_held_fits_an_event_of_any_legal_size() -> None:
    """A legal event is never refused for want of room among the held ones."""
    assert limits.LINE_BYTES_MAX <= limits.EVENT_BYTES_MAX <= limits.HELD_BYTES_MAX
