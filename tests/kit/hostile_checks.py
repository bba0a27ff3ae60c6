"""What is looked at in a case beyond its own table: times, and the bytes of requests."""

from collections.abc import Callable

from kit.hostile import Seen

Check = Callable[[Seen], None]


def gaps(seen: Seen) -> list[float]:
    return [later - earlier for earlier, later in zip(seen.at_s, seen.at_s[1:], strict=False)]


def waited(least_s: float) -> Check:
    def check(seen: Seen) -> None:
        assert gaps(seen)[0] >= least_s

    return check


def backs_off(seen: Seen) -> None:
    """Never faster than the floor, and slower the longer it goes on."""
    found = gaps(seen)
    assert min(found) >= 0.09
    # Drawn between 0.1 and 2 s by then; without the growth they were drawn between 0.1 and 0.2.
    assert sum(found[4:]) / len(found[4:]) >= 0.5


def sends_what_is_ours(seen: Seen) -> None:
    headers = seen.requests[0].headers
    assert "text/event-stream" == headers["accept"]
    assert "identity" == headers["accept-encoding"]
    assert "no-store" == headers["cache-control"]
    assert "last-event-id" not in headers


def only_one(seen: Seen) -> None:
    assert 1 == len(seen.requests)


def never_resumed(seen: Seen) -> None:
    assert "resumed" not in seen.verdicts


def posts_the_same(seen: Seen) -> None:
    first, second = seen.requests[:2]
    assert first.head.startswith("POST ") and second.head.startswith("POST ")
    assert first.headers["content-length"] == second.headers["content-length"]


def leaves_it_all_behind(seen: Seen) -> None:
    home, away = seen.requests[1], seen.requests[2]
    assert away.headers["host"].startswith("localhost:")
    assert ("s3cret", "2") == (home.headers["x-api-key"], home.asked)
    assert "s3cret" not in away.head
    assert None is away.asked


def payloads(*expected: str) -> Check:
    def check(seen: Seen) -> None:
        assert list(expected) == [one.payload.decode() for one in seen.events]

    return check


def renewed(seen: Seen) -> None:
    """The first two go with one token, the third, without a word in between, with another."""
    first, second, third = (one.headers["authorization"] for one in seen.requests[:3])
    assert first == second != third
    assert not any("401" in line for line in seen.said)
