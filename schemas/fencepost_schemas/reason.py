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
    GENERATION_BEGUN = "generation_begun"
    UPTIME_WENT_BACK = "uptime_went_back"
    UPTIME_GREW = "uptime_grew"

    ORDER_AFTER = "order_after"
    ORDER_NOT_AFTER = "order_not_after"
    ORDER_UNKNOWN = "order_unknown"
    ID_REUSED = "id_reused"
    POSITION_MISSING = "position_missing"
    POSITION_WITHHELD = "position_withheld"
    TAIL_WITHOUT_ID = "tail_without_id"
    DENSE_NEXT = "dense_next"
    DENSE_HOLE = "dense_hole"

    WINDOW_COVERS = "window_covers"
    WINDOW_EXCEEDED = "window_exceeded"
    WINDOW_ABSENT = "window_absent"
    WINDOW_OUTLASTED = "window_outlasted"

    RESUME_POINT_EQUAL = "resume_point_equal"
    RESUME_POINT_OTHER = "resume_point_other"
    RESUME_POINT_BEHIND = "resume_point_behind"
    RESUME_POINT_UNCLEAR = "resume_point_unclear"
    RESUME_SAID = "resume_said"
    RESUME_DENIED = "resume_denied"

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
    RESET_COMMENT = "reset_comment"
    RESET_CODE = "reset_code"
    RESET_EMPTY_ID = "reset_empty_id"
    RESET_EMPTY_STREAM = "reset_empty_stream"

    SNAPSHOT_SENT = "snapshot_sent"
    TEXT_INJECTED = "text_injected"

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
    Reason.GENERATION_BEGUN: "the source says that another generation begins",
    Reason.UPTIME_WENT_BACK: "a number that only grows while a source runs has gone back",
    Reason.UPTIME_GREW: "a number that only grows has not gone back, which proves nothing",
    Reason.ORDER_AFTER: "the first id comes after the one we asked for",
    Reason.ORDER_NOT_AFTER: "an id came that is not after the one before it",
    Reason.ORDER_UNKNOWN: "these ids have no order that the dialect knows",
    Reason.ID_REUSED: "an id came back with other bytes",
    Reason.POSITION_MISSING: "nothing was acknowledged in this generation that could be asked for",
    Reason.POSITION_WITHHELD: "a redirect led to another origin, which was not told our position",
    Reason.TAIL_WITHOUT_ID: "the last events had no id to be sent back, so the seam is not covered",
    Reason.DENSE_NEXT: "ids without holes go on with the very next one",
    Reason.DENSE_HOLE: "ids without holes have one here",
    Reason.WINDOW_COVERS: "the source declares that it still holds everything we asked for",
    Reason.WINDOW_EXCEEDED: "the source declares that it no longer holds all we asked for",
    Reason.WINDOW_ABSENT: "the source declares no replay window",
    Reason.WINDOW_OUTLASTED: "we were away for longer than the source is known to hold events",
    Reason.RESUME_POINT_EQUAL: "the source goes on from the very id that we asked for",
    Reason.RESUME_POINT_OTHER: "the source goes on from another id than the one we asked for",
    Reason.RESUME_POINT_BEHIND: "the source stands behind the id that we asked for",
    Reason.RESUME_POINT_UNCLEAR: "the source names no id that would say what lies in between",
    Reason.RESUME_SAID: "the source says that it resumes",
    Reason.RESUME_DENIED: "the source says that it does not resume",
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
    Reason.RESET_COMMENT: "the source sent a comment that means a reset",
    Reason.RESET_CODE: "the source sent an event whose code means a reset",
    Reason.RESET_EMPTY_ID: "the source took its id back with an empty one",
    Reason.RESET_EMPTY_STREAM: "the source answered our position with an empty stream",
    Reason.SNAPSHOT_SENT: "the source began with its state, which continues nothing",
    Reason.TEXT_INJECTED: "lines came that are no part of events: something put them in",
    Reason.NOTHING_SHOWN: "the connection showed too little before the limit on waiting",
}
assert set(_MEANINGS) == set(Reason), "every Reason has a meaning"
