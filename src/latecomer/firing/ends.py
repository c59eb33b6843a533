"""Which window ends a batch may close: every end in reach, or where those are too many, the ends that occur."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from latecomer.firing.batch import Batch
from latecomer.model.windows import FixedWindow
from latecomer.store.table import DataFile
from latecomer.windowing.columns import END

MOST_ENDS = 1_000_000
"""So many are counted through; beyond, they are looked for."""


def ends_to_close(window: FixedWindow, batch: Batch, consumed: Sequence[DataFile]) -> Iterable[int] | None:
    """The window ends that may close in a batch with these open states; None where they are too many to count."""
    bounds = [file.window_ends for file in consumed]
    if batch.logged is not None:
        # On time is only what ends after the watermark that the batch began with.
        first = batch.stretch.rows[0][1].watermark if batch.stretch.rows else batch.earliest
        first = min(max(first, batch.earliest), batch.latest)
        earliest = window.assign_all(batch.earliest)[0].end
        low = earliest if batch.history else max(earliest, window.assign_all(first)[0].end)
        bounds.append((low, window.assign_all(batch.latest)[-1].end))
    low = min(first for first, _ in bounds)
    high = min(max(last for _, last in bounds), batch.stretch.fires_at)
    if high < low:
        return []
    return window.ends(low - 1, high) if (high - low) // window.step <= MOST_ENDS else None


def ends_found(judged: DataFrame | None, states: DataFrame | None) -> list[int]:
    """The ends that do occur, where counting through all that could would take too long."""
    found = [] if judged is None else [judged.select(END)]
    if states is not None:
        found.append(states.select(F.unix_micros("window_end").alias(END)))
    ends = found[0] if len(found) == 1 else found[0].union(found[1])
    return sorted(row[END] for row in ends.distinct().toArrow().to_pylist())
