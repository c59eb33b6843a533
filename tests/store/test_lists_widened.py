"""Lists, maps and the objects in them get wider types and new fields, in a store that is there."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import latecomer
from latecomer.config.models import Pipeline
from latecomer.config.outputs import Output
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.running import run
from latecomer.errors import StoreMismatch
from latecomer.model.types import is_wider, normal_type, widened_type
from latecomer.store.delta.table import Table
from latecomer.store.layout import arrow_type
from latecomer.store.source_columns import source_columns
from latecomer.store.store import Store, open_store
from latecomer.store.wider_types import holds_all_values
from latecomer.windowing.widening import require_widenable

NARROW = {
    "items": "array<struct<sku:string,qty:int>>",
    "attrs": "map<string,int>",
    "marks": "array<int>",
}
WIDE = {
    "items": "array<struct<tier:int,sku:string,qty:bigint>>",
    "attrs": "map<string,bigint>",
    "marks": "array<bigint>",
}
AS_STORED = {**WIDE, "items": "array<struct<sku:string,qty:bigint,tier:int>>"}
COLUMNS = {"qty": "items[0].qty", "mark": "marks[0]", "shop": "attrs['shop']"}
OUTPUT = {
    "window": {"tumbling": "1m"},
    "by": ["shop"],
    "aggregates": {"n": "count(*)", "qty": "sum(qty)", "most": "max(mark)"},
    "late": "side_output",
    "late_to": [{"sqlite": "late.db"}, {"delta": "late"}, {"jsonl": "lines"}, {"parquet": "files"}],
}


def pipeline_in(folder: Path, schema: dict[str, str], output: dict[str, Any] | None = None) -> Pipeline:
    (folder / "in").mkdir(exist_ok=True)
    kinds = {"at": "string", "id": "string", **schema}
    return Pipeline.model_validate(
        {
            "name": "carts",
            "store": "store",
            "base": folder,
            "source": {"files": {"path": "in"}, "schema": kinds, "unknown_fields": "keep"},
            "event": {"time": "at", "id": "id"},
            "watermark": {"delay": "0s", "every": "event"},
            "columns": COLUMNS,
            "outputs": {"carts": {**OUTPUT, **(output or {})}},
        }
    )


# Types


KINDS = st.recursive(
    st.sampled_from(
        ["tinyint", "int", "bigint", "float", "double", "string", "decimal(9,2)", "decimal(18,2)"]
    ),
    lambda inner: st.one_of(
        inner.map(lambda kind: f"array<{kind}>"),
        inner.map(lambda kind: f"map<string,{kind}>"),
        st.dictionaries(st.sampled_from("abc"), inner, min_size=1).map(
            lambda fields: f"struct<{','.join(f'{name}:{kind}' for name, kind in fields.items())}>"
        ),
    ),
    max_leaves=6,
)


@given(KINDS, KINDS)
def test_types_are_widened_as_tables_are(before: str, after: str) -> None:
    """The model and Arrow say the same, and what was widened takes both."""
    before, after = (normal_type(f"array<{kind}>") for kind in (before, after))
    wider = widened_type(before, after)
    assert (wider is not None) == holds_all_values(arrow_type(before), arrow_type(after))
    assert is_wider(after, before) == (wider not in (None, before))
    if wider is not None:
        assert widened_type(before, wider) == wider == widened_type(wider, after)


def test_a_table_of_lists_follows_in_one_step(tmp_path: Path) -> None:
    before, after = (
        pa.schema([("batch", pa.int64()), *((name, arrow_type(kind)) for name, kind in kinds.items())])
        for kinds in (NARROW, AS_STORED)
    )
    narrow = {
        "batch": [0, 0],
        "items": [[{"sku": "a", "qty": 1}, None], None],
        "attrs": [[("shop", 1), ("none", None)], []],
        "marks": [[2**31 - 1, None], None],
    }
    Table(tmp_path / "table", before).append(0, pa.table(narrow, schema=before))
    assert not Table(tmp_path / "table", before).is_narrower
    table = Table(tmp_path / "table", after)
    assert table.is_narrower
    wide = {
        "batch": [1],
        "items": [[{"sku": "b", "qty": 2**40, "tier": 2}]],
        "attrs": [[("shop", 2**40)]],
        "marks": [[2**40]],
    }
    table.append(1, pa.table(wide, schema=after))
    assert not table.is_narrower
    first, second, third = DeltaTable(table.root).to_pyarrow_table().sort_by("batch").to_pylist()
    assert first["items"] == [{"sku": "a", "qty": 1, "tier": None}, None]
    assert (first["attrs"], first["marks"]) == ([("shop", 1), ("none", None)], [2**31 - 1, None])
    assert second == {"batch": 0, "items": None, "attrs": [], "marks": None}
    assert {name: [value] for name, value in third.items()} == wide
    assert all(table.dataset([file]).schema == table.stored_schema for file in table.files())


# What the file declares


def pinned(folder: Path, schema: dict[str, str], output: dict[str, Any] | None = None) -> Store:
    pipeline = pipeline_in(folder, schema, output)
    store = Store(pipeline, source_columns(pipeline))
    store.pin()
    return store


def test_a_store_keeps_the_order_of_fields(tmp_path: Path) -> None:
    pinned(tmp_path, NARROW)
    assert source_columns(pipeline_in(tmp_path, WIDE)) == {"at": "string", "id": "string", **AS_STORED}
    pinned(tmp_path, WIDE)
    assert source_columns(pipeline_in(tmp_path, WIDE))["items"] == AS_STORED["items"]


@pytest.mark.parametrize(
    ("column", "kind", "why"),
    [
        ("items", "array<struct<sku:string>>", "items[] has no field qty any more, and a field stays"),
        (
            "items",
            "array<struct<sku:string,qty:smallint>>",
            "items[].qty is int there and smallint here, and smallint",
        ),
        ("items", "array<struct<SKU:string,qty:int>>", "items[] has no field sku any more"),
        (
            "items",
            "array<struct<sku:array<string>,qty:int>>",
            "items[].sku is string there and array<string> here",
        ),
        (
            "attrs",
            "map<string,string>",
            "attrs[] is int there and string here, and a type can only be widened",
        ),
        ("marks", "map<string,int>", "marks is array<int> there and map<string,int> here"),
        ("marks", "string", "a list or a map stays what it is"),
    ],
)
def test_what_cannot_be_widened_says_where_and_why(tmp_path: Path, column: str, kind: str, why: str) -> None:
    pinned(tmp_path, NARROW)
    declared = pipeline_in(tmp_path, {**NARROW, column: kind})
    with pytest.raises(StoreMismatch) as caught:
        source_columns(declared)
    assert why in str(caught.value)
    assert f"restore {NARROW[column]}, or start a new store" in str(caught.value)


def test_fields_of_avro_come_last(tmp_path: Path) -> None:
    """Its records are read in the order of the schema."""

    def of(*fields: str) -> Pipeline:
        item = {
            "type": "record",
            "name": "I",
            "fields": [{"name": name, "type": "string"} for name in fields],
        }
        listed = {"name": "items", "type": {"type": "array", "items": item}}
        record = {"type": "record", "name": "R", "fields": [{"name": "at", "type": "string"}, listed]}
        (tmp_path / "a.avsc").write_text(json.dumps(record))
        pipeline = pipeline_in(tmp_path, NARROW).model_dump(include={"name", "watermark"}, exclude_unset=True)
        source = {"files": {"path": "in", "format": {"avro": {"schema_file": "a.avsc"}}}}
        output = {"window": {"tumbling": "1m"}, "aggregates": {"n": "count(*)"}}
        return Pipeline.model_validate(
            {
                **pipeline,
                "base": tmp_path,
                "store": "avro",
                "source": source,
                "event": {"time": "at"},
                "outputs": {"carts": output},
            }
        )

    Store(of("sku"), source_columns(of("sku"))).pin()
    assert source_columns(of("sku", "color"))["items"] == "array<struct<sku:string,color:string>>"
    with pytest.raises(StoreMismatch, match=r"put new fields after those that are there \(array<struct<sku"):
        source_columns(of("color", "sku"))


@pytest.mark.parametrize(
    ("columns", "change", "why"),
    [
        (
            {"key": "to_json(items)"},
            WIDE,
            "items cannot get a field: output carts looks at its objects as a whole",
        ),
        ({"key": "cast(prices[0] as string)"}, {"prices": "array<double>"}, "prices cannot become a double"),
        ({"key": "prices[0]"}, {"prices": "array<double>"}, "the key of output carts is computed from it"),
    ],
)
def test_what_is_published_must_stay_what_it_was(
    tmp_path: Path, columns: dict[str, str], change: dict[str, str], why: str
) -> None:
    before, output = {**NARROW, "prices": "array<float>"}, {"columns": columns, "by": ["key"]}
    pinned(tmp_path, before, output)
    pipeline = pipeline_in(tmp_path, {**before, **change}, output)
    with pytest.raises(StoreMismatch, match=why):
        require_widenable(Store(pipeline, source_columns(pipeline)))
    other = pipeline_in(tmp_path, {**before, **change}, {"by": ["shop"]})
    require_widenable(Store(other, source_columns(other)))


def test_a_trigger_may_not_look_at_objects_that_get_a_field(tmp_path: Path) -> None:
    output = {"trigger": {"early": {"when": "to_json(items) like '%a%'"}}}
    pinned(tmp_path, NARROW, output)
    pipeline = pipeline_in(tmp_path, WIDE, output)
    with pytest.raises(StoreMismatch, match="output carts looks at its objects as a whole"):
        require_widenable(Store(pipeline, source_columns(pipeline)))


# A life


def cart(nth: int, shop: int = 1, **fields: Any) -> dict[str, Any]:
    return {
        "at": f"2026-11-08T08:00:{nth:02}Z",
        "id": f"c{nth}",
        "items": [{"sku": f"s{nth}", "qty": nth}, None],
        "attrs": {"shop": shop},
        "marks": [nth],
        **fields,
    }


def write(folder: Path, name: str, *rows: dict[str, Any]) -> None:
    (folder / "in" / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.long
def test_every_table_follows_and_the_numbers_stay(spark: SparkSession, tmp_path: Path) -> None:
    first = pipeline_in(tmp_path, NARROW)
    gold = [{"sku": "s2", "qty": 2, "tier": 2}]
    odd = [{"sku": "s3", "qty": 3, "tier": "high"}]
    write(
        tmp_path,
        "a.json",
        cart(1),
        cart(2, items=gold),
        cart(3, items=odd),
        cart(0, at="2026-11-08T08:02:00Z", items=gold),
        cart(4, items=gold),
    )
    run(first, once=True, spark=spark)
    stood = latecomer.Reader(first).results("carts").to_pylist()
    wider = pipeline_in(tmp_path, WIDE)
    write(tmp_path, "b.json", cart(5, at="2026-11-08T08:02:01Z", marks=[2**40]), cart(6, 2**40, items=gold))
    run(wider, drain=True, spark=spark)

    events = {
        row["event_id"]: row["items"]
        for row in open_store(wider).events.query("select event_id, items from t").to_pylist()
    }
    assert events["c1"] == [{"sku": "s1", "qty": 1, "tier": None}, None]
    assert events["c2"] == [{"sku": "s2", "qty": 2, "tier": 2}]  # kept, and filled in
    assert events["c3"] == [{"sku": "s3", "qty": 3, "tier": None}]  # no number
    late = sorted(latecomer.Reader(wider).late("carts").to_pylist(), key=lambda row: row["event_id"])
    assert [row["items"][0]["tier"] for row in late] == [None, 2]
    table = DeltaTable(tmp_path / "late").to_pyarrow_table().sort_by("event_id").to_pylist()
    assert [(row["items"], row["attrs"]) for row in table] == [(row["items"], row["attrs"]) for row in late]
    with closing(sqlite3.connect(tmp_path / "late.db")) as database:
        found = [
            json.loads(row[0]) for row in database.execute("select items from carts_late order by event_id")
        ]
    assert [items[0].get("tier") for items in found] == [None, 2]

    rows = {row["window_start"].minute: row for row in latecomer.Reader(wider).results("carts").to_pylist()}
    assert [rows[0][name] for name in ("n", "qty", "most")] == [
        stood[0][name] for name in ("n", "qty", "most")
    ]
    assert [rows[2][name] for name in ("n", "qty", "most")] == [2, 7, 2**40]
    assert check_ledger(wider, spark) == []
    assert latecomer.replay(wider, spark=spark).equal
    assert latecomer.explain(wider, "carts", "2026-11-08T08:02Z", {"shop": "1"}).reconciled
    # A field that came can be used, in an output that is computed from the log.
    tiers = {"window": {"tumbling": "1h"}, "by": ["tier"], "columns": {"tier": "items[0].tier"}}
    asked = wider.outputs | {"tiers": Output.model_validate({**tiers, "aggregates": {"n": "count(*)"}})}
    by_tier = wider.model_copy(update={"outputs": asked})
    run(by_tier, drain=True, spark=spark)
    counted = {row["tier"]: row["n"] for row in latecomer.Reader(by_tier).results("tiers").to_pylist()}
    assert counted == {None: 3, 2: 4}
