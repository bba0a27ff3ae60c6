"""Every reason that a fact or a verdict can have, each with its meaning in one line."""

from enum import StrEnum


class Reason(StrEnum):
    """Why a fact or a verdict is what it is. The value is what programs read."""

    FIRST_CONNECTION = "first_connection"
    NO_CURSOR = "no_cursor"
    REBASELINED = "rebaselined"

    GENERATION_EQUAL = "generation_equal"
    GENERATION_CHANGED = "generation_changed"
    GENERATION_ABSENT = "generation_absent"

    ORDER_AFTER = "order_after"
    ORDER_NOT_AFTER = "order_not_after"
    ORDER_UNKNOWN = "order_unknown"
    POSITION_MISSING = "position_missing"
    POSITION_WITHHELD = "position_withheld"
    TAIL_WITHOUT_ID = "tail_without_id"

    WINDOW_COVERS = "window_covers"
    WINDOW_EXCEEDED = "window_exceeded"
    WINDOW_ABSENT = "window_absent"

    OVERLAP_MATCHED = "overlap_matched"
    OVERLAP_MISSED = "overlap_missed"
    OVERLAP_OTHER_BYTES = "overlap_other_bytes"
    OVERLAP_SILENT = "overlap_silent"

    AUDIT_DONE = "audit_done"
    AUDIT_REFUSED = "audit_refused"

    JOIN_COVERED = "join_covered"
    JOIN_RECOVERED = "join_recovered"
    JOIN_UNCOVERED = "join_uncovered"

    SESSION_ACCEPTED = "session_accepted"
    SESSION_CHANGED = "session_changed"
    NO_RESUMPTION = "no_resumption"

    RESET_STATUS = "reset_status"
    RESET_EVENT = "reset_event"
    RESET_EMPTY_ID = "reset_empty_id"
    RESET_EMPTY_STREAM = "reset_empty_stream"

    NOTHING_SHOWN = "nothing_shown"

    @property
    def meaning(self) -> str:
        """One line for a person."""
        return _MEANINGS[self]


_MEANINGS = {
    Reason.FIRST_CONNECTION: "the first connection after init; it continues nothing",
    Reason.NO_CURSOR: "no cursor is stored, and a missing cursor is not a beginning",
    Reason.REBASELINED: "somebody had it begin anew, at a place of their choice",
    Reason.GENERATION_EQUAL: "the source names the generation that we acknowledged",
    Reason.GENERATION_CHANGED: "the source names another generation",
    Reason.GENERATION_ABSENT: "the source names no generation; silence is not equality",
    Reason.ORDER_AFTER: "the first id comes after the one we asked for",
    Reason.ORDER_NOT_AFTER: "an id came that is not after the one before it",
    Reason.ORDER_UNKNOWN: "these ids have no order that the dialect knows",
    Reason.POSITION_MISSING: "nothing was acknowledged in this generation that could be asked for",
    Reason.POSITION_WITHHELD: "a redirect led to another origin, which was not told our position",
    Reason.TAIL_WITHOUT_ID: "the last events had no id to be sent back, so the seam is not covered",
    Reason.WINDOW_COVERS: "the source declares that it still holds everything we asked for",
    Reason.WINDOW_EXCEEDED: "the source declares that it no longer holds all we asked for",
    Reason.WINDOW_ABSENT: "the source declares no replay window",
    Reason.OVERLAP_MATCHED: "the source gave back the events that we had, byte for byte",
    Reason.OVERLAP_MISSED: "another event came where one that we had was due",
    Reason.OVERLAP_OTHER_BYTES: "an id that we had came back with other bytes",
    Reason.OVERLAP_SILENT: "events that we had did not come back in time",
    Reason.AUDIT_DONE: "a second replay brought what the step from replayed to live events lost",
    Reason.AUDIT_REFUSED: "what the step from replayed to live events lost could not be read again",
    Reason.JOIN_COVERED: "a replay from before the last join brought all that was published since",
    Reason.JOIN_RECOVERED: "a replay from before the last join brought events that the join lost",
    Reason.JOIN_UNCOVERED: "what the last join may have lost could not be read again",
    Reason.SESSION_ACCEPTED: "the session was accepted, which proves nothing",
    Reason.SESSION_CHANGED: "the session that we had is gone; this is another one",
    Reason.NO_RESUMPTION: "this protocol has no resumption; each connection begins anew",
    Reason.RESET_STATUS: "the source refused our position",
    Reason.RESET_EVENT: "the source sent its reset event",
    Reason.RESET_EMPTY_ID: "the source took its id back with an empty one",
    Reason.RESET_EMPTY_STREAM: "the source answered our position with an empty stream",
    Reason.NOTHING_SHOWN: "the connection showed too little before the limit on waiting",
}
assert set(_MEANINGS) == set(Reason), "every Reason has a meaning"
