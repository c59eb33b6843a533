"""Which events rebuilds have included in the numbers that stand, by window and batch.

A rebuild computes every closed window of its range. It publishes nothing where nothing differs, and another window
where sessions were joined. So its panes do not count, but its record: its whole range includes all events up to its
batch. A session is computed with all that it joins, so its bounds count, not those of an event (`Accounts`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from latecomer.model.array_types import Flags, Integers, Micros
from latecomer.model.verdicts import END_OF_TIME
from latecomer.model.windows import FIRST_MOMENT
from latecomer.store.rebuilds import RebuildRecord, Rebuilds
from latecomer.store.sql import moment_literal

if TYPE_CHECKING:
    from latecomer.store.store import Store

BATCH, START, END = "batch", "window_start", "window_end"
Bound = tuple[str, str, int]
"""A column, a comparison, and what it is compared with: a batch, or a moment in microseconds."""
_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class IncludedEvents:
    """The events that rebuilds of an output have included. It can be pickled."""

    cases: Sequence[Sequence[Bound]] = ()
    """An event is included in its window if every bound of one case holds."""

    @classmethod
    def of(cls, store: Store, output: str, last: int) -> IncludedEvents:
        """Those of the rebuilds that were published up to a batch."""
        rebuilds = Rebuilds(store.root, output).published(last)
        return cls([case for each in rebuilds for case in _cases(store, each.record, each.batch or 0)])

    @property
    def last(self) -> int:
        """The last batch that has such events; -1 where none has."""
        return max((value for case in self.cases for name, _, value in case if name == BATCH), default=-1)

    def sql(self) -> str:
        """Whether a row is such an event, for DataFusion. It has the columns `batch`, `window_start`, `window_end`."""
        cases = (" and ".join(map(_in_sql, case)) for case in self.cases)
        return " or ".join(f"({case})" for case in cases) or "false"

    def flags(self, batch: Integers, start: Micros, end: Micros) -> Flags:
        """Whether each row is such an event."""
        columns = {BATCH: batch, START: start, END: end}
        found = np.zeros(len(batch), bool)
        for case in self.cases:
            bounds = (_COMPARE[sign](columns[name], value) for name, sign, value in case)
            found |= reduce(operator.and_, bounds)
        return found


def _cases(store: Store, record: RebuildRecord, published: int) -> Iterator[list[Bound]]:
    """A rebuild reads events up to a batch, and computes the closed windows of its range. If it changes the definition
    of the output, it also computes those that late events may still reach."""
    output, read = store.pipeline.outputs[record.output], (BATCH, "<=", record.through)
    # A session is computed whole if any part of it is in the range.
    begins = (END, ">", record.since) if output.window.merges else (START, ">=", record.since)
    yield [read, begins, (START, "<", record.until), (END, "<=", record.watermark)]
    if record.definition is not None:
        policies = [under for since, under in store.policies(record.output) if since <= published]
        lateness = (policies[-1] if policies else output).settles_after
        settled = record.watermark if record.watermark == END_OF_TIME else record.watermark - lateness
        yield [read, (END, ">", settled)]


def _in_sql(bound: Bound) -> str:
    name, sign, value = bound
    if name == BATCH:
        return f"{name} {sign} {value}"
    return f"{name} {sign} {moment_literal(min(max(value, FIRST_MOMENT), END_OF_TIME))}"
