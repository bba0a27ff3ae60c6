"""The rule of the source document, word for word: one witness a facet, integer ids.

It ships as the policy named `classic`. The general judge agrees with it wherever generation,
order and window all speak.
"""


class StreamResumptionViolation(RuntimeError):
    """An SSE stream cannot be positively identified as a continuation of the acknowledged epoch."""


def classify_reconnect(
    requested_last_event_id: int,
    requested_generation: str,
    first_event_id: int,
    first_event_generation: str,
    server_declares_replay_window: bool,
) -> str:
    """Return "resumed", "reoriginated" or "unverifiable".

    Positive evidence is required for "resumed"; absence of an error is not evidence of continuity.
    """
    if first_event_generation != requested_generation:
        return "reoriginated"
    if first_event_id <= requested_last_event_id:
        return "reoriginated"
    if not server_declares_replay_window:
        # A higher id in the same generation may still hide events dropped in between.
        return "unverifiable"
    return "resumed"
