"""What a pipeline made of a scenario, in the same shape from the oracle and from Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from latecomer.config.models import Pipeline
from latecomer.model.ledger import Entry, total
from latecomer.model.panes import Accumulation, Pane, Place, summed, surviving
from latecomer.model.verdicts import BEGIN_OF_TIME, Fate, Verdict
from latecomer.model.windows import Window
from latecomer.testing.differences import Pair
from latecomer.testing.notation import Late
from latecomer.testing.rows import Row
from latecomer.testing.times import Times


@dataclass(frozen=True)
class Assigned:
    """What became of a row in one window of an output; or of the whole row, if it meets no window."""

    fate: Fate
    window: Window | None = None
    verdict: Verdict | None = None
    reason: str | None = None
    """Why it is a dead letter."""

    @property
    def words(self) -> set[str]:
        """Every word that may stand for it."""
        return {str(word) for word in (self.fate.value, self.verdict, self.reason) if word is not None}


@dataclass
class StepOutcome:
    """The result of one step, by output. A step that was no batch has none."""

    watermark: int
    panes: dict[str, list[Pane]] = field(default_factory=dict)
    late: dict[str, list[Late]] = field(default_factory=dict)
    ledger: list[Entry] = field(default_factory=list)


@dataclass
class Outcome:
    """Everything that happened, step by step."""

    pipeline: Pipeline
    times: Times
    rows: Sequence[Row]
    steps: list[StepOutcome]
    fates: dict[str, list[tuple[Assigned, ...] | None]]
    """By output, for each row in reading order: what became of it in each of its windows, ascending.
    None where the tables cannot tell the rows of a batch apart."""
    replay: tuple[Pair, ...] = ()
    """Where a replay of the log in one shot differed from what is stored."""
    read: dict[str, list[tuple[Place, Mapping[str, Any]]]] = field(default_factory=dict)
    """On Spark: the results in the end, by a reader of the store."""

    def panes(self, output: str | None = None, step: int | None = None) -> list[Pane]:
        """The published panes in the order of publication, of one step or of all."""
        name = self.only(output)
        return [pane for outcome in self._steps(step) for pane in outcome.panes.get(name, ())]

    def late(self, output: str | None = None, step: int | None = None) -> list[Late]:
        """The side output."""
        name = self.only(output)
        return [late for outcome in self._steps(step) for late in outcome.late.get(name, ())]

    def results(
        self, output: str | None = None, step: int | None = None
    ) -> list[tuple[Place, Mapping[str, Any]]]:
        """The number of each window and key after a step, or in the end."""
        name = self.only(output)
        rules = self.pipeline.outputs[name]
        last = len(self.steps) if step is None else step + 1
        panes = [pane for outcome in self.steps[:last] for pane in outcome.panes.get(name, ())]
        standing: Mapping[Place, Mapping[str, Any]]
        if rules.accumulation is Accumulation.DISCARDING:
            standing = summed(panes, rules.aggregates)
        else:
            standing = {place: pane.values for place, pane in surviving(panes).items()}
        return sorted(standing.items(), key=lambda pair: (pair[0][:2], str(pair[0][2])))

    def watermark(self, step: int | None = None) -> int:
        """The watermark after a step, in microseconds."""
        if not self.steps:
            return BEGIN_OF_TIME
        return self.steps[-1 if step is None else step].watermark

    def ledger(self, output: str | None = None, step: int | None = None) -> list[Entry]:
        """The lines of an output: of one step's batch, or added up over all."""
        name = self.only(output)
        entries = [entry for outcome in self._steps(step) for entry in outcome.ledger if entry.output == name]
        units: dict[str, list[Entry]] = {}
        for entry in entries:
            units.setdefault(entry.unit, []).append(entry)
        return [_total(lines) for lines in units.values()]

    def only(self, output: str | None) -> str:
        """The output's name; it may be left out where there is one."""
        names = list(self.pipeline.outputs)
        if output is None and len(names) > 1:
            raise ValueError(f"which output? there are {', '.join(names)}")
        if output is not None and output not in names:
            raise ValueError(f"there is no output {output}; there are {', '.join(names)}")
        return output or names[0]

    def _steps(self, step: int | None) -> Iterator[StepOutcome]:
        yield from self.steps if step is None else self.steps[step : step + 1]


def _total(entries: Sequence[Entry]) -> Entry:
    first = entries[0]
    fates = {fate: total(each.fates.get(fate, Decimal(0)) for each in entries) for fate in Fate}
    return Entry(
        first.batch,
        first.output,
        first.unit,
        total(each.received for each in entries),
        fates,
        sum(each.partly_late for each in entries),
        sum(each.late_at_source for each in entries),
    )
