"""What happens to a pipeline, step by step: batches, silence, a restart, the end of the input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Literal, Self

from latecomer.config.all_columns import SOURCE
from latecomer.config.models import Pipeline
from latecomer.config.outputs import Output
from latecomer.model.durations import parse_duration
from latecomer.model.oracle.arrivals import Drain, Heartbeat, Partitions, Watermark
from latecomer.model.sources import BySource
from latecomer.model.strategies import State, Strategy
from latecomer.model.triggers import per_firing
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME
from latecomer.testing.notation import read_row
from latecomer.testing.rows import Row
from latecomer.testing.times import DAY, Times


@dataclass(frozen=True)
class Batch:
    """Rows that are read together, in this order. With several sources, `source` names the one of all rows, or
    `sources` names one for each row."""

    rows: tuple[Row, ...]
    source: str = ""
    sources: tuple[str, ...] = ()

    @property
    def sourced(self) -> list[tuple[str, Row]]:
        """Each row with its source."""
        return list(zip(self.sources or [self.source] * len(self.rows), self.rows, strict=True))


@dataclass(frozen=True)
class Restart:
    """The pipeline is stopped and started again."""


Step = Batch | Heartbeat | Watermark | Partitions | Restart | Drain


def sourced_rows(steps: Sequence[Step]) -> list[tuple[str, Row]]:
    """Every row in reading order, with its source."""
    return [each for step in steps if isinstance(step, Batch) for each in step.sourced]


def rows_of(steps: Sequence[Step]) -> list[Row]:
    """Every row, in reading order."""
    return [row for _, row in sourced_rows(steps)]


def read_rows(steps: Sequence[Step]) -> list[Row]:
    """Every row as it is read: with several sources, it has the column that names its source."""
    return [
        replace(row, fields={SOURCE: source, **row.fields}) if source else row
        for source, row in sourced_rows(steps)
    ]


def in_arrival_order(steps: Sequence[Step]) -> bool:
    """Whether the rows were read in the order in which they arrived."""
    times = [row.arrival_time for row in rows_of(steps)]
    return times == sorted(times)


def settles(output: Output, steps: Sequence[Step]) -> bool:
    """Whether the results in the end are the same for all cuts. With a trigger of its own, an output may hold panes
    back or publish them early, until a drain settles it."""
    drained = any(isinstance(step, Drain) for step in steps)
    plain = output.trigger.early is None and output.trigger.late == "batch"
    return drained or plain or all(map(per_firing, output.trigger.rules))


# A watermark that only the `watermark` steps move, as in Beam's TestStream


class ByHand(Strategy):
    """Events and silence do not move the watermark: it stays where a step has put it."""

    strategy: Literal["by hand"] = "by hand"
    on_idle: Literal["advance", "hold"] = "hold"

    def mark(self, state: State, partition: str) -> int | None:
        return None


def steered(pipeline: Pipeline, steps: Sequence[Step]) -> Pipeline:
    """The pipeline for these steps: if a step puts the watermark, nothing else moves it.

    The ticks and `max_future` of the pipeline's own strategy stay.
    """
    if not any(isinstance(step, Watermark) for step in steps):
        return pipeline
    by_hand = ByHand.model_validate({})
    strategies = {
        name: by_hand.model_copy(
            update={"every": view.watermark.every, "max_future": view.watermark.max_future}
        )
        for name, view in pipeline.views.items()
    }
    strategy = BySource.of_strategies(strategies) if pipeline.sources else strategies[""]
    return pipeline.model_copy(update={"watermark": strategy})


def backwards(steps: Sequence[Step], times: Times) -> tuple[int, str] | None:
    """The first step that does not move the watermark forward: its number, and the problem."""
    reached = BEGIN_OF_TIME
    for number, step in enumerate(steps):
        if isinstance(step, Watermark):
            if step.to <= reached:
                return number, f"the watermark is at {times.write(reached)} and only goes forward"
            reached = step.to
        elif isinstance(step, Drain):
            reached = END_OF_TIME
    return None


# The same input under other batch cuts


def one_by_one(steps: Sequence[Step]) -> list[Step]:
    """Every row a batch of its own."""
    cut: list[Step] = []
    for step in steps:
        cut += [Batch((row,), name) for name, row in step.sourced] if isinstance(step, Batch) else [step]
    return cut


def all_in_one(steps: Sequence[Step]) -> list[Step]:
    """As few batches as possible: only a heartbeat, a watermark, partitions, a drain or another source begins a new
    one. Restarts are left out."""
    joined: list[Step] = []
    for step in steps:
        last = joined[-1] if joined else None
        if isinstance(step, Batch) and isinstance(last, Batch) and not (last.sources or step.sources):
            if last.source == step.source:
                joined[-1] = Batch((*last.rows, *step.rows), step.source)
            else:
                joined.append(step)
        elif not isinstance(step, Restart):
            joined.append(step)
    return joined


CUTS: dict[str, Callable[[Sequence[Step]], list[Step]]] = {
    "as written": list,
    "one by one": one_by_one,
    "all in one": all_in_one,
}


class Scenario:
    """Steps, put together call by call. Times are clock times of one day, in UTC.

    Rows wait until something ends their batch: `cut`, a heartbeat, a watermark, a restart, the drain, or the end. A
    batch is read in the order of its arrivals. With several sources each has a batch, in the order of first arrivals.

    >>> scenario = Scenario().event("14:00:10", delay="2s", paise=100).duplicate(delay="5s").drain()
    >>> [type(step).__name__ for step in scenario.steps], len(scenario.rows)
    (['Batch', 'Drain'], 2)
    """

    def __init__(self, day: str | date = DAY) -> None:
        self.times = Times(day)
        self._cut: list[Step] = []
        self._waiting: list[tuple[str, Row]] = []
        self._source = ""

    @property
    def steps(self) -> list[Step]:
        return [*self._cut, *_batches(self._waiting)]

    @property
    def rows(self) -> list[Row]:
        """Every row, in reading order."""
        return rows_of(self.steps)

    # Rows

    def source(self, name: str) -> Self:
        """The source of the rows from here on, if there are several."""
        self._source = name
        return self

    def _wait(self, row: Row) -> None:
        self._waiting.append((self._source, row))

    def add(self, *lines: str) -> Self:
        """Rows as transcripts write them: `14:00:10 @14:00:12 tower=A paise=100`."""
        for line in lines:
            self._wait(read_row(line, self.times))
        return self

    def event(self, at: str, *, delay: str = "0s", **fields: Any) -> Self:
        """An event that happened at a time and arrived after a delay; a negative delay is a clock ahead."""
        happened = self.times.read(at)
        self._wait(Row(happened, happened + parse_duration(delay), fields))
        return self

    def stream(
        self,
        start: str,
        until: str,
        *,
        every: str,
        delay: str = "0s",
        silent: tuple[str, str] | None = None,
        **fields: Any,
    ) -> Self:
        """Events at regular times, from `start` until before `until`, without those that would arrive while it is
        silent."""
        first, end, step, behind = (
            self.times.read(start),
            self.times.read(until),
            parse_duration(every),
            parse_duration(delay),
        )
        quiet = range(*map(self.times.read, silent)) if silent else range(0)
        for happened in range(first, end, step):
            if happened + behind not in quiet:
                self._wait(Row(happened, happened + behind, fields))
        return self

    def duplicate(self, *, delay: str = "0s") -> Self:
        """The last row once more, after a delay."""
        rows = self._waiting or sourced_rows(self._cut)
        if not rows:
            raise ValueError("there is no row to repeat yet")
        source, row = rows[-1]
        repeated = replace(row, arrival_time=row.arrival_time + parse_duration(delay))
        self._waiting.append((source, repeated))
        return self

    def corrupt(self, *, arrives: str, written: str | None = "31 November", **fields: Any) -> Self:
        """A row whose event time cannot be read, or is missing with `written=None`."""
        self._wait(Row(written, self.times.read(arrives), fields))
        return self

    # What happens around them

    def cut(self, every: str | None = None) -> Self:
        """End a batch; with `every`, each interval of arrival time becomes a batch."""
        self._cut += _batches(self._waiting, parse_duration(every) if every else None)
        self._waiting = []
        return self

    def heartbeat(self, at: str) -> Self:
        """Nothing more has arrived by this time."""
        self.cut()._cut.append(Heartbeat(self.times.read(at)))
        return self

    def watermark(self, to: str) -> Self:
        """Move the watermark. In a scenario that does so, nothing else moves it."""
        self.cut()._cut.append(Watermark(self.times.read(to)))
        return self

    def partitions(self, **named: Literal["read", "unread"]) -> Self:
        """The source names its partitions, and whether the next batch reads them to the end. With several sources, they
        are named as in the timeline: `partitions(**{"pos/A": "unread"})`."""
        self.cut()._cut.append(Partitions({name: more == "unread" for name, more in named.items()}))
        return self

    def restart(self) -> Self:
        self.cut()._cut.append(Restart())
        return self

    def drain(self) -> Self:
        """The input has ended."""
        self.cut()._cut.append(Drain())
        return self


def _batches(waiting: Sequence[tuple[str, Row]], length: int | None = None) -> list[Batch]:
    """A batch for each source; with `length`, for each interval of arrival time of each source."""
    batches: dict[tuple[int, str], list[Row]] = {}
    for source, row in sorted(waiting, key=lambda each: each[1].arrival_time):
        batches.setdefault((row.arrival_time // length if length else 0, source), []).append(row)
    return [Batch(tuple(rows), source) for (_, source), rows in batches.items()]
