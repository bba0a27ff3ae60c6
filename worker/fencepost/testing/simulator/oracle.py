"""Look at the end of a run whether anything was done twice, lost without a word, or misjudged.

Pure: it reads a history and returns what is wrong with it, a line each.
"""

from collections import Counter

import msgspec

from fencepost.testing.simulator.history import Announcement, History, Place, Published, task_of
from fencepost.testing.simulator.truth import origin_of
from fencepost_schemas.question import Held, Question, QuestionKind, seam_question_id
from fencepost_schemas.row import Row, State
from fencepost_schemas.standing import Standing
from fencepost_schemas.verdict import EpochRecord, Gap

_FOR_EVER = Place(1_000_000, 0, 0)


def violations(history: History) -> list[str]:
    """Return everything that is wrong, in the order of how bad it is."""
    view = _View(history)
    return [
        *_done_twice(history),
        *_lost(history, view),
        *_misjudged(view),
        *_gaps_too_wide(view),
        *[f"I9 the cursor at {at} tells of a loss that was judged" for at in history.overdue],
        *_parked_out_of_sight(history),
        *_unfinished(history),
        *[f"I8 {failure}" for failure in history.failures],
        *([f"I8 never at rest: {history.restless}"] if history.restless else []),
    ]


class _View:
    """The history with each published event brought back to the announcement that it was."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.origin: dict[int, Announcement] = {}
        for published in history.published:
            found = origin_of(history.sendings, published)
            if found is not None:
                self.origin[published.sequence] = found
        self.replicas = {origin.place.replica for origin in self.origin.values()}
        """Those that something was published from. Of others nobody can know."""
        self.by_generation: dict[str, list[Published]] = {}
        for published in history.published:
            self.by_generation.setdefault(published.event.generation, []).append(published)
        self.records = [one.record for one in history.records]

    def at(self, generation: str, position: str) -> Announcement | None:
        """Return what stood at a position of a generation."""
        for published in self.by_generation.get(generation, ()):
            if published.event.position == position:
                return self.origin.get(published.sequence)
        return None


# --- I1 -----------------------------------------------------------------------------------------
def _done_twice(history: History) -> list[str]:
    counts = Counter((effect.handler, effect.task) for effect in history.effects)
    return [
        f"I1 {handler} was applied {count} times to {task}"
        for (handler, task), count in counts.items()
        if count > 1 and history.handlers[handler] == "once"
    ]


# --- I2 -----------------------------------------------------------------------------------------
def _lost(history: History, view: _View) -> list[str]:
    """Every task that was announced behind the beginning is somewhere."""
    if not history.published:
        return []
    first = view.origin.get(history.published[0].sequence)
    begun_s = first.at_s if first is not None else 0.0
    gaps = [gap for gap in _gaps(view) if gap is not None]
    by_task: dict[str, list[Announcement]] = {}
    for announcement in history.announcements:
        by_task.setdefault(announcement.task, []).append(announcement)
    found = []
    for handler in history.handlers:
        accounted = _accounted(history, view, handler)
        for task, announced in by_task.items():
            if announced[0].at_s < begun_s or task in accounted:
                continue
            known = [one for one in announced if one.place.replica in view.replicas]
            if not all(any(gap.holds(one.place) for gap in gaps) for one in known):
                places = ", ".join(_shown(one.place) for one in announced)
                found.append(f"I2 {task} of {handler} was lost (announced at {places})")
    return found


def _accounted(history: History, view: _View, handler: str) -> set[str]:
    """Return the tasks whose effect landed, or of which the ledger says why it did not."""
    done = {effect.task for effect in history.effects if effect.handler == handler}
    for row in history.rows:
        if row.handler == handler and _accounts(row, history):
            task = _task_of_row(row, view)
            if task is not None:
                done.add(task)
    return done | {task_of(held.payload) for held in _paused(history) if held.handler == handler}


def _paused(history: History) -> list[Held]:
    """Return the events that wait under an open question about their handler."""
    asked = [one.id for one in _open(history) if one.kind is QuestionKind.PAUSE]
    return [held for question in asked for held in history.paused.get(question, [])]


def _accounts(row: Row, history: History) -> bool:
    """Return True for a row that waits where somebody can find it, or was ended by name."""
    if row.state in (State.REJECTED, State.DENIED, State.CONFLICT):
        return True
    return row.state.parked and _waits_in_sight(row, history)


def _waits_in_sight(row: Row, history: History) -> bool:
    """Return True for a parked row that somebody is asked about, with the bytes to go on from.

    A refused one may outlive the answer to its seam, which says that what has no key stays refused.
    A worker may die before it asks, and the event come again to a handler that is paused: then it
    is asked about once the pause is over.
    """
    if _waits_for_a_pause(row, history):
        return True
    if row.state is State.IN_DOUBT:
        return any(
            one.kind is QuestionKind.DOUBT
            and one.event is not None
            and (one.event.handler, one.key, one.attempt) == (row.handler, row.key, row.attempt)
            for one in _open(history)
        )
    seam = seam_question_id(row.source, row.generation)
    asked = row.state is State.REFUSED or any(one.id == seam for one in _open(history))
    return asked and _is_held(row, history)


def _waits_for_a_pause(row: Row, history: History) -> bool:
    """Return True if the row's event is held under an open question about its handler."""
    place = (row.handler, row.generation, row.position)
    return any(
        place == (held.handler, held.headers["ce-generation"], held.headers["ce-position"])
        for held in _paused(history)
    )


