"""`fencepost demo`."""


def demo() -> None:
    """Demo."""
