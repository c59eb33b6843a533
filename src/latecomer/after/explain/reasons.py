"""Why an event is in no pane, why a number was computed anew, and which events concern a session."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from latecomer.after.explain.fates import ACCEPTED, Event, Judged
from latecomer.config.outputs import Output
from latecomer.model.durations import format_duration, shown_duration
from latecomer.model.verdicts import Fate, Verdict
from latecomer.model.windows import Window
from latecomer.store.rebuilds import Rebuilds
from latecomer.store.store import Store


def came_before(duplicate: Event, logged: Iterable[Event], was_known: Callable[[Event], bool]) -> str:
    """Why an event is a duplicate: the last delivery before it. Once an id is forgotten, it may be logged again, even
    as an event of another window: then no delivery among these was known when the duplicate came."""
    before = [
        each
        for each in logged
        if each.event_id == duplicate.event_id
        and each.batch <= duplicate.batch
        and each is not duplicate
        and was_known(each)
    ]
    if not before:
        return "its id had come before"
    last = max(before, key=lambda each: each.order)
    return f"its id had come before: batch {last.batch}, {last.file}, position {last.position}"


def rebuilds_in_words(store: Store, output: str) -> dict[int, str]:
    """Each rebuild in words, by its batch."""
    words = {}
    for each in Rebuilds(store.root, output):
        if each.batch is not None:
            meaning = ", under another definition" if each.record.definition is not None else ""
            words[each.batch] = f"rebuild {each.id}, by the log up to batch {each.record.through}{meaning}"
    return words


def reason_of(judged: Judged, rules: Output) -> str:
    """Why an event is in no pane."""
    if judged.fate is Fate.FILTERED:
        return "where excludes it"
    if judged.fate is Fate.FAILED:
        used = [name for name in rules.columns if name in judged.event.failed] or list(rules.columns)
        return f"{' or '.join(used)} cannot be computed for it"
    if judged.fate in ACCEPTED:
        return "where excludes it, since a rebuild changed it"
    if judged.verdict is Verdict.LATE:
        return f"late by {shown_duration(judged.past_end or 0)} for its window, and late is {rules.late}"
    if judged.verdict is Verdict.TOO_LATE:
        past, lateness = shown_duration(judged.past_end or 0), format_duration(rules.allowed_lateness)
        return f"late by {past} for its window: allowed are {lateness}, and too_late is {rules.too_late}"
    return "the side output has it"


def concerns(judged: Judged, window: Window) -> bool:
    """Whether an event near a session is part of it, or was rejected by it."""
    if judged.fate in ACCEPTED or judged.window is None:
        return window.start <= judged.event.event_time < window.end
    return judged.window.overlaps(window)


def as_set_aside(judged: Judged, aside: bool) -> Judged:
    """An event judged before its filter, corrected by whether the side output has it."""
    if aside:
        return replace(judged, fate=Fate.SIDE_OUTPUT)
    if judged.fate is Fate.SIDE_OUTPUT:
        return replace(judged, fate=Fate.FILTERED, unfiltered=Fate.SIDE_OUTPUT)
    return judged