def _is_held(row: Row, history: History) -> bool:
    """Return True if the desk holds the bytes of the event that a row waits with."""
    place = (row.handler, row.generation, row.position)
    return any(
        place == (held.handler, held.headers["ce-generation"], held.headers["ce-position"])
        for held in history.held
        if held.handler
    )


def _open(history: History) -> list[Question]:
    answered = {answer.question for answer in history.answers}
    return [question for question in history.questions if question.id not in answered]


def _task_of_row(row: Row, view: _View) -> str | None:
    """Return the task that a row is about: by what was published at its place."""
    found = view.at(row.generation, row.position)
    return found.task if found is not None else None


# --- I4 -----------------------------------------------------------------------------------------
def _misjudged(view: _View) -> list[str]:
    """No connection is called resumed where the truth was not continuous."""
    found = []
    for recorded in view.history.records:
        record = recorded.record
        if record.verdict.kind is not Standing.RESUMED:
            continue
        events = view.by_generation.get(record.generation, [])
        before = [one for one in events if one.sequence < recorded.sequence]
        after = [one for one in events if one.sequence > recorded.sequence]
        if not before or not after:
            continue
        last, first = view.origin.get(before[-1].sequence), view.origin.get(after[0].sequence)
        if view.history.leaky and _made_good(view, before, after):
            continue
        if last is None or first is None or not _follows(last, first):
            where = f"{_shown_or_none(last)} -> {_shown_or_none(first)}"
            found.append(f"I4 {record.generation} was judged resumed across {where}")
    return found


def _follows(last: Announcement, first: Announcement) -> bool:
    same_log = (last.place.replica, last.place.epoch) == (first.place.replica, first.place.epoch)
    return same_log and first.index == last.index + 1


def _made_good(view: _View, before: list[Published], after: list[Published]) -> bool:
    """Return True if all that a join lost came late, or lies in a gap that says so."""
    origins = [view.origin.get(one.sequence) for one in (*before, *after)]
    known = [one for one in origins if one is not None]
    if (
        len(known) < len(origins)
        or len({(one.place.replica, one.place.epoch) for one in known}) > 1
    ):
        return False
    last = max(one.index for one in known[: len(before)])
    came = {one.index for one in known}
    log, gaps = known[0].place, [gap for gap in _gaps(view) if gap is not None]
    late = _brought_late(view)
    return all(
        one.place in late or any(gap.holds(one.place) for gap in gaps)
        for one in view.history.announcements
        if (one.place.replica, one.place.epoch) == (log.replica, log.epoch)
        and last < one.index < max(came)
        and one.index not in came
    )


# --- gaps ---------------------------------------------------------------------------------------
class _Interval(msgspec.Struct, frozen=True):
    """A gap in the source's own terms. None is an open end."""

    after: Place | None
    before: Place | None

    def holds(self, place: Place) -> bool:
        behind = self.after is None or (place.replica == self.after.replica and place > self.after)
        ahead = self.before is None or (
            place.replica == self.before.replica and place < self.before
        )
        apart = (
            self.after is not None
            and self.before is not None
            and self.after.replica != self.before.replica
        )
        return behind or ahead if apart else behind and ahead


