"""The result of a nowcast: a row for each number that is not whole yet, how good past estimates were, or why there is
no estimate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from latecomer.errors.harmless import harmless
from latecomer.model.counting import counted
from latecomer.model.durations import shown_duration
from latecomer.model.markup import MOST_ROWS, arrow_table, escape, fragment, heading, text_table
from latecomer.model.nowcast.calibration import LEAST_TRIALS, Calibration, FillingDrift, falls_short
from latecomer.model.nowcast.estimating import LEVEL
from latecomer.model.written_values import in_percent
from latecomer.model.zoned import current_zone

WIDE = (0.85, 0.95)
"""The coverage that intervals of 90 % should have: between these shares."""


@dataclass(frozen=True)
class Names:
    """The names of the columns that a nowcast adds; none of them is a column of the results."""

    age: str
    complete: str
    past: str
    of: str
    reason: str
    estimates: Mapping[str, tuple[str, str, str]]
    """Aggregate → the columns of estimate, lower and upper end."""


@dataclass(frozen=True)
class Nowcast:
    """What the numbers of an output will probably be once all their events have come."""

    output: str
    rows: pa.Table
    names: Names
    clock: int | None
    """The arrival clock, in microseconds: events that arrived by then are known."""
    refused: str | None = None
    """Why nothing can be estimated."""
    windows: int = 0
    """How many past windows it is based on."""
    whole_after: int | None = None
    """How long after its end a window counts as whole."""
    share: float | None = None
    """The share of the events that arrive within that time."""
    calibration: Mapping[str, Calibration] = field(default_factory=dict)
    """Aggregate → how often the interval of a past number held its final value."""
    drift: FillingDrift | None = None
    ages: tuple[int, ...] = ()
    """The ages of windows at which calibration was measured."""
    remarks: tuple[str, ...] = ()
    level: float = LEVEL

    @property
    def stationary(self) -> bool | None:
        """Whether windows still fill as they did; None where there are too few past windows to tell."""
        if self.refused is not None or not any(
            each.trials >= LEAST_TRIALS for each in self.calibration.values()
        ):
            return None
        return not self.warnings

    @property
    def warnings(self) -> list[str]:
        """The reasons not to trust these estimates."""
        reasons = []
        if self.drift is not None:
            reasons.append(_drifted(self.drift))
        for name, each in self.calibration.items():
            if falls_short(each, self.level):
                reasons.append(
                    f"not stationary: of the newer half of the held-back numbers of {name} only {each.newest_held} of "
                    f"{each.newest_trials} lay in their interval"
                )
        return reasons

    @property
    def notes(self) -> list[str]:
        """The notes that are shown with the rows."""
        if self.refused is not None:
            return [f"no nowcast: {self.refused}", *self.remarks]
        return [self._basis(), *self._calibrated(), *self.warnings, *self.remarks]

    def _basis(self) -> str:
        by_then = f", by when {in_percent(self.share, 1)} of the events have come" if self.share else ""
        return (
            f"nowcast with intervals of {in_percent(self.level, 0)}, from {self.windows:,} past windows; "
            f"a window counts as whole {shown_duration(self.whole_after or 0)} after its end{by_then}"
        )

    def _calibrated(self) -> list[str]:
        lines = []
        for name, each in self.calibration.items():
            if each.trials < LEAST_TRIALS or each.coverage is None:
                lines.append(
                    f"calibration of {name}: not known; {each.trials} past numbers could be held back, "
                    f"and {LEAST_TRIALS} are needed"
                )
                continue
            held = f"{each.held} of {each.trials} held-back numbers ({in_percent(each.coverage, 0)})"
            at = ", ".join(map(shown_duration, self.ages))
            text = f"calibration of {name}: {held} lay in their interval, {at} after their windows began"
            if each.coverage > WIDE[1]:
                text += "; more than it promises: numbers are small, or nearly whole at this age"
            lines.append(text)
        return lines

    def __str__(self) -> str:
        """The first rows as a table, and the notes, for `print`."""
        table = text_table(self.rows, current_zone(), MOST_ROWS) if self.rows.num_rows else []
        return harmless("\n".join([self._title, *table, *self.notes]), lines=True)

    def __repr__(self) -> str:
        return "\n".join([self._title, *self.notes])

    @property
    def _title(self) -> str:
        return f"nowcast of {self.output}: {counted(self.rows.num_rows, 'number')}"

    def _repr_html_(self) -> str:
        notes = (f'<p class="pale">{escape(each)}</p>' for each in self.notes)
        return fragment([*heading(self._title), *arrow_table(self.rows, current_zone(), 100), *notes])


def _drifted(found: FillingDrift) -> str:
    pace = "slower" if found.newer < found.older else "faster"
    at = f"{shown_duration(found.age)} after their start"
    return (
        f"not stationary: windows fill {pace} than they did; {at} the newest {found.newest} windows had "
        f"{in_percent(found.newer, 1)} of their events, those before {in_percent(found.older, 1)}"
    )
