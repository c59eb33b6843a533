"""What became of judged events, batch by batch, in every unit of the ledger."""

from __future__ import annotations

from decimal import Decimal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from latecomer.log.columns import TIME
from latecomer.model.ledger import ASSIGNMENTS, EVENTS
from latecomer.model.verdicts import Fate
from latecomer.store.sql import quoted
from latecomer.windowing.columns import BATCH, FATE, LEADING, PARTLY, WATERMARK
from latecomer.windowing.judge import FATES
from latecomer.windowing.merge import Counts, Merger


def counts_by_batch(merger: Merger, judged: DataFrame) -> dict[int, Counts]:
    """For each batch, how many events met which fate, and how much of each measure."""
    sliding = merger.output.window.overlaps
    leads = LEADING if sliding else "true"
    units = {EVENTS: f"if({leads}, 1, 0)", ASSIGNMENTS: "1"}
    units |= {name: f"if({leads}, {quoted(name)}, 0)" for name in merger.measures}
    noted = {"late_at_source": f"{leads} and {TIME} < {WATERMARK}"}
    if sliding:
        noted["partly_late"] = PARTLY
    found = judged.groupBy(BATCH, FATE).agg(
        *(F.sum(F.expr(sql).cast("decimal(38,6)")).alias(f"u{i}") for i, sql in enumerate(units.values())),
        *(F.count_if(F.expr(sql)).alias(name) for name, sql in noted.items()),
    )
    fates: dict[int, dict[str, dict[Fate, Decimal]]] = {}
    notes: dict[int, dict[str, int]] = {}
    for row in found.toArrow().to_pylist():
        counted = fates.setdefault(row[BATCH], {unit: {} for unit in units})
        for index, unit in enumerate(units):
            counted[unit][FATES[row[FATE]]] = row[f"u{index}"] or Decimal(0)
        counts = notes.setdefault(row[BATCH], dict.fromkeys(noted, 0))
        for name in noted:
            counts[name] += row[name]
    return {batch: Counts(counted, **notes[batch]) for batch, counted in fates.items()}
