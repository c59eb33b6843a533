"""Lists and maps: declared or found in JSON and Parquet, logged as such, and used by outputs."""

from __future__ import annotations

import json
import sqlite3
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import latecomer
from latecomer.after.reading.reader import Reader
from latecomer.after.replay.replaying import replay
from latecomer.config.models import Pipeline
from latecomer.engine.ledger.check import check_ledger
from latecomer.store.store import open_store
from source.source_kit import parquet_bytes, pipeline_in, rows_of, run_once, write_json, write_text

SCHEMA = {
    "at": "string",
    "id": "string",
    "tags": "array<string>",
    "attrs": "map<string, bigint>",
    "items": "array<struct<sku: string, price: decimal(9, 2)>>",
}
OUTPUTS: dict[str, Any] = {
    "carts": {
        "window": {"tumbling": "1h"},
        "where": "array_contains(tags, 'paid') and items[0].sku is not null",
        "by": ["shop"],
        "aggregates": {"carts": "count(*)", "items": "sum(size)", "dearest": "max(price)"},
        "too_late": "side_output",
        "late_to": [{"sqlite": "late.db"}],
    },
    "plain": {"window": {"tumbling": "1h"}, "aggregates": {"n": "count(*)"}, "too_late": "side_output"},
}
COLUMNS = {"shop": "attrs['shop']", "size": "size(items)", "price": "items[0].price"}


def cart(nth: int, *tags: Any, **fields: Any) -> dict[str, Any]:
    items = [{"sku": f"s{nth}", "price": nth + 0.5}, None]
    return {
        "at": f"2026-11-08T08:00:{nth:02}Z",
        "id": f"c{nth}",
        "tags": ["paid", *tags],
        "attrs": {"shop": nth % 2},
        "items": items,
        **fields,
    }


def pipeline_over(
    folder: Path, schema: dict[str, str] | None, outputs: dict[str, Any] | None = None, **files: Any
) -> Pipeline:
    made = pipeline_in(
        folder,
        files=files,
        event={"id": "id"},
        watermark={"delay": "0s", "every": "event"},
        outputs=outputs or OUTPUTS,
        columns=COLUMNS,
    )
    source = {**made.source.model_dump(by_alias=True), "schema": schema, "unknown_fields": "keep"}
    return made.model_copy(update={"source": type(made.source).model_validate(source)})


def standing(pipeline: Pipeline) -> dict[int, tuple[int, int, Decimal]]:
    rows = Reader(pipeline).results("carts").to_pylist()
    return {row["shop"]: (row["carts"], row["items"], row["dearest"]) for row in rows}


def logged(pipeline: Pipeline, event: str) -> dict[str, Any]:
    [found] = rows_of(
        open_store(pipeline).events,
        f"select tags, attrs, items, unknown_fields from t where event_id = '{event}'",
    )
    return found


def json_pipeline(folder: Path) -> Pipeline:
    """Two carts, five dead letters, one cart that lets the hour end, and one that is late."""
    wrong = [
        cart(3, {"not": "text"}, attrs={"shop": "one"}),
        cart(4, items=[{"price": "12345678.5"}]),
        cart(5, tags="paid"),
        {**cart(6), "at": None},
    ]
    late = cart(8, "é", items=[{"sku": "s8", "color": "red"}], attrs={"shop": 0, "k": None})
    pipeline = pipeline_over(folder, SCHEMA)
    rows = [cart(1, None), cart(2), *wrong, cart(7, at="2026-11-08T12:00:00Z"), late]
    stalling = json.dumps(cart(9, items=[{"price": 0}])).replace(": 0}", ": 1e3000000}")
    write_text(folder, "a.json", "\n".join([*map(json.dumps, rows), stalling]))
    return pipeline


