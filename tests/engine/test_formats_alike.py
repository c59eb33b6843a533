"""The same rows in files of any format leave the same tables."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Literal, get_args

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from latecomer.config.models import Event, Pipeline
from latecomer.config.outputs import Output
from latecomer.config.sources import Files, Source
from latecomer.engine.pipeline import Engine
from latecomer.engine.starting import start_engine
from latecomer.engine.without_data import drain_input
from latecomer.model.strategies import Bounded
from latecomer.source.decode.base import SourceFile
from latecomer.source.decode.typed_columns import column_type
from latecomer.source.found_files import FileSlice
from latecomer.spark.base import InProcess
from latecomer.spark.when_needed import when_needed
from latecomer.store.store import Store

TYPED = {
    "at": "timestamp",
    "seen": "timestamp_ntz",
    "day": "date",
    "fee": "decimal(9,2)",
    "shop": "string",
    "paise": "bigint",
    "ok": "boolean",
}
FIRST = datetime(2026, 1, 5, 14, tzinfo=UTC)


def payments() -> pa.Table:
    rows = [
        {
            "at": FIRST + timedelta(seconds=10 * nth, microseconds=nth),
            "seen": (FIRST + timedelta(seconds=10 * nth + 3)).replace(tzinfo=None),
            "day": None if nth % 4 == 0 else date(2026, 1, 5 + nth % 3),
            "fee": None if nth % 5 == 0 else Decimal(nth * 7).scaleb(-2),
            "shop": [None, "a", "b, c", "é"][nth % 4],
            "paise": nth * 100,
            "ok": [None, True, False][nth % 3],
        }
        for nth in range(30)
    ]
    return pa.Table.from_pylist(rows, pa.schema([(name, column_type(kind)) for name, kind in TYPED.items()]))


def _no_spark() -> SparkSession:
    raise AssertionError("Spark is asked for something")


def stored_as(form: Literal["json", "csv", "parquet"], folder: Path) -> dict[str, list[str]]:
    """What a run leaves of payments that came in files of this format."""
    (folder / "in").mkdir(parents=True)
    file, rows = folder / "in" / "payments", payments()
    if form == "parquet":
        pq.write_table(rows, file)
    elif form == "csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        for row in [dict(zip(TYPED, TYPED, strict=True)), *rows.to_pylist()]:
            writer.writerow(
                [str(value).lower() if isinstance(value, bool) else value for value in row.values()]
            )
        file.write_text(text.getvalue(), "utf-8")
    else:
        file.write_text("\n".join(json.dumps(row, default=str) for row in rows.to_pylist()), "utf-8")
    pipeline = Pipeline(
        name="typed",
        store=str(folder / "store"),
        source=Source(files=Files(path=str(folder / "in"), format=form, order_by="seen"), columns=TYPED),
        event=Event(time="at", partition="shop"),
        watermark=Bounded("5s"),
        outputs={
            "o": Output(
                window={"tumbling": "1m"},
                by=["day"],
                aggregates={"fees": "sum(fee)", "most": "max(fee)", "seen": "max(seen)"},
            )
        },
        ledger=("fee",),
    )
    store = Store(pipeline, TYPED)
    engine = Engine(InProcess(when_needed(_no_spark)), store, clock=lambda: 1_800_000_000_000_000)
    start_engine(engine)
    engine.data(0, FileSlice.of([SourceFile(file.as_uri(), 0, file.stat().st_size)]))
    drain_input(engine)
    engine.close()
    logged = store.events.dataset(store.events.files(), store.events.schema).to_table()
    assert logged.column("event_time").to_pylist() == rows.column("at").to_pylist()
    tables = {"events": store.events, "ledger": store.ledger, "panes": engine.outputs[0].tables.panes}
    return {
        name: sorted(repr(row) for row in table.dataset(table.files(), table.schema).to_table().to_pylist())
        for name, table in tables.items()
    }


def test_the_same_rows_in_any_format_leave_the_same_tables(tmp_path: Path) -> None:
    found = {form: stored_as(form, tmp_path / form) for form in get_args(Literal["json", "csv", "parquet"])}
    assert len(found["json"]["events"]) == 30
    assert found["json"] == found["csv"] == found["parquet"]
