"""Lists and maps as columns: how they are declared and found, and where they may not stand."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from latecomer.config.column_checks import check_columns
from latecomer.config.columns import infer_columns, unknown_in_files
from latecomer.config.parquet import parquet_columns
from latecomer.model.types import flat_types, normal_type
from latecomer.model.written_values import csv_column, json_column
from latecomer.sink.sqlite import storable
from latecomer.source.decode.base import SourceFile
from latecomer.source.decode.parquet_reading import ParquetReading
from latecomer.store.layout import arrow_type
from source.source_kit import pipeline_in

ITEMS = "array<struct<sku:string,price:decimal(9,2)>>"


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("array<LONG>", "array<bigint>"),
        (" Map < string , array<decimal(9, 2)> > ", "map<string,array<decimal(9,2)>>"),
        ("array<struct<sku: text, `unit, price`: struct<net: double>>>", None),
        ("array<struct<`a``b`:int>>", "array<struct<`a``b`:int>>"),
    ],
)
def test_a_type_has_one_spelling(written: str, kind: str | None) -> None:
    found = normal_type(written)
    assert found == (kind or "array<struct<sku:string,`unit, price`:struct<net:double>>>")
    assert normal_type(found) == found


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("array<>", "'array<>' is no type; write array<type>"),
        ("array<int", "unknown type 'array<int'"),
        ("map<string>", "write map<string,type>"),
        ("map<int,string>", "the keys of .* are int, and keys are string"),
        ("array<timestamp_ntz>", "holds no timestamp_ntz; declare timestamp, or string"),
        ("array<struct<a:int,A:int>>", "fields that differ only in case"),
        ("array<struct<a int>>", "'a int' is no field; write struct<name: type, name: type>"),
        ("array<" * 11 + "int" + ">" * 11, "nested more than 10 deep; declare it as string"),
        ("array<money>", "unknown type 'money'; there are .*array<type> and map<string,type>"),
    ],
)
def test_what_is_no_type_says_what_to_write(written: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        flat_types("tags", written)


def test_fields_of_objects_are_columns_and_lists_within_them_are_lists() -> None:
    assert flat_types("cart", {"tags": "array<string>", "owner": "struct<ids: array<int>>"}) == {
        "cart.tags": "array<string>",
        "cart.owner.ids": "array<int>",
    }


COLUMNS = {"at": "string", "id": "string", "tags": "array<string>", "attrs": "map<string,bigint>"}
PART = "name a column that is computed from it, such as columns: "


@pytest.mark.parametrize(
    ("settings", "field", "said", "fix"),
    [
        (
            {"outputs": {"by": ["tags"]}},
            "outputs.totals.by.0",
            "is array<string>, and a key is one value",
            PART + '{tags_part: "tags[0]"}',
        ),
        (
            {"outputs": {"aggregates": {"n": "max(attrs)"}}},
            "outputs.totals.aggregates.n",
            "max takes one value of each event, and attrs is map<string,bigint>",
            PART + "{attrs_part: \"attrs['key']\"}",
        ),
        ({"event": {"id": "tags"}}, "event.id", "is array<string>, and it is one value", PART),
        ({"event": {"partition": "attrs"}}, "event.partition", "and it is one value", PART),
        ({"event": {"time": "tags"}}, "event.time", "and it is one value", PART),
        ({"ledger": ["tags"]}, "ledger.0", "cannot be summed exactly", "declare it"),
        (
            {"files": {"format": "csv"}},
            "source.schema.tags",
            "a field of CSV is text and cannot be a list or a map",
            "declare it as string",
        ),
    ],
    ids=lambda each: str(each)[:30],
)
def test_a_list_stands_for_no_single_value(
    tmp_path: Path, settings: dict[str, Any], field: str, said: str, fix: str
) -> None:
    output = {"window": {"tumbling": "1m"}, "aggregates": {"n": "count(*)"}, **settings.get("outputs", {})}
    pipeline = pipeline_in(tmp_path, schema=COLUMNS, **{**settings, "outputs": {"totals": output}})
    problem = next(each for each in check_columns(pipeline, COLUMNS) if each.field == field)
    assert said in problem.message
    assert fix in (problem.fix or "")


def test_what_is_in_a_list_may_stand_there(tmp_path: Path) -> None:
    output = {
        "window": {"tumbling": "1m"},
        "by": ["tag"],
        "where": "size(tags) > 1",
        "aggregates": {"n": "max(k)"},
    }
    columns = {"tag": "tags[0]", "k": "attrs['k']"}
    pipeline = pipeline_in(tmp_path, schema=COLUMNS, outputs={"totals": output}, columns=columns)
    assert check_columns(pipeline, COLUMNS) == []


# Found in files


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([["a"], [], None], "array<string>"),
        ([[], [None]], "array<string>"),
        ([[1], [2.5]], "array<double>"),
        ([[[1]], [[], [2**70]]], "array<array<decimal(38,0)>>"),
        ([[1, "a"]], "string"),
        ([[1], ["a"]], "string"),
        ([[1], "a"], "string"),
        ([[{"a": 1}]], "string"),
        ([[[1], 2]], "string"),
    ],
    ids=str,
)
def test_lists_in_json(tmp_path: Path, values: list[Any], kind: str) -> None:
    file = tmp_path / "a.json"
    file.write_text("".join(json.dumps({"tags": value}) + "\n" for value in values))
    assert infer_columns([str(file)], "json") == {"tags": kind}


def test_an_object_that_is_declared_as_a_map_has_no_unknown_fields(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"attrs": {"k": 1, "b": 2}, "note": 1}\n')
    assert unknown_in_files(["attrs"], [str(file)], "json", ",", "utf-8") == ["note"]


def written(folder: Path, **columns: pa.Array) -> Path:
    file = folder / "a.parquet"
    pq.write_table(pa.table(columns), file)
    return file


def test_lists_in_parquet_are_what_they_are_or_text(tmp_path: Path) -> None:
    item = pa.struct([("sku", pa.string()), ("price", pa.decimal128(9, 2))])
    days = pa.map_(pa.date32(), pa.int64())
    file = written(
        tmp_path,
        items=pa.array([[{"sku": "a", "price": Decimal("1.00")}]], pa.list_(item)),
        attrs=pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
        days=pa.array([[]], days),
        walls=pa.array([[]], pa.list_(pa.timestamp("us"))),
    )
    found = {"items": ITEMS, "attrs": "map<string,bigint>", "days": "string", "walls": "string"}
    assert infer_columns([str(file)], "parquet") == found
    assert parquet_columns(file).kinds == dict.fromkeys(found, "string")


@pytest.mark.parametrize(
    ("pinned", "unknown", "said"),
    [
        ({"items": ITEMS, "ids": "array<bigint>"}, "keep", None),
        ({"items": "string", "ids": "string"}, "keep", None),
        ({"items": "array<struct<sku:string>>"}, "ignore", None),
        (
            {"items": "array<struct<sku:string>>"},
            "dead_letter",
            f"column items is {ITEMS}, pinned as array<struct<sku:string>>",
        ),
        ({"items": ITEMS.replace("price", "net")}, "ignore", None),
        ({"items": ITEMS.replace("9,2", "12,2")}, "ignore", f"column items is {ITEMS}, pinned as"),
        ({"ids": "array<string>"}, "ignore", "column ids is array<int>, pinned as array<string>"),
        ({"ids": "map<string,int>"}, "ignore", "column ids is array<int>, pinned as map<string,int>"),
        ({"ids": "bigint"}, "ignore", "pinned as bigint"),
    ],
)
def test_a_column_takes_lists_of_its_own_type(
    tmp_path: Path, pinned: dict[str, str], unknown: Any, said: str | None
) -> None:
    item = pa.struct([("sku", pa.string()), ("price", pa.decimal128(9, 2))])
    file = written(tmp_path, items=pa.array([[]], pa.list_(item)), ids=pa.array([[1]], pa.list_(pa.int32())))
    found = ParquetReading(pinned, unknown).misfit(SourceFile(str(file), 1, 1))
    assert found is None if said is None else said in (found or "")


# Shown


def test_lists_and_maps_are_written_as_json() -> None:
    items = pa.chunked_array(
        [pa.array([[{"sku": "é", "price": Decimal("1.50")}, None], None], arrow_type(ITEMS))]
    )
    attrs = pa.chunked_array([pa.array([[("k", 1), ("b", None)], []], arrow_type("map<string,bigint>"))])
    assert json_column(items) == [[{"sku": "é", "price": "1.50"}, None], None]
    assert json_column(attrs) == [{"k": 1, "b": None}, {}]
    texts = ['[{"sku": "é", "price": "1.50"}, null]', None]
    assert storable(items) == csv_column(items) == texts
    assert storable(attrs) == ['{"k": 1, "b": null}', "{}"]
