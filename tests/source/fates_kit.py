"""What became of all that was read: by the oracle, which is told what the store has logged, and by the ledger."""

from __future__ import annotations

import json
from typing import Any

from latecomer.after.reading.reader import Reader
from latecomer.config.models import Pipeline
from latecomer.model.durations import to_micros
from latecomer.model.oracle.interpreter import Arrival, Partitions, interpret
from latecomer.store.store import open_store

FATES = ("on_time", "late_accepted", "side_output", "dropped")


def by_the_oracle(pipeline: Pipeline, output: str) -> dict[str, int]:
    """The fates of the events in the log, read batch by batch with the partitions that were named then."""
    store = open_store(pipeline)
    rows = store.events.query(
        "select batch, event_time, arrival_time, source_partition from t order by batch, origin, position"
    ).to_pylist()
    carries = store.watermarks.query(
        "select batch, carry from t where carry is not null and kind = 'tick' order by batch"
    ).to_pylist()
    told: list[Any] = []
    for each in carries:
        told.append(Partitions(json.loads(each["carry"])["named"]))
        told.append(
            [
                Arrival(
                    to_micros(row["event_time"]),
                    to_micros(row["arrival_time"]),
                    row["source_partition"] or "",
                )
                for row in rows
                if row["batch"] == each["batch"]
            ]
        )
    outcome = interpret(told, pipeline.watermark, {output: pipeline.outputs[output]}, drain=True)
    fates = [judged.fate.value for judged in outcome.judged[output]]
    return {fate: fates.count(fate) for fate in set(fates)}


def by_the_ledger(pipeline: Pipeline, output: str) -> dict[str, int]:
    (row,) = (
        row
        for row in Reader(pipeline).ledger_totals().to_pylist()
        if (row["output"], row["unit"]) == (output, "events")
    )
    return {fate: int(row[fate]) for fate in FATES if row[fate]}
