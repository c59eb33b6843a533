"""A store made by hand, and what DataFrames over it hold."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import latecomer
from cli.cli_kit import MINUTE, NOON, Lake, pane
from latecomer.after.dataframes.filters import Condition
from latecomer.after.dataframes.tables import Asked, Table, plan_of
from latecomer.after.reading.reader import Reader

PIPELINE = """
name: upi
store: ./lake
source:
  files: {path: "arrivals/*.json", order_by: arrival_time}
  schema:
    event_time: timestamp
    arrival_time: timestamp
    merchant: string
    Order No: string
    paise: bigint
    fee: decimal(18,2)
    km: double
    day: date
    ok: boolean
    token: binary
    tags: array<string>
    parts: map<string,decimal(10,3)>
    place: struct<city:string,pin:int>
event: {time: event_time}
watermark: {delay: 30s}
outputs:
  minutes:
    window: {tumbling: 1m}
    by: [merchant]
    aggregates:
      paise: sum(paise)
      fees: sum(fee)
      mean: avg(fee)
      most_km: max(km)
      first_day: min(day)
      payments: count(*)
    allowed_lateness: 5m
    late: retract
    too_late: side_output
  added:
    window: {tumbling: 1m}
    by: [merchant]
    aggregates: {paise: sum(paise), payments: count(*)}
    accumulation: discarding
    allowed_lateness: 5m
    late: update
  odd:
    window: {tumbling: 1m}
    by: ["Order No", ok, day]
    aggregates: {"select": sum(paise), Group: max(km)}
ledger: [paise]
"""


def make_lake(folder: Path) -> Lake:
    """A pipeline that has a store, with nothing in it yet."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "upi.yaml"
    file.write_text(PIPELINE, encoding="utf-8")
    lake = Lake(file)
    lake.store.pin()
    return lake


def publish(lake: Lake, batch: int, *panes: dict[str, Any], output: str = "minutes") -> None:
    """A complete batch, published so many minutes after noon."""
    lake.panes(output, batch, panes)
    lake.watermarks(batch, [{"tick": batch, "at": NOON + batch * MINUTE, "watermark": NOON}])
    lake.published(batch, NOON + batch * MINUTE)


def retracted(minute: int, merchant: str, sequence: int, before: int, after: int) -> list[dict[str, Any]]:
    """A number taken back, and the one that takes its place."""
    return [
        pane(minute, sequence, "retract", merchant=merchant, paise=before),
        pane(minute, sequence + 1, timing="LATE", merchant=merchant, paise=after),
    ]


def planned(lake: Lake, asked: Asked, conditions: Iterable[Condition] = ()) -> pa.Table:
    """What tasks would read, one after the other."""
    plan = plan_of(Reader(lake.pipeline), asked)
    batches = [batch for each in plan.slices(list(conditions)) for batch in each.batches()]
    return pa.Table.from_batches(batches, plan.schema)


def loaded(spark: SparkSession, lake: Lake, **options: str) -> DataFrame:
    """A DataFrame, as Spark's users ask for one."""
    latecomer.register(spark)
    return spark.read.format("latecomer").options(pipeline=str(lake.file), **options).load()


def same_rows(found: pa.Table, expected: pa.Table) -> None:
    """The same rows in the same columns, in whichever order."""
    assert found.schema.names == expected.schema.names
    assert sorted(map(str, found.cast(expected.schema).to_pylist())) == sorted(map(str, expected.to_pylist()))


def read_by(lake: Lake, table: Table, output: str = "minutes") -> pa.Table:
    """What the reader has of a table."""
    reader = Reader(lake.pipeline)
    match table:
        case Table.RESULTS:
            return reader.results(output)
        case Table.PANES:
            return reader.panes(output)
        case Table.LATE:
            return reader.late(output)
        case Table.DEAD_LETTERS:
            return reader.dead_letters()
        case Table.LEDGER:
            return reader.ledger()
        case Table.WATERMARKS:
            return reader.watermarks()
        case Table.CORRECTIONS:
            from latecomer.after.serving.served import corrections

            return corrections(reader, output)
