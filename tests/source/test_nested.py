"""Fields of objects: `pricing.base` is a column wherever one is named, in JSON, in Parquet and in messages."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from kafka_kit import Client
from latecomer.after.reading.reader import Reader
from latecomer.after.replay.replaying import replay
from latecomer.config.models import Pipeline
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.running import run
from latecomer.store.store import open_store
from source.source_kit import dead_letters, ledger_lines, parquet_bytes, rows_of, write_json, write_text
from spark_kit import require_explained

TRIPS: list[dict[str, Any]] = [
    {
        "meta": {
            "id": f"t{nth}",
            "at": f"2026-11-08T14:00:{nth:02}Z",
            "phone": {"os": "ios" if nth % 2 else "android"},
        },
        "pricing": {"base": 100 * nth, "tax": nth + 0.25, "surge": nth > 4},
        "stops": [nth, nth + 1],
    }
    for nth in range(8)
]
SCHEMA: dict[str, Any] = {
    "meta": {"id": "string", "at": "string", "phone": "struct<os: string>"},
    "pricing": {"base": "bigint", "tax": "decimal(9,2)", "surge": "boolean"},
    "stops": "string",
}
BY_OS = {"android": (4, 1200, Decimal("13.00"), 1), "ios": (4, 1600, Decimal("17.00"), 1)}


def pipeline_over(folder: Path, schema: dict[str, Any] | None = SCHEMA, **source: Any) -> Pipeline:
    return Pipeline.model_validate(
        {
            "name": "trips",
            "store": str(folder / "store"),
            "source": {
                **(source or {"files": {"path": str(folder / "in")}}),
                **({"schema": schema} if schema else {}),
            },
            "event": {"time": "meta.at", "id": "meta.id", "partition": "meta.phone.os"},
            "watermark": {"delay": "1h"},
            "ledger": ["pricing.base", *(["pricing.tax"] if schema else [])],
            "outputs": {
                "fares": {
                    "window": {"tumbling": "1h"},
                    "by": ["meta.phone.os"],
                    "aggregates": {
                        "trips": "count(*)",
                        "base": "sum(pricing.base)",
                        "tax": "sum(pricing.tax)",
                    },
                },
                "surges": {
                    "window": {"tumbling": "1h"},
                    "where": "pricing.surge and pricing.base < 700",
                    "by": ["meta.phone.os"],
                    "aggregates": {"trips": "count(*)"},
                },
            },
        }
    )


def told(pipeline: Pipeline) -> dict[str, tuple[int, int, Decimal, int]]:
    reader = Reader(pipeline)
    surges = {row["meta.phone.os"]: row["trips"] for row in reader.results("surges").to_pylist()}
    return {
        row["meta.phone.os"]: (row["trips"], row["base"], row["tax"], surges[row["meta.phone.os"]])
        for row in reader.results("fares").to_pylist()
    }


def holds(pipeline: Pipeline, spark: SparkSession) -> None:
    """What the events say is what every verb says."""
    assert told(pipeline) == BY_OS
    assert check_ledger(pipeline, spark) == []
    assert replay(pipeline, spark=spark).equal
    require_explained(pipeline, "surges")


@pytest.mark.parametrize("encoding", ["utf-8", pytest.param("utf-16", marks=pytest.mark.long)])
def test_json(spark: SparkSession, tmp_path: Path, encoding: str) -> None:
    pipeline = pipeline_over(tmp_path, files={"path": str(tmp_path / "in"), "encoding": encoding})
    write_text(tmp_path, "a.json", "\n".join(map(json.dumps, TRIPS)).encode(encoding))
    run(pipeline, drain=True, spark=spark)
    holds(pipeline, spark)


def test_json_without_a_schema(spark: SparkSession, tmp_path: Path) -> None:
    """What is an object in one row and null or empty in another has the fields that it has."""
    pipeline = pipeline_over(tmp_path, None)
    odd = {"meta": None, "pricing": {}, "note": {"a": 1}}
    write_json(tmp_path, "a.json", [odd, *TRIPS, {**TRIPS[0], "note": "text"}])
    run(pipeline, drain=True, spark=spark)
    store = open_store(pipeline)
    assert store.columns == {
        "note": "string",
        "meta.id": "string",
        "meta.at": "string",
        "meta.phone.os": "string",
        "pricing.base": "bigint",
        "pricing.tax": "double",
        "pricing.surge": "boolean",
        "stops": "array<bigint>",
    }
    assert told(pipeline) == {
        os: (trips, base, float(tax), surges) for os, (trips, base, tax, surges) in BY_OS.items()
    }
    assert [reason for reason, *_ in dead_letters(store)] == ["no_event_time"]
    assert store.duplicates.rows_of(0) == 1
    assert check_ledger(pipeline, spark) == []


def test_parquet(spark: SparkSession, tmp_path: Path) -> None:
    rows = [
        {**trip, "pricing": {**trip["pricing"], "tax": Decimal(str(trip["pricing"]["tax"]))}}
        for trip in TRIPS
    ]
    pricing = pa.struct([("base", pa.int64()), ("tax", pa.decimal128(9, 2)), ("surge", pa.bool_())])
    columns = {
        "meta": pa.array([row["meta"] for row in rows]),
        "pricing": pa.array([row["pricing"] for row in rows], pricing),
    }
    pipeline = pipeline_over(tmp_path, None, files={"path": str(tmp_path / "in"), "format": "parquet"})
    write_text(tmp_path, "a.parquet", parquet_bytes(**columns))
    run(pipeline, drain=True, spark=spark)
    holds(pipeline, spark)


def test_messages(spark: SparkSession, kafka: Client, tmp_path: Path) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, TRIPS)
    pipeline = pipeline_over(tmp_path, kafka={"servers": kafka.servers, "topics": [topic]})
    run(pipeline, drain=True, spark=spark)
    assert told(pipeline) == BY_OS


def test_a_field_of_that_name_comes_first(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = pipeline_over(tmp_path)
    flat = {"meta.id": "f", "meta.at": TRIPS[0]["meta"]["at"], "meta.phone.os": "ios", "pricing.base": 7}
    write_json(tmp_path, "a.json", [flat, {**TRIPS[1], "pricing.base": 9}])
    run(pipeline, drain=True, spark=spark)
    logged = rows_of(open_store(pipeline).events, 'select "pricing.base" as base from t')
    assert sorted(row["base"] for row in logged) == [7, 9]


def test_what_does_not_fit_is_a_dead_letter_and_its_amount_is_in_the_ledger(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = pipeline_over(tmp_path)
    wrong = [
        {**TRIPS[0], "pricing": {"base": "12x"}},
        {**TRIPS[0], "pricing": 5},
        {**TRIPS[0], "pricing": {"base": 40, "tax": "1.234.5"}},
        {**TRIPS[0], "meta": {"id": "x", "phone": {"os": "ios"}}, "pricing": {"base": 300}},
    ]
    write_json(tmp_path, "a.json", [TRIPS[1], *wrong])
    run(pipeline, drain=True, spark=spark)
    store = open_store(pipeline)
    assert [reason for reason, *_ in dead_letters(store)] == ["unreadable"] * 3 + ["no_event_time"]
    assert ledger_lines(store, "fares")[0, "pricing.base"]["dead_letter"] == 340
    assert check_ledger(pipeline, spark) == []