def _gaps(view: _View) -> list[_Interval | None]:
    seams = [_interval(view, record.gap) for record in view.records if record.gap is not None]
    return [*seams, *(_join(view, record.join_gap) for record in view.records)]


def _brought_late(view: _View) -> set[Place]:
    """Return what a join had lost and a later replay brought, in whichever generation it came."""
    brought: set[Place] = set()
    for record in view.records:
        if record.join_gap is None or not record.join_gap.exact:
            continue
        interval = _between(view, record.join_gap)
        for published in view.by_generation.get(record.generation, ()):
            origin = view.origin.get(published.sequence)
            if interval is not None and origin is not None and interval.holds(origin.place):
                brought.add(origin.place)
    return brought


def _join(view: _View, gap: Gap | None) -> _Interval | None:
    """Return what a join may have lost; nothing where that was published late, and is no gap."""
    return _between(view, gap) if gap is not None and not gap.exact else None


def _between(view: _View, gap: Gap) -> _Interval | None:
    after = view.at(gap.after_generation, gap.after_position)
    before = view.at(gap.before_generation, gap.before_position)
    if after is None or before is None:
        return None
    return _Interval(after.place, before.place)


def _interval(view: _View, gap: Gap) -> _Interval | None:
    after, before = _left_end(view, gap), _right_end(view, gap)
    return _Interval(after, before) if after is not None or before is not None else None


def _left_end(view: _View, gap: Gap) -> Place | None:
    """Return the last place before the gap, in an older generation where this one has none."""
    if gap.after_position:
        found = view.at(gap.after_generation, gap.after_position)
        return found.place if found is not None else None
    older = _opening(view, gap.after_generation)
    return _left_end(view, older.gap) if older is not None and older.gap is not None else None


def _right_end(view: _View, gap: Gap) -> Place | None:
    """Return the first place behind the gap; where nothing followed, that of the next gap."""
    for published in view.by_generation.get(gap.before_generation, ()):
        found = view.origin.get(published.sequence)
        return found.place if found is not None else None
    for record in view.records:
        if record.gap is not None and record.gap.after_generation == gap.before_generation:
            return _right_end(view, record.gap)
    return None


def _opening(view: _View, generation: str) -> EpochRecord | None:
    for record in view.records:
        if record.generation == generation and record.gap is not None:
            return record
    return None


def _gaps_too_wide(view: _View) -> list[str]:
    """What was published on either side of a seam does not lie in the gap of that seam."""
    found = []
    for record in view.records:
        gap = record.gap
        interval = _interval(view, gap) if gap is not None else None
        if gap is None or interval is None:
            continue
        for generation in (gap.after_generation, gap.before_generation):
            for published in view.by_generation.get(generation, ()):
                origin = view.origin.get(published.sequence)
                inside = origin is not None and _inside(interval, origin.place, generation, gap)
                if origin is not None and inside:
                    place = _shown(origin.place)
                    found.append(f"I5 {place} was published, and is in the gap of {generation}")
    return found


def _inside(interval: _Interval, place: Place, generation: str, gap: Gap) -> bool:
    """Return True if something published in a generation lies beyond that generation's end."""
    if generation == gap.after_generation:
        end = interval.after
        return end is not None and place.replica == end.replica and place > end
    end = interval.before
    return end is not None and place.replica == end.replica and place < end


# --- I6 -----------------------------------------------------------------------------------------
def _parked_out_of_sight(history: History) -> list[str]:
    """No row waits for an answer that nobody is asked for, whatever became of its effect."""
    return [
        f"I6 {row.handler} {row.key} is {row.state}, and nobody is asked about it"
        for row in history.rows
        if row.state.parked and not _waits_in_sight(row, history)
    ]


# --- I8 -----------------------------------------------------------------------------------------
def _unfinished(history: History) -> list[str]:
    """No row is left in work, unless its handler is paused and its event waits for that."""
    return [
        f"I8 {row.handler} {row.key} is left {row.state}"
        for row in history.rows
        if row.state in (State.CLAIMED, State.STARTED, State.RETRY_WAIT)
        and not _waits_for_a_pause(row, history)
    ]


def _shown(place: Place) -> str:
    return f"r{place.replica}.e{place.epoch}.{place.id}"


def _shown_or_none(announcement: Announcement | None) -> str:
    return _shown(announcement.place) if announcement is not None else "nowhere"
