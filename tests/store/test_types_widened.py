"""Columns of wider types: the tables of a store follow, and the numbers across the change are exact."""

from __future__ import annotations

import json
import os
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

import latecomer
from latecomer.config.models import Pipeline
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.running import run
from latecomer.errors import StoreMismatch
from latecomer.model.types import is_wider
from latecomer.store.delta.data_files import batches_of
from latecomer.store.delta.table import Table
from latecomer.store.source_columns import source_columns
from latecomer.store.wider_types import wider_schema

NARROW = pa.schema(
    [
        ("batch", pa.int64()),
        ("n", pa.int32()),
        ("f", pa.float32()),
        ("d", pa.decimal128(9, 2)),
        ("t", pa.string()),
    ]
)
WIDE = pa.schema(
    [
        ("batch", pa.int64()),
        ("n", pa.int64()),
        ("f", pa.float64()),
        ("d", pa.decimal128(18, 2)),
        ("t", pa.string()),
    ]
)


def test_a_table_follows_its_schema_in_one_step(tmp_path: Path) -> None:
    table = Table(tmp_path / "table", NARROW)
    rows = {
        "batch": [0, 0],
        "n": [1, -(2**31)],
        "f": [1.5, None],
        "d": [Decimal("1.10"), None],
        "t": ["a", "b"],
    }
    table.append(0, pa.table(rows, schema=NARROW))
    table.append(1, pa.table({**rows, "batch": [1, 1]}, schema=NARROW))
    before = DeltaTable(table.root).version()

    wide = Table(tmp_path / "table", WIDE)
    assert wide.is_narrower
    wide.append(
        2, pa.table({"batch": [2], "n": [2**40], "f": [0.1], "d": [Decimal("9999999999.99")], "t": ["c"]})
    )
    assert not wide.is_narrower
    assert DeltaTable(table.root).version() == before + 2
    found = wide.query("select * from t order by batch, t").to_pylist()
    assert [row["n"] for row in found] == [1, -(2**31), 1, -(2**31), 2**40]
    assert [row["f"] for row in found] == [1.5, None, 1.5, None, 0.1]
    assert [row["d"] for row in found][::4] == [Decimal("1.10"), Decimal("9999999999.99")]
    assert sorted(batches_of(file)[0] for file in wide.files()) == [0, 1, 2]
    assert (wide.last_batch(), wide.rows_of(1)) == (2, 2)
    for file in wide.files():
        assert wide.dataset([file]).schema == WIDE
    assert DeltaTable(table.root).to_pyarrow_table().schema.field("n").type == pa.int64()


def test_only_what_is_wider_is_taken(tmp_path: Path) -> None:
    assert wider_schema(WIDE, NARROW) == WIDE
    kinds = [
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "float",
        "double",
        "decimal(9,2)",
        "decimal(18,2)",
        "date",
    ]
    wider = {(one, other) for one in kinds for other in kinds if is_wider(one, other)}
    assert wider == {
        *((kinds[high], kinds[low]) for high in range(4) for low in range(high)),
        ("double", "float"),
        ("decimal(18,2)", "decimal(9,2)"),
    }
    assert not is_wider("decimal(18,4)", "decimal(9,2)")


OUTPUT = {
    "window": {"tumbling": "1m"},
    "aggregates": {
        "total": "sum(n)",
        "least": "min(n)",
        "last": "last(n)",
        "spread": "stddev(n)",
        "mean": "avg(d)",
        "middle": "median(f)",
        "share": "sum(f)",
        "distinct": "count_distinct(d)",
    },
}


def pipeline_in(folder: Path, schema: dict[str, Any], **event: Any) -> Pipeline:
    (folder / "in").mkdir(exist_ok=True)
    return Pipeline.model_validate(
        {
            "name": "widened",
            "store": "store",
            "base": folder,
            "source": {"files": {"path": "in"}, "schema": {"at": "string", **schema}},
            "event": {"time": "at", **event},
            "watermark": {"delay": "1h"},
            "ledger": ["n"],
            "outputs": {"totals": OUTPUT, "by_n": {**OUTPUT, "by": ["n"]}},
        }
    )


@pytest.mark.long
def test_numbers_are_exact_across_the_change(spark: SparkSession, tmp_path: Path) -> None:
    narrow, wide = (
        {"n": "int", "f": "float", "d": "decimal(9,2)"},
        {"n": "bigint", "f": "double", "d": "decimal(20,2)"},
    )
    first = pipeline_in(tmp_path, narrow)
    rows = [
        {"at": "2026-11-08T14:00:00Z", "n": 1, "f": 0.5, "d": 1.25},
        {"at": "2026-11-08T14:00:01Z", "n": 2, "f": 0.25, "d": 1.25},
        {"at": "2026-11-08T12:59:01Z", "n": 5, "f": 0.25, "d": 1.25},
    ]
    earlier = tmp_path / "in" / "a.json"
    earlier.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(earlier, (time.time() - 60,) * 2)  # its tick is over when the next file comes
    run(first, once=True, spark=spark)
    late = {"at": "2026-11-08T12:59:02Z", "n": 2**40, "f": 0.25, "d": 1.5}
    new = {"at": "2026-11-08T14:00:02Z", "n": 2**40, "f": 0.125, "d": 99999999999999.75}
    (tmp_path / "in" / "b.json").write_text(f"{json.dumps(late)}\n{json.dumps(new)}\n")
    wider = pipeline_in(tmp_path, wide)
    run(wider, drain=True, spark=spark)
    (row,) = [each for each in latecomer.Reader(wider).results("totals").to_pylist() if each["total"] > 2**40]
    assert (row["total"], row["least"], row["last"]) == (2**40 + 3, 1, 2**40)
    assert (row["share"], row["middle"], row["distinct"]) == (0.875, 0.25, 2)
    assert abs(row["mean"] - Decimal("33333333333334.0833")) < Decimal("0.001")
    assert len(latecomer.Reader(wider).results("by_n").to_pylist()) == 4
    assert check_ledger(wider, spark) == []
    assert latecomer.replay(wider, spark=spark).equal


def test_what_cannot_be_widened_says_why(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text(
        '{"at":"2026-11-08T14:00:00Z","n":1,"f":0.5,"d":1.25,"day":"2026-11-08"}\n'
    )
    kinds = {"n": "int", "f": "float", "d": "decimal(9,2)", "day": "date"}
    run(pipeline_in(tmp_path, kinds, producer="f"), once=True, spark=spark)
    for column, kind, why in [
        ("day", "timestamp", "day is date there and timestamp here: a type can only be widened"),
        ("n", "smallint", "smallint does not hold every int"),
        ("d", "decimal(12,4)", "sums are kept in units of the last digit"),
    ]:
        with pytest.raises(StoreMismatch, match=why):
            source_columns(pipeline_in(tmp_path, {**kinds, column: kind}))
    with pytest.raises(StoreMismatch, match=r"f cannot become a double: event.producer is made of its text"):
        run(pipeline_in(tmp_path, {**kinds, "f": "double"}, producer="f"), once=True, spark=spark)
