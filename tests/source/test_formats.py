"""JSON lines, CSV and Parquet: what is read, what is pinned, and what becomes of what cannot be read."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from latecomer.config.columns import infer_columns, source_warnings
from latecomer.config.paths import SourcePath, list_files
from latecomer.errors import SourceError
from latecomer.store.store import Store
from source.source_kit import (
    dead_letters,
    landed,
    ledger_lines,
    parquet_bytes,
    pipeline_in,
    rows_of,
    run_once,
    write_json,
    write_text,
)

AT = "2026-11-08T14:00:00Z"
SCHEMA = {"txn": "string", "at": "string", "paise": "bigint", "note": "string"}


def events(store: Store, *columns: str) -> list[tuple[Any, ...]]:
    """The columns of every event, by transaction."""
    return [
        tuple(row[column] for column in columns)
        for row in rows_of(store.events, "select * from t order by txn")
    ]


def pinned(folder: Path) -> dict[str, str]:
    columns: dict[str, str] = json.loads((folder / "store" / "pipeline.json").read_text())["columns"]
    return columns


def test_json_columns_are_inferred_pinned_and_held_to(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = pipeline_in(tmp_path)
    first = [
        {"txn": "a1", "at": AT, "paise": 5, "fare": 1, "ok": True, "tags": ["x", 1], "none": None},
        {"txn": "a2", "at": AT, "paise": 6, "fare": 2.5, "ok": None, "tags": {"deep": [1]}, "none": None},
    ]
    lines = [json.dumps(row) for row in first]
    text = "\n".join([lines[0], "{not json", lines[1][:-9], "", "   ", '"text"', "[1, 2]", "null", lines[1]])
    write_text(tmp_path, "a.json", text + "\n")
    write_text(tmp_path, "empty.json", "")
    write_text(tmp_path, "blank.json", "\n  \n\n")
    store = run_once(pipeline, spark)

    types = {"txn": "string", "at": "string", "paise": "bigint", "fare": "double", "ok": "boolean"}
    assert pinned(tmp_path) == {**types, "tags": "string", "none": "string"}
    assert events(store, "txn", "paise", "fare", "ok", "tags") == [
        ("a1", 5, 1.0, True, '["x", 1]'),
        ("a2", 6, 2.5, None, '{"deep": [1]}'),
    ]
    found = dead_letters(store)
    assert [(reason, raw, file) for reason, raw, file, _ in found] == [
        ("unreadable", raw, "a.json") for raw in ("{not json", lines[1][:-9], '"text"', "[1, 2]", "null")
    ]
    assert [position for *_, position in found][:2] == [1, 2]
    places = [row["position"] for row in rows_of(store.events, "select position from t")]
    places += [position for *_, position in found]
    assert len(places) == len(set(places)) == 7

    misfits = [
        {"txn": "m1", "at": AT, "paise": "12x"},
        {"txn": "m2", "at": AT, "paise": 1.5},
        {"txn": "m3", "at": AT, "ok": "maybe"},
        {"txn": "m4", "at": AT, "fare": [1]},
    ]
    later = [
        {"txn": "b1", "at": AT, "paise": 7, "unheard_of": 1},
        *misfits,
        {"at": AT, "txn": 17, "fare": 3},
        {"txn": "b2", "at": AT, "tags": "plain"},
    ]
    write_json(tmp_path, "b.json", later, nth=5)
    store = run_once(pipeline, spark)
    assert pinned(tmp_path) == {**types, "tags": "string", "none": "string"}
    assert events(store, "txn", "paise", "fare", "tags")[0] == ("17", None, 3.0, None)
    assert events(store, "txn", "paise", "fare", "tags")[3:] == [
        ("b1", 7, None, None),
        ("b2", None, None, "plain"),
    ]
    found = [each for each in dead_letters(store) if each[2] == "b.json"]
    assert found == [("unreadable", json.dumps(row), "b.json", nth) for nth, row in enumerate(misfits, 1)]
    assert ledger_lines(store, "totals")[1, "events"] == {"received": 7, "on_time": 3, "dead_letter": 4}


def test_csv_columns_go_by_name_and_a_misfit_row_is_a_dead_letter(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = pipeline_in(tmp_path, files={"format": "csv"}, schema=SCHEMA, ledger=["paise"])
    write_text(tmp_path, "a.csv", f"txn,at,paise,note\na1,{AT},5,x\n\na2,{AT},,\na3,{AT}\n")
    write_text(tmp_path, "b_reordered.csv", f'note,paise,at,txn\n"Ravi ""R"" & Sons, Pune",7,{AT},b1\n', 1)
    extra = f"{AT},c1,,e,n,8\n{AT},c2\n{AT},c3,,e,n,9,10,11\n{AT},c4,,e,n,12x\n"
    write_text(tmp_path, "c_extra.csv", "at,txn,,,note,paise\n" + extra, 2)
    write_text(tmp_path, "d_missing.csv", f"txn,at,paise\nd1,{AT},9\n", 3)
    write_text(tmp_path, "e_empty.csv", "", 4)
    write_text(tmp_path, "f_blank.csv", "\n\n", 5)
    write_text(tmp_path, "g_header_only.csv", "txn,at,paise,note\n", 6)
    write_text(tmp_path, "h_foreign.csv", "city,_metadata\nPune,1\n", 7)
    write_text(tmp_path, "i_twice.csv", f"txn,at,paise,paise\ni1,{AT},1,2\n", 8)
    write_text(tmp_path, "j_excel.csv", f"\ufefftxn,at,paise,note\r\nj1,{AT},4,y\r\n", 9)
    store = run_once(pipeline, spark)

    assert events(store, "txn", "paise", "note") == [
        ("a1", 5, "x"),
        ("a2", None, None),
        ("b1", 7, 'Ravi "R" & Sons, Pune'),
        ("c1", 8, "n"),
        ("d1", 9, None),
        ("j1", 4, "y"),
    ]
    by_file = {file: (reason, raw) for reason, raw, file, _ in dead_letters(store)}
    assert [
        (raw, file, place) for reason, raw, file, place in dead_letters(store) if reason == "unreadable"
    ] == [
        (f"a3,{AT}", "a.csv", 2),
        (f"{AT},c2", "c_extra.csv", 1),
        (f"{AT},c3,,e,n,9,10,11", "c_extra.csv", 2),
        (f"{AT},c4,,e,n,12x", "c_extra.csv", 3),
    ]
    assert by_file["h_foreign.csv"][0] == by_file["i_twice.csv"][0] == "unreadable_file"
    assert "none of the columns" in by_file["h_foreign.csv"][1]
    assert len(dead_letters(store)) == 6
    assert ledger_lines(store, "totals")[0, "events"] == {"received": 12, "on_time": 6, "dead_letter": 6}
    assert ledger_lines(store, "totals")[0, "paise"]["on_time"] == 33


def test_csv_columns_are_inferred_from_names_and_texts(tmp_path: Path) -> None:
    first = write_text(tmp_path, "a.csv", "txn,paise,fare,ok,note,none\n007,5,1,true,,\n2,-6,2.5,FALSE,x,\n")
    second = write_text(tmp_path, "b.csv", "none,more,txn\n,1.0,3\n,2,\n")
    assert infer_columns([str(first), str(second)], "csv") == {
        "txn": "string",
        "paise": "bigint",
        "fare": "double",
        "ok": "boolean",
        "note": "string",
        "none": "string",
        "more": "double",
    }


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path) -> None:
    excel = write_text(tmp_path, "a.csv", "\ufefftxn,paise\r\na1,5\r\n")
    assert infer_columns([str(excel)], "csv") == {"txn": "string", "paise": "bigint"}


def test_csv_without_header_goes_by_the_declared_order(spark: SparkSession, tmp_path: Path) -> None:
    files = {"format": "csv", "header": False, "delimiter": ";"}
    pipeline = pipeline_in(tmp_path, files=files, schema={"paise": "bigint", "at": "string", "txn": "string"})
    write_text(tmp_path, "a.csv", f"paise;at;txn\n5;{AT};a1\n6;{AT}\n7;{AT};a2\n")
    store = run_once(pipeline, spark)
    assert events(store, "txn", "paise", "position") == [("a1", 5, 1), ("a2", 7, 3)]
    assert dead_letters(store) == [
        ("unreadable", "paise;at;txn", "a.csv", 0),
        ("unreadable", f"6;{AT}", "a.csv", 2),
    ]


def test_a_parquet_file_that_does_not_fit_is_one_dead_letter(spark: SparkSession, tmp_path: Path) -> None:
    moments = pa.array([1_794_146_400_000_000], pa.timestamp("us", "UTC"))
    good = pa.array([5], pa.int64())
    pipeline = pipeline_in(tmp_path, files={"format": "parquet"}, ledger=["paise"])
    first = parquet_bytes(txn=pa.array(["a1"]), at=moments, paise=good, deep=pa.array([[1]]))
    write_text(tmp_path, "a.parquet", first)
    run_once(pipeline, spark)
    assert pinned(tmp_path) == {
        "txn": "string",
        "at": "timestamp",
        "paise": "bigint",
        "deep": "array<bigint>",
    }

    later = {
        "b_fewer": parquet_bytes(at=moments, txn=pa.array(["b1"])),
        "c_narrower": parquet_bytes(
            paise=pa.array([7], pa.int8()), txn=pa.array(["c1"]).dictionary_encode(), at=moments
        ),
        "d_more": parquet_bytes(txn=pa.array(["d1"]), more=good, at=moments, paise=good),
        "e_no_rows": parquet_bytes(txn=pa.array(["e1"]), at=moments, paise=good)[:],
        "f_nanos": parquet_bytes(
            txn=pa.array(["f1"]), at=moments.cast(pa.timestamp("ns", "UTC")), paise=good
        ),
        "p_garbage": b"PAR1 is how it starts and how it ends, PAR1",
        "q_cut_short": first[: len(first) // 2],
        "r_text": parquet_bytes(txn=pa.array(["r1"]), at=moments, paise=pa.array(["5"])),
        "s_list": parquet_bytes(txn=pa.array(["s1"]), at=moments, paise=pa.array([[5]])),
        "t_unsigned": parquet_bytes(txn=pa.array(["t1"]), at=moments, paise=pa.array([5], pa.uint64())),
    }
    for nth, (name, content) in enumerate(later.items(), 1):
        write_text(tmp_path, f"{name}.parquet", content, nth)
    pq.write_table(
        pq.read_table(tmp_path / "in" / "e_no_rows.parquet").slice(0, 0), tmp_path / "in/e_no_rows.parquet"
    )
    landed(tmp_path / "in" / "e_no_rows.parquet", 4)
    store = run_once(pipeline, spark)
    assert events(store, "txn", "paise") == [("a1", 5), ("b1", None), ("c1", 7), ("d1", 5), ("f1", 5)]
    found = dead_letters(store)
    assert [(reason, file) for reason, _, file, _ in found] == [
        ("unreadable_file", f"{name}.parquet") for name in later if name[0] >= "p"
    ]
    told = {file[0]: raw for _, raw, file, _ in found}
    assert told["r"] == "column paise is string, pinned as bigint"
    assert told["s"] == "column paise is array<bigint>, pinned as bigint"
    assert told["t"] == "column paise is decimal(20,0), pinned as bigint"
    assert ledger_lines(store, "totals")[1, "events"] == {"received": 9, "on_time": 4, "dead_letter": 5}


def test_nanoseconds_are_cut_to_microseconds_and_unsigned_numbers_kept_whole(
    spark: SparkSession, tmp_path: Path
) -> None:
    instant = 1_794_146_400_000_001_999
    nanos = [instant, -1, None]
    in_utc = pa.array(nanos, pa.timestamp("ns", "UTC"))
    local = pa.array(nanos, pa.timestamp("ns"))
    names = pa.array(["1", "2", "3"])
    huge = pa.array([2**64 - 1, 0, None], pa.uint64())
    pipeline = pipeline_in(
        tmp_path,
        files={"format": "parquet"},
        schema={"txn": "string", "at": "timestamp", "local": "timestamp_ntz", "huge": "decimal(20,0)"},
        ledger=["huge"],
    )
    write_text(tmp_path, "a.parquet", parquet_bytes(txn=names, at=in_utc, local=local, huge=huge))
    in_micros = {
        "at": in_utc.cast(pa.timestamp("us", "UTC"), safe=False),
        "local": local.cast(pa.timestamp("us"), safe=False),
    }
    write_text(tmp_path, "b.parquet", parquet_bytes(txn=names, **in_micros), 1)
    write_text(tmp_path, "c.parquet", parquet_bytes(txn=names, at=in_utc, local=in_micros["local"]), 2)
    pq.write_table(
        pa.table({"txn": names, "at": in_utc, "local": local}),
        tmp_path / "in" / "d.parquet",
        use_deprecated_int96_timestamps=True,
    )
    landed(tmp_path / "in" / "d.parquet", 3)
    store = run_once(pipeline, spark)

    sql = (
        "select origin, txn, cast(event_time as bigint) at, cast(local as bigint) local, huge from t "
        "order by origin, position"
    )
    found: dict[str, list[tuple[Any, ...]]] = {}
    for row in rows_of(store.events, sql):
        found.setdefault(row["origin"][0], []).append((row["at"], row["local"], row["huge"]))
    first = instant // 1000
    assert found["a"] == [(first, first, 2**64 - 1), (-1, -1, 0)]
    assert [times[:2] for times in found["b"]] == [(first, first), (0, 0)]
    assert [times[:2] for times in found["c"]] == [(first, first), (-1, 0)]
    assert [times[:2] for times in found["d"]] == [(first, first), (-1, -1)]
    assert [reason for reason, *_ in dead_letters(store)] == ["no_event_time"] * 4
    assert ledger_lines(store, "totals")[0, "huge"]["on_time"] == 2**64 - 1


def test_parquet_columns_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    columns: dict[str, pa.Array] = {
        "at": pa.array([1], pa.timestamp("ns")),
        "small": pa.array([1], pa.uint8()),
        "huge": pa.array([1], pa.uint64()),
        "view": pa.array(["x"], pa.string_view()),
        "fixed": pa.array([b"ab"], pa.binary(2)),
        "nothing": pa.nulls(1),
        "list": pa.array([[1]]),
        "times": pa.array([[1]], pa.list_(pa.timestamp("ns"))),
        "struct": pa.array([{"deep": 1}]),
        "time": pa.array([1], pa.time64("us")),
        "half": pa.array([1.5], pa.float16()),
        "uuid": pa.array([bytes(16)], pa.uuid()),
        "wide": pa.array([1], pa.decimal256(50, 0)),
    }
    file = write_text(tmp_path, "a.parquet", parquet_bytes(**columns))
    assert infer_columns([str(file)], "parquet") == {
        "at": "timestamp_ntz",
        "small": "smallint",
        "huge": "decimal(20,0)",
        "view": "string",
        "fixed": "binary",
        "list": "array<bigint>",
        "struct.deep": "bigint",
    }
    said = source_warnings(SourcePath(str(tmp_path / "in")), "parquet")
    assert [warning.split(" is left out")[0] for warning in said] == [
        "column times (list<element: timestamp[ns]>)",
        "column time (time64[us])",
        "column half (halffloat)",
        "column uuid (extension<arrow.uuid>)",
        "column wide (decimal256(50, 0))",
    ]
    assert "write its values as numbers, texts or timestamps" in said[0]
    old = tmp_path / "in" / "b.parquet"
    pq.write_table(pa.table({"at": columns["at"]}), old, use_deprecated_int96_timestamps=True)
    assert infer_columns([str(old)], "parquet") == {"at": "timestamp"}


def test_lists_and_maps_of_parquet_are_the_json_text_that_json_has_where_text_is_declared(
    tmp_path: Path, spark: SparkSession
) -> None:
    """A file may have text where another has a list; and what is no column is kept as a list."""
    made = pipeline_in(
        tmp_path,
        files={"format": "parquet"},
        schema={"txn": "string", "at": "string", "tags": "string", "deep.prices": "string"},
    )
    pipeline = made.model_copy(update={"source": made.source.model_copy(update={"unknown_fields": "keep"})})
    at = pa.array(["2026-04-25T12:00:00Z", "2026-04-25T12:00:01Z"])
    times = pa.array([[1], None], pa.list_(pa.timestamp("us", "UTC")))
    prices = pa.map_(pa.string(), pa.struct([("paise", pa.int64()), ("of", pa.list_(pa.decimal128(9, 2)))]))
    deep = pa.array(
        [{"prices": {"a": {"paise": 5, "of": [Decimal("1.50"), None]}}}, None],
        pa.struct([("prices", prices)]),
    )
    txn, tags = pa.array(["a", "b"]), pa.array([["x", 'é"', None], []])
    write_text(tmp_path, "a.parquet", parquet_bytes(txn=txn, at=at, tags=tags, deep=deep, times=times))
    write_text(
        tmp_path, "b.parquet", parquet_bytes(txn=pa.array(["c", "d"]), at=at, tags=pa.array(["[1]", None])), 1
    )
    store = run_once(pipeline, spark)
    rows = rows_of(store.events, 'select txn, tags, "deep.prices" prices, unknown_fields from t order by txn')
    assert [tuple(row.values()) for row in rows] == [
        (
            "a",
            '["x","é\\"",null]',
            '{"a":{"paise":5,"of":[1.50,null]}}',
            '{"times":["1970-01-01T00:00:00.000001Z"]}',
        ),
        ("b", "[]", None, None),
        ("c", "[1]", None, None),
        ("d", None, None, None),
    ]


def test_a_file_whose_name_is_not_text_is_told(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.json")).write_text("{}")
    (tmp_path / "fine.json").write_text("{}")
    assert list_files(str(tmp_path)) == [str(tmp_path / "fine.json")]
    (said,) = source_warnings(SourcePath(str(tmp_path)), "json")
    assert said.endswith("caf\\xe9.json' is not read: its name is not UTF-8; rename it")


def test_parquet_files_whose_types_differ_widen_where_that_is_exact(
    spark: SparkSession, tmp_path: Path
) -> None:
    moments = pa.array([AT] * 3)
    pandas = {"half": pa.array([0.5, 2.25, None], pa.float32()), "qty": pa.array([7, None, 2**53 + 1])}
    write_text(
        tmp_path,
        "a.parquet",
        parquet_bytes(
            txn=pa.array(["a1", "a2", "a3"]), at=moments, few=pa.array([1, 2, 3], pa.int8()), **pandas
        ),
    )
    others = {"few": pa.array([2**40]), "half": pa.array([0.1]), "qty": pa.array([8.5])}
    write_text(tmp_path, "b.parquet", parquet_bytes(txn=pa.array(["b1"]), at=moments[:1], **others), 1)
    pipeline = pipeline_in(tmp_path, files={"format": "parquet"})
    store = run_once(pipeline, spark)
    assert {name: kind for name, kind in pinned(tmp_path).items() if name not in ("txn", "at")} == {
        "few": "bigint",
        "half": "double",
        "qty": "double",
    }
    assert events(store, "txn", "few", "half", "qty") == [
        ("a1", 1, 0.5, 7.0),
        ("a2", 2, 2.25, None),
        ("b1", 2**40, 0.1, 8.5),
    ]
    # A row whose number no double holds is a dead letter; its neighbours are not.
    (letter,) = rows_of(store.dead_letters, "select reason, raw from t")
    assert letter["reason"] == "unreadable"
    assert json.loads(letter["raw"], parse_float=Decimal)["qty"] == 2**53 + 1


def test_parquet_files_that_no_type_holds_are_named_before_anything_is_pinned(tmp_path: Path) -> None:
    first, second = (
        write_text(tmp_path, f"{nth}.parquet", parquet_bytes(at=column))
        for nth, column in enumerate(
            (pa.array([0], pa.timestamp("us", "UTC")), pa.array([0], pa.timestamp("us")))
        )
    )
    with pytest.raises(SourceError) as raised:
        infer_columns([str(first), str(second)], "parquet")
    assert f"column at is timestamp in {first} and timestamp_ntz in {second}" in str(raised.value)


@pytest.mark.parametrize("text_first", [True, False])
def test_text_beside_a_number_is_named_in_either_order_and_lists_are_text(
    tmp_path: Path, text_first: bool
) -> None:
    text, number = pa.array(["a"]), pa.array([1])
    for nth, column in enumerate((text, number) if text_first else (number, text)):
        write_text(tmp_path, f"{nth}.parquet", parquet_bytes(at=column))
    files = [str(tmp_path / "in" / f"{nth}.parquet") for nth in range(2)]
    with pytest.raises(SourceError, match="no type holds both"):
        infer_columns(files, "parquet")
    for nth, column in enumerate((pa.array([[1]]), pa.array([["a"]]))):
        write_text(tmp_path, f"{nth}.parquet", parquet_bytes(at=column))
    assert infer_columns(files, "parquet") == {"at": "string"}
