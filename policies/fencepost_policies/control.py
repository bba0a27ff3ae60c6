"""What a source says of its stream itself: pointers into the data of greetings and the like."""

from fencepost_policies.pointer import MISSING, Undecodable, read_json, resolve, resolve_text
from fencepost_schemas.sse import Frame


class Control:
    """Reads pointers in events of some types; in any event where no types are named."""

    def __init__(self, events: tuple[str, ...] = ()) -> None:
        self._events = frozenset(events)

    def text(self, pointer: str, frame: Frame) -> str:
        """Return the text, or the integer as text, that the pointer names; "" where there is none.

        An empty pointer names nothing here.
        """
        document = self._document(pointer, frame)
        return (resolve_text(pointer, document) or "") if document is not MISSING else ""

    def flag(self, pointer: str, frame: Frame) -> bool | None:
        """Return the true or false that the pointer names, None where there is neither."""
        document = self._document(pointer, frame)
        found = resolve(pointer, document) if document is not MISSING else None
        return found if isinstance(found, bool) else None

    def _document(self, pointer: str, frame: Frame) -> object:
        if not pointer or not frame.data or (self._events and frame.event not in self._events):
            return MISSING
        try:
            return read_json(frame.data)
        except Undecodable:
            return MISSING
