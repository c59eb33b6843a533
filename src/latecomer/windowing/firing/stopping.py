"""What stops a batch, by output and column: an event that fails where `on_error` is fail (ADR 0057), and a sum that
outgrows its type (ADR 0028).

As a rule such a sum stays exact beside its column, which is null meanwhile: that is warned of."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from latecomer.errors import PipelineError, Problem
from latecomer.model import types
from latecomer.store.files import Location, footer
from latecomer.store.layout import PaneLayout
from latecomer.store.state_types import beyond_column, beyond_halves
from latecomer.windowing.failing import FailedEvent
from latecomer.windowing.merge import Merger

if TYPE_CHECKING:
    from latecomer.store.data_files import DataFile
    from latecomer.store.table import Table

LOG = logging.getLogger(__name__)


@contextmanager
def stopping_in_words(name: str, layout: PaneLayout, measures: Collection[str]) -> Iterator[None]:
    """Around the work of an output."""
    try:
        yield
    except OverflowError as error:
        raise PipelineError([_problem(name, layout, measures)]) from error
    except FailedEvent as error:
        raise PipelineError([_failed(name, error)]) from error


def _failed(name: str, error: FailedEvent) -> Problem:
    return Problem(
        f"outputs.{name}.{'where' if error.column is None else f'columns.{error.column}'}",
        f"{error.detail}; the batch is logged, and waits",
        error.sql,
        f"write outputs.{name}.on_error: dead_letter, which keeps such events apart, or null, and run again; then "
        "correct the expression (try_cast, nullif, coalesce), and a rebuild takes them in",
    )


def _problem(name: str, layout: PaneLayout, measures: Collection[str]) -> Problem:
    kinds = layout.types
    sums = {
        aggregate.column: str(aggregate)
        for aggregate in layout.output.aggregates.values()
        if aggregate.column and aggregate.function in ("sum", "avg")
    }
    sums |= {measure: f"the ledger's {measure}" for measure in measures}
    outgrown = [column for column in sums if types.is_decimal(kinds[column])]
    return Problem(
        f"outputs.{name}.aggregates",
        "a sum outgrew its type; the batch is logged, and waits",
        ", ".join(sums[column] for column in outgrown),
        f"declare {' and '.join(outgrown)} with fewer digits after the point, or as double, in source.schema and "
        "start a new store, "
        "or leave the sum out and give the output a new name",
    )


class Outgrown:
    """Warns of an output's sums that did not fit their columns, of each once."""

    def __init__(self, name: str, merger: Merger) -> None:
        self.name, self.kinds = name, merger.layout.values
        self.kept = {
            value: column
            for value in merger.layout.values
            for column in (beyond_column(value), beyond_halves(value)[0])
            if column in merger.state_columns
        }

    def warn(self, panes: Table, added: Sequence[DataFile]) -> None:
        """Look at the panes of a batch. A sum that does not fit is null there, and kept beside."""
        if not self.kept or not added:
            return
        found = _values_held(map(panes.location, added), self.kept.values())
        for value, column in list(self.kept.items()):
            if places := found[column]:
                del self.kept[value]
                LOG.warning(
                    "output %s: %s does not fit %s in %d places and is null there; the exact sum is kept, and "
                    "published once it fits. In a new store sums of whole numbers have 38 digits; decimals need "
                    "fewer digits in source.schema",
                    self.name,
                    value,
                    self.kinds[value],
                    places,
                )


def _values_held(files: Iterable[Location], columns: Iterable[str]) -> dict[str, int]:
    """How many values some columns hold that are no null, by what Parquet files say of themselves."""
    held = dict.fromkeys(columns, 0)
    for file in files:
        written = footer(file)
        for group in map(written.row_group, range(written.num_row_groups)):
            for chunk in map(group.column, range(group.num_columns)):
                if chunk.path_in_schema in held:
                    held[chunk.path_in_schema] += chunk.statistics.num_values
    return held
