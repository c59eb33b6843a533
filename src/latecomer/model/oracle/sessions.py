"""The oracle's sessions: windows that grow with their events, key by key.

A session is *open* until the watermark reaches its end, then *kept* as long as the output still accepts
late events for it (with `final: after_gap` a gap longer), then *final*. An event merges all open and kept
sessions that it meets into one, unless the merged session is too late. An event that meets a final session is
too late: final numbers never change, and no two sessions of a key ever overlap.
"""

from __future__ import annotations

from collections.abc import Mapping

from latecomer.model.oracle.arrivals import Arrival, Key, OutputRules
from latecomer.model.oracle.books import ACCEPTED, BatchMoment, Book, KeyedWindow, in_order
from latecomer.model.panes import Timing
from latecomer.model.simple_predicates import Predicate
from latecomer.model.verdicts import Fate, Verdict
from latecomer.model.windows import Session, Window


class SessionBook(Book):
    """The sessions of each key, with the final ones."""

    def __init__(self, rules: OutputRules, where: Predicate | None, when: Mapping[str, Predicate]) -> None:
        super().__init__(rules, where, when)
        assert isinstance(rules.window, Session)  # noqa: S101
        self.window = rules.window
        self.sessions: dict[Key, list[KeyedWindow]] = {}

    def _take(self, arrival: Arrival, key: Key, watermark: int) -> list[tuple[Window, Verdict, Fate]]:
        span = self.window.span(arrival.event_time)
        sessions = self.sessions.setdefault(key, [])
        touched = sorted(
            (session for session in sessions if self.window.meet(session.window, span)),
            key=lambda session: session.window,
        )
        final = [session.window for session in touched if self._is_final(session.window, watermark)]
        if final:
            return [self._judge(final[0], watermark)]
        windows = [span, *(session.window for session in touched)]
        joined = Window(min(each.start for each in windows), max(each.end for each in windows))
        judged = self._judge(joined, watermark)
        if judged[2] in ACCEPTED:
            before = sorted(
                (event for each in touched for event in each.accepted), key=lambda event: event.nth
            )
            accepted = [*before, self._new(arrival, judged[2], watermark)]
            standing = [pane for session in touched for pane in session.standing]
            is_over = any(session.early_is_over for session in touched)
            session = KeyedWindow(joined, key, accepted, standing, is_over)
            self.sessions[key] = [*(each for each in sessions if each not in touched), session]
            self.unpublished = [*(each for each in self.unpublished if each not in touched), session]
        return [judged]

    def keyed_windows(self) -> list[KeyedWindow]:
        return [each for sessions in self.sessions.values() for each in sessions]

    def due(self, moment: BatchMoment) -> list[tuple[KeyedWindow, Timing]]:
        """First the sessions that closed, then the closed ones that are published republished, then the open ones."""
        closed = [
            each for each in self.unpublished if self._closes(each, moment) or self._late_is_due(each, moment)
        ]
        republished = [each for each in closed if any(event.late or event.settled for event in each.accepted)]
        early = [each for each in self.unpublished if self._early_is_due(each, moment)]
        return [
            *((each, Timing.ON_TIME) for each in in_order(closed) if each not in republished),
            *((each, Timing.LATE) for each in in_order(republished)),
            *((each, Timing.EARLY) for each in in_order(early)),
        ]
