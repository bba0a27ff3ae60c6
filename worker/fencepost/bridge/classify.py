"""A frame of a judged connection becomes a message: pure, but for the time that it is given."""

from fencepost.ports import Message
from fencepost.settings import Source
from fencepost_policies.keys import key_in
from fencepost_schemas.cursor import Cursor
from fencepost_schemas.event import ClassifiedEvent, bytes_carried, fingerprint_of, headers_of
from fencepost_schemas.sse import Frame
from fencepost_schemas.standing import Standing
from fencepost_schemas.subject import Subjects, lane_of


def classify(
    source: Source, cursor: Cursor, verdict: Standing, frame: Frame, time: str
) -> ClassifiedEvent:
    """Return the event of this frame; the cursor stands at the frame's own position."""
    assert frame.data is not None
    assert cursor.position is not None
    payload = frame.data.encode("utf-8", "surrogatepass")
    pointer = source.key_pointer
    return ClassifiedEvent(
        source=cursor.source,
        generation=cursor.generation,
        standing=cursor.standing,
        verdict=verdict,
        type=source.speech.type_of(frame),
        position=str(cursor.position),
        fingerprint=fingerprint_of(payload),
        time=time,
        payload=payload,
        key=key_in(pointer, payload) if pointer else None,
        key_scope=source.keys,
        namespace=source.namespace or cursor.source,
        size=len(payload),
        snapshot=frame.snapshot,
    )


def message_of(event: ClassifiedEvent, subjects: Subjects, bytes_max: int) -> Message:
    """Return the event as a message. One that the broker would not take goes without its payload:

    a message that is too large closes the connection for good, so it is found out here, and the
    pool refuses the event by name.
    """
    headers = headers_of(event)
    payload = event.payload
    if bytes_carried(headers, payload) > bytes_max:
        headers = {**headers, "ce-withheld": "too_large", "ce-size": str(len(payload))}
        payload = b""
    lane = lane_of(event.key if event.key is not None else event.position)
    subject = subjects.event(event.source, event.generation, event.standing, lane)
    return Message(subject, payload, headers)
