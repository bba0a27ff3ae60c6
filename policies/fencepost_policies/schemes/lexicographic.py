"""Texts that sort byte by byte, such as padded numbers or the offsets of a log."""

from fencepost_policies.schemes.ordered import Ordered


def read(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


LEXICOGRAPHIC = Ordered("lexicographic", read)