def test_json(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = json_pipeline(tmp_path)
    store = run_once(pipeline, spark)
    assert logged(pipeline, "c1") == {
        "tags": ["paid", None],
        "attrs": [("shop", 1)],
        "items": [{"sku": "s1", "price": Decimal("1.50")}, None],
        "unknown_fields": None,
    }
    assert json.loads(logged(pipeline, "c8")["unknown_fields"]) == {"items": [{"sku": "s8", "color": "red"}]}
    letters = rows_of(store.dead_letters, "select reason, detail from t order by position")
    assert [(row["reason"], row["detail"]) for row in letters] == [
        ("unreadable", "column attrs['shop']: \"one\" is not a bigint"),
        ("unreadable", 'column items[0].price: "12345678.5" is not a decimal(9,2)'),
        ("unreadable", 'column tags: "paid" is not an array<string>'),
        ("no_event_time", "column at is missing or empty"),
        ("unreadable", "column items[0].price: 1e3000000 is not a decimal(9,2)"),
    ]
    assert Reader(pipeline).late("plain").select(["tags", "attrs"]).to_pylist() == [
        {"tags": ["paid", "é"], "attrs": [("shop", 0), ("k", None)]}
    ]
    assert standing(pipeline) == {0: (1, 2, Decimal("2.50")), 1: (1, 2, Decimal("1.50"))}


@pytest.mark.long
def test_what_is_done_after_publication(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = json_pipeline(tmp_path)
    store = run_once(pipeline, spark)
    with sqlite3.connect(tmp_path / "late.db") as database:
        [row] = database.execute("select tags, attrs, items from carts_late").fetchall()
    assert row == ('["paid", "é"]', '{"shop": 0, "k": null}', '[{"sku": "s8", "price": null}]')
    assert latecomer.explain(pipeline, "carts", "2026-11-08T08:00Z", {"shop": "0"}).reconciled
    fix = {"column:tags": "split(tags, ',')", "column:at": "coalesce(at, '2026-11-08T12:00:01Z')"}
    again = latecomer.replay_dead_letters(pipeline, fix=fix, spark=spark)
    assert (again.events, again.still_dead.num_rows) == (2, 3)
    assert rows_of(store.events, "select tags, items[1] as item from t where event_id = 'c5'") == [
        {"tags": ["paid"], "item": {"sku": "s5", "price": Decimal("5.50")}}
    ]
    assert check_ledger(pipeline, spark) == []
    assert replay(pipeline, spark=spark).equal
    latecomer.apply_rebuild(
        pipeline, "carts", since="2026-11-08T08:00Z", until="2026-11-08T09:00Z", spark=spark
    )
    assert standing(pipeline)[0] == (2, 3, Decimal("2.50"))


@pytest.mark.long
def test_a_list_that_is_declared_later_is_filled_from_what_was_kept(
    spark: SparkSession, tmp_path: Path
) -> None:
    before = {name: kind for name, kind in SCHEMA.items() if name != "tags"}
    outputs = {"carts": {**OUTPUTS["carts"], "where": "size(items) > 0", "late_to": []}}
    write_json(tmp_path, "a.json", [cart(1, "x"), cart(2, tags="no list")])
    run_once(pipeline_over(tmp_path, before, outputs), spark)
    pipeline = pipeline_over(tmp_path, SCHEMA, outputs)
    write_json(tmp_path, "b.json", [cart(3)], nth=1)
    run_once(pipeline, spark)
    assert [logged(pipeline, event)["tags"] for event in ("c1", "c2", "c3")] == [
        ["paid", "x"],
        None,
        ["paid"],
    ]


def parquet_carts(*rows: dict[str, Any], item: pa.DataType | None = None) -> bytes:
    item = item or pa.struct([("sku", pa.string()), ("price", pa.decimal128(9, 2))])
    kinds = {
        "at": pa.string(),
        "id": pa.string(),
        "tags": pa.list_(pa.string()),
        "attrs": pa.map_(pa.string(), pa.int32()),
        "items": pa.list_(item),
    }
    return parquet_bytes(
        **{name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()}
    )


def exact(row: dict[str, Any]) -> dict[str, Any]:
    items = [item and {**item, "price": Decimal(str(item["price"]))} for item in row["items"]]
    return {**row, "items": items, "attrs": list(row["attrs"].items())}


def test_parquet(spark: SparkSession, tmp_path: Path) -> None:
    """Numbers of a map may be narrower, an object may lack a field, and a text that is not UTF-8 is a dead letter."""
    pipeline = pipeline_over(tmp_path, SCHEMA, format="parquet")
    rows = [exact(cart(nth)) for nth in (1, 2)]
    write_text(
        tmp_path,
        "a.parquet",
        parquet_carts(*rows, exact(cart(3, "bad!!"))).replace(b"bad!!", b"b\xffd\xc3\xa9"),
    )
    fewer = {**exact(cart(4)), "items": [{"sku": "s4"}]}
    write_text(tmp_path, "b.parquet", parquet_carts(fewer, item=pa.struct([("sku", pa.string())])), 1)
    more = {**exact(cart(5)), "items": [{"sku": "s5", "color": "red"}]}
    item = pa.struct([("sku", pa.string()), ("color", pa.string())])
    write_text(tmp_path, "c.parquet", parquet_carts(more, item=item), 2)
    store = run_once(pipeline, spark)
    assert logged(pipeline, "c2") | {"unknown_fields": None} == {
        "tags": ["paid"],
        "attrs": [("shop", 0)],
        "items": [{"sku": "s2", "price": Decimal("2.50")}, None],
        "unknown_fields": None,
    }
    assert logged(pipeline, "c4")["items"] == [{"sku": "s4", "price": None}]
    letters = rows_of(store.dead_letters, "select reason, raw, raw_bytes, detail from t order by origin")
    assert [row["reason"] for row in letters] == ["unreadable"]
    assert b'"tags":["paid","b\xffd\xc3\xa9"]' in letters[0]["raw_bytes"]
    assert logged(pipeline, "c5") | {"tags": None, "attrs": None} == {
        "tags": None,
        "attrs": None,
        "items": [{"sku": "s5", "price": None}],
        "unknown_fields": '{"items":[{"sku":"s5","color":"red"}]}',
    }
