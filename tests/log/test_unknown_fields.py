"""Fields that no column is declared for: kept with the event, and put in their place once one is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import latecomer
from latecomer.after.rebuild import rebuilding
from latecomer.config.models import Pipeline
from latecomer.ledger.check import check_ledger
from latecomer.running import run
from latecomer.store.store import open_store

SCHEMA: dict[str, Any] = {"at": "string", "paise": "bigint", "pricing": {"base": "bigint"}}
MINUTE = {"tumbling": "1m"}
TOTALS = {"window": MINUTE, "aggregates": {"total": "sum(paise)"}}


def pipeline_in(
    folder: Path, schema: dict[str, Any] = SCHEMA, kind: str = "json", **changes: Any
) -> Pipeline:
    (folder / "in").mkdir(exist_ok=True)
    return Pipeline.model_validate(
        {
            "name": "unknown",
            "store": "store",
            "base": folder,
            "source": {
                "files": {"path": "in", "format": kind},
                "schema": schema,
                "unknown_fields": changes.pop("unknown_fields", "keep"),
            },
            "event": {"time": "at", "id": "at"},
            "watermark": {"delay": "1h"},
            "outputs": {"totals": TOTALS},
            **changes,
        }
    )


def at(second: int) -> str:
    return f"2026-11-08T14:00:{second:02d}Z"


def write(folder: Path, name: str, *lines: str) -> None:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / name).write_text("".join(line + "\n" for line in lines))


def kept_in(pipeline: Pipeline, columns: str = "unknown_fields") -> list[Any]:
    rows = open_store(pipeline).events.query(f"select {columns} from t order by event_time").to_pylist()
    return [tuple(row.values()) if len(row) > 1 else next(iter(row.values())) for row in rows]


def totals(pipeline: Pipeline, output: str = "totals") -> list[Any]:
    return [row["total"] for row in latecomer.Reader(pipeline).results(output).to_pylist()]


def test_what_was_kept_fills_a_column_that_is_declared_later(spark: SparkSession, tmp_path: Path) -> None:
    write(
        tmp_path,
        "a.json",
        f'{{"at":"{at(0)}","paise":1,"pricing":{{"base":5}}}}',
        f'{{"at":"{at(1)}","tip":123456789012345678901234567890, "paise":2,"n":1.10,"n":"\\u00e9"}}',
        f'{{"at":"{at(2)}","paise":3,"tip":7,"pricing":{{"base":1,"tax":{{"rate":1.50}}}}}}',
        '{"paise":4,"tip":8}',
    )
    first = pipeline_in(tmp_path)
    run(first, once=True, spark=spark)
    assert kept_in(first) == [
        None,
        '{"tip":123456789012345678901234567890, "n":1.10,"n":"\\u00e9"}',
        '{"tip":7,"pricing":{"base":1,"tax":{"rate":1.50}}}',
    ]
    letter = open_store(first).dead_letters.query("select raw from t").to_pylist()[0]["raw"]
    assert json.loads(letter) == {"at": None, "paise": 4, "pricing.base": None, "tip": 8}

    schema = {**SCHEMA, "tip": "bigint", "pricing": {"base": "bigint", "tax": {"rate": "decimal(4,2)"}}}
    changed = {"totals": {**TOTALS, "aggregates": {"total": "sum(tip)"}}}
    wider = pipeline_in(tmp_path, schema, outputs=changed)
    applied = rebuilding.apply(wider, "totals", spark=spark)
    assert applied.batch is not None
    write(tmp_path, "b.json", f'{{"at":"{at(3)}","paise":1,"tip":5}}')
    run(wider, drain=True, spark=spark)
    rows = kept_in(wider, 'tip, cast("pricing.tax.rate" as varchar), unknown_fields is null')
    assert rows == [(None, None, True), (None, None, False), (7, "1.50", False), (5, None, True)]
    assert totals(wider) == [12]
    assert check_ledger(wider, spark) == []
    assert latecomer.explain(wider, "totals", "2026-11-08T14:00Z").reconciled
