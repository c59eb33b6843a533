"""What stops a batch: an event that fails where `on_error` is fail (ADR 0057), or a sum that no type holds (ADR 0028).

A sum that is only too large for its column does not stop a batch: the column is null, the exact sum is kept beside it,
and a warning says so.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from latecomer.errors import PipelineError, Problem
from latecomer.store.delta.data_files import DataFile, column_chunks
from latecomer.store.files import Location, footer
from latecomer.store.layout import PaneLayout
from latecomer.store.state_types import beyond_column, beyond_halves
from latecomer.windowing.aggregates.sums import SumOverflow
from latecomer.windowing.merge import Merger
from latecomer.windowing.visible_events import FailedEvent

if TYPE_CHECKING:
    from latecomer.store.delta.table import Table

LOG = logging.getLogger(__name__)


@contextmanager
def stopping_in_words(name: str, layout: PaneLayout) -> Iterator[None]:
    """Around the work of an output: its errors name the output, the column and the fix."""
    try:
        yield
    except SumOverflow as error:
        raise PipelineError([_overflow(name, layout, error)]) from error
    except FailedEvent as error:
        raise PipelineError([_failure(name, error)]) from error


def _failure(name: str, error: FailedEvent) -> Problem:
    return Problem(
        f"outputs.{name}.{'where' if error.column is None else f'columns.{error.column}'}",
        f"{error.detail}; the batch is logged, and waits",
        error.sql,
        f"write outputs.{name}.on_error: dead_letter, which keeps such events apart, or null, and run again; then "
        "correct the expression (try_cast, nullif, coalesce), and a rebuild takes them in",
    )


def _overflow(name: str, layout: PaneLayout, error: SumOverflow) -> Problem:
    aggregate = layout.output.aggregates.get(error.name)
    return Problem(
        f"outputs.{name}.aggregates",
        "a sum outgrew its type; the batch is logged, and waits",
        f"the ledger's {error.column}" if aggregate is None else str(aggregate),
        f"declare {error.column} with fewer digits after the point, or as double, in source.schema and start a new "
        "store, or leave the sum out and give the output a new name",
    )


class Outgrown:
    """Warns of an output's sums that do not fit their columns: once for each sum."""

    def __init__(self, name: str, merger: Merger) -> None:
        self.name, self.kinds = name, merger.layout.values
        self.kept = {
            value: column
            for value in merger.layout.values
            for column in (beyond_column(value), beyond_halves(value)[0])
            if column in merger.state_columns
        }

    def warn(self, panes: Table, added: Sequence[DataFile]) -> None:
        """Look at the panes of a batch. A sum that does not fit is null there, and kept in a column beside."""
        if not self.kept or not added:
            return
        counts = _value_counts(map(panes.location, added), self.kept.values())
        for value, column in list(self.kept.items()):
            if places := counts[column]:
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


def _value_counts(files: Iterable[Location], columns: Iterable[str]) -> dict[str, int]:
    """How many values of some columns are not null, by the footers of Parquet files."""
    counts = dict.fromkeys(columns, 0)
    for metadata in map(footer, files):
        for chunk in column_chunks(metadata):
            if chunk.path_in_schema in counts:
                counts[chunk.path_in_schema] += chunk.statistics.num_values
    return counts
