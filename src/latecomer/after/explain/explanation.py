"""The life of one number: the answer of `explain`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from latecomer.after.explain.document import document
from latecomer.after.explain.fates import Judged, Periods, in_force
from latecomer.after.explain.life import Published
from latecomer.after.explain.picture import picture
from latecomer.after.explain.shown import as_text, shown
from latecomer.after.reading.choices import Clock
from latecomer.after.reading.lives import standing_of
from latecomer.config.outputs import Output
from latecomer.model.durations import format_duration
from latecomer.model.panes import Op, Timing
from latecomer.model.verdicts import END_OF_TIME, Fate
from latecomer.model.windows import Window
from latecomer.model.zoned import written


@dataclass(frozen=True)
class Explanation:
    """The life of one number. Times are microseconds."""

    output: str
    rules: Output
    window: Window
    key: Mapping[str, Any]
    panes: Sequence[Published]
    in_no_pane: Sequence[Judged]
    """Events that were accepted and are in no pane yet."""
    left_out: Mapping[Fate, Sequence[Judged]]
    measures: Mapping[str, str]
    """The ledger's measures and their types."""
    filter: str
    notes: Sequence[str]
    files: int
    files_read: int
    rebuilds: Mapping[int, str] = field(default_factory=dict)
    """The rebuilds of the output: batch → which."""
    periods: Periods = ()
    """The output under each policy and definition it has had."""
    clock: Clock = Clock.PUBLISHED
    """The clock that says when a pane was known."""
    by_arrival: bool = False
    """Whether the source has an arrival column: then the batch of a pane does not say when it could be known."""
    watermarks: Sequence[tuple[int, int]] = ()
    """Where the watermark stood while its events came: a moment of the arrival clock, and the watermark."""

    def __str__(self) -> str:
        """The life of the number as text, for `print`."""
        return as_text(self)

    @cached_property
    def stands(self) -> Mapping[str, Any] | None:
        """The number as it is now; discarding panes are added up. None where there is none."""
        return standing_of(self.rules, [each.pane for each in self.panes if each.pane.window == self.window])

    @property
    def reconciled(self) -> bool:
        """Whether every pane agrees with the log."""
        return all(published.check.agrees is not False for published in self.panes)

    def why(self, published: Published) -> str:
        """In a sentence, why a pane was published."""
        pane = published.pane
        if pane.op is Op.RETRACT:
            return f"sequence {pane.sequence} was taken back"
        match pane.timing:
            case Timing.EARLY:
                return "the window was still open, and the early trigger was due"
            case Timing.ON_TIME if pane.watermark == END_OF_TIME:
                return "the input had ended"
            case Timing.ON_TIME:
                return f"the watermark had reached {written(pane.watermark)}: the window was over"
            case Timing.LATE:
                lateness = format_duration(self.under(published).allowed_lateness)
                return f"events came after the window was over, within the allowed lateness of {lateness}"
            case Timing.CLOSING:
                return "nothing more can come for the window: its allowed lateness was over"
            case Timing.CORRECTION:
                return f"{self.rebuilds.get(pane.batch, 'a correction')}: the number was computed anew"

    def known_at(self, published: Published) -> int | None:
        """When a pane was known, by the clock of the explanation."""
        return published.pane.published_at if self.clock is Clock.PUBLISHED else self.drawn_at(published)

    def drawn_at(self, published: Published) -> int | None:
        """Where a pane stands on the arrival clock: at the end of its batch, or where it was fired."""
        moments = [published.pane.ended_at, published.pane.fired_at]
        if self.by_arrival or self.clock is Clock.ARRIVAL:
            moments.reverse()
        return moments[1] if moments[0] is None else moments[0]

    def under(self, published: Published) -> Output:
        """The output as it was when a pane was published."""
        return in_force(self.periods, published.pane.batch) if self.periods else self.rules

    def defined_otherwise(self, published: Published) -> str | None:
        """The definition of a pane's number, where that is not the output's definition now."""
        then, now = self.under(published), self.rules
        changed = [
            f"{name} is {each}" for name, each in then.aggregates.items() if now.aggregates.get(name) != each
        ]
        if then.where != now.where:
            changed.insert(0, "no where" if then.where is None else f"where {then.where}")
        return ", ".join(changed) or None

    def document(self, most: int | None = None) -> dict[str, Any]:
        """The explanation as one JSON document; at most so many events of each pane."""
        return document(self, most)

    def picture(self) -> str:
        """The explanation drawn, as SVG."""
        return picture(self)

    def _repr_html_(self) -> str:
        return shown(self)
