"""The derived columns of explained events. Simple ones are computed here, others by Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from latecomer.config.outputs import Output
from latecomer.errors import LatecomerError
from latecomer.model.expressions import Expression, Failed, expression
from latecomer.model.windows import Window
from latecomer.store.store import Store

Row = Mapping[str, Any]
Made = tuple[Mapping[str, Any], frozenset[str]]
"""The derived columns of an event, and those that cannot be computed for it."""
Places = Mapping[tuple[int, str, int], Made]
"""Batch, origin and position of an event → its derived columns."""
Compute = Callable[[Store, Output, Sequence[str], Window], Places]
"""Has Spark compute the derived columns of an output, for the events of an interval in some files of the log."""


@dataclass(frozen=True)
class DerivedValues:
    """Computes the derived columns of an output."""

    store: Store
    output: Output
    compute: Compute | None = None

    def of(self, rows: Sequence[Row], paths: Sequence[str], interval: Window) -> list[Made]:
        """The derived columns of rows of the log, which come from these files and this interval of event time."""
        expressions = {
            name: expression(each.sql, self.store.layout.types) for name, each in self.output.columns.items()
        }
        if all(each.value is not None for each in expressions.values()):
            return [self._computed(row, expressions) for row in rows]
        if self.compute is None:
            raise LatecomerError(
                f"only Spark can compute {', '.join(expressions)}; ask with latecomer explain, or latecomer.explain"
            )
        known = self.compute(self.store, self.output, paths, interval) if rows else {}
        return [known[row["batch"], row["origin"], row["position"]] for row in rows]

    def _computed(self, row: Row, expressions: Mapping[str, Expression]) -> Made:
        columns = {column: row[stored] for column, stored in self.store.layout.view.items()}
        values: dict[str, Any] = dict.fromkeys(expressions)
        failed = set()
        for name, each in expressions.items():
            try:
                values[name] = each.computed(columns)
            except Failed:
                failed.add(name)
        return values, frozenset(failed)
