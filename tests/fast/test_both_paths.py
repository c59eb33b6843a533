"""Both paths say the same: what the fast one takes, Spark reads alike, and whole runs leave the same tables."""

from __future__ import annotations

import contextlib
import json
import os
import random
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from latecomer.fast import VARIABLE, Declined
from latecomer.log.in_process import micros
from pyspark.sql import SparkSession

from fast import lines_kit
from latecomer.config.models import Event, Output, Pipeline
from latecomer.config.sources import Files, Source, UnknownFields
from latecomer.decode.arrow_json import json_lines
from latecomer.decode.arrow_text import column_type
from latecomer.decode.columns import CORRUPT, KEPT, RECORD
from latecomer.decode.files import SourceFile
from latecomer.decode.json import JsonFiles, JsonRecords
from latecomer.log.envelope import micros as micros_sql
from latecomer.log.envelope import micros as spark_micros
from latecomer.model.strategies import Bounded
from latecomer.pipeline import Engine
from latecomer.source.found_files import FileSlice
from latecomer.spark.session import own_session
from latecomer.store.store import Store
from latecomer.store.table import Table

COLUMNS = {"at": "string", **lines_kit.COLUMNS}
ODD = [
    *('{"n":1,"n":2}', '{"n":null,"n":2}', '{"n":2,"n":null}', '{"n":1,"\\u006e":2}', '{"z":1,"z":2,"n":3}'),
    *('{"n":1.0}', '{"n":1e2}', '{"n":-0}', '{"n":9223372036854775807}', '{"n":9223372036854775808}'),
    *(
        '{"n":-9223372036854775808}',
        '{"n":"5"}',
        '{"n":true}',
        '{"n":01}',
        '{"n":+1}',
        '{"n":[1]}',
        '{"n":{}}',
    ),
    *(
        '{"t":127}',
        '{"t":128}',
        '{"t":-128}',
        '{"t":null}',
        '{"b":true}',
        '{"b":"true"}',
        '{"b":0}',
        '{"b":null}',
    ),
    *('{"d":5}', '{"d":-0.0}', '{"d":1e400}', '{"d":1e-400}', '{"d":NaN}', '{"d":"NaN"}', '{"d":Infinity}'),
    *('{"d":0.1}', '{"d":4.9e-324}', '{"d":2.2250738585072011e-308}', '{"d":1.7976931348623157e308}'),
    *('{"d":12345678901234567890123}', '{"d":9007199254740993}', '{"d":0.30000000000000004}', '{"d":1E5}'),
    *('{"d":123456789.12345678901234567890}', '{"d":.5}', '{"d":5.}', '{"d":-1e+3}', '{"d":1e05}'),
    *('{"s":5}', '{"s":true}', '{"s":{"x":1}}', '{"s":[1]}', '{"s":null}', '{"s":""}', '{"s":"null"}'),
    *(
        '{"s":"\\u00e9\\n\\/\\t\\\\"}',
        '{"s":"\\u0000"}',
        '{"s":"\\ud83d\\ude00"}',
        '{"s":"\\ud83d"}',
        '{"s":"\\x"}',
    ),
    *(
        '{"s":"é😀\\u20ac"}',
        '{"s":"\x7f"}',
        '{"s":"\ufffd"}',
        '{"s":"\ufeff"}',
        '{"s":"\u2028"}',
        '{"S":"x"}',
    ),
    *(
        "{'s':'x'}",
        '{s:"x"}',
        '{"s":"x",}',
        '{"s":"x"} // no',
        '{"s":"x"/**/}',
        '{"s" : "x" }',
        '{"s":"x"}{"s":"y"}',
    ),
    *("{}", '{"":1}', '[{"n":1}]', "[]", "null", "5", '""', "", " ", '{"n":1', '{"n":1}}', '{"z":NaN,"n":1}'),
    *(
        '{"z":Inf,"n":1}',
        '{"z":[1,[2,{"n":9}]],"n":1}',
        '{"z":1e99999,"n":1}',
        '{"z":tru,"n":1}',
        '{"z":"\\q","n":1}',
    ),
    *('{"z":' + "[" * 600 + "]" * 600 + ',"n":1}', '{"z":' + "[" * 1200 + "]" * 1200 + ',"n":1}'),
    *(
        f'{{"m":{number}}}'
        for number in ("1", "1.5", "-2.25", "1.500", "1.005", "9999999.99", "10000000", "-0", "0.0")
    ),
    *(
        f'{{"m":{number}}}'
        for number in ("1e2", "1E-2", "100e-1", "0e-50", "0e30", "1e-50", "1e7", "true", "null")
    ),
    *(
        f'{{"m":"{text}"}}'
        for text in ("1.5", "", " 1", "+5", "1,000", "1e2", ".", ".5", "5.", "NaN", "1\\u00652")
    ),
    *(
        f'{{"m":"{text}"}}'
        for text in ("0e1000", "0e-1000", "0e0000000000001", "0x1F", "1_0", "0" * 60, "-" + "0" * 60)
    ),
    *(
        f'{{"day":{day}}}'
        for day in ('"2026-01-05"', '"2026-02-30"', '"2026-1-5"', '""', "5", '"1582-10-10"', "null")
    ),
    *(
        f'{{"ts":"{text}"}}'
        for text in ("2026-01-05T14:00:00Z", "2026-01-05", "2026-01-05T14:00:00.123456789+05:30")
    ),
    *(
        f'{{"ts":{text}}}'
        for text in ("1767621600", '""', '"2026-01-05T24:00:00Z"', '"1500-01-01T00:00:00Z"', "null")
    ),
    *(
        f'{{"ntz":"{text}"}}'
        for text in ("2026-01-05T14:00:00Z", "2026-01-05T14:00:00", "2026-01-05 14:00", "2026-01-05")
    ),
    *('{"z":' + "1" * 950 + ',"n":1}', '{"z":' + "1" * 1100 + ',"n":1}', '{"s":"' + "x" * 2000 + '"}'),
]
WITH_OTHERS = [
    *('{"n":1,"tip":1.10}', '{"tip": 1.10 , "n": 1, "tip":1e40 }', '{"z":{"n":[1,{"é":"\\u00e9"}]}}', '{"N":1}'),
    *('{"\\u006e":5}', '{ "a":"}","n":2,"y":"{\\"", "s":"x" }', '{"":null}', '{"z":"\u2028\x7f","t":1}'),
]  # fmt: skip
TIMES = [
    *("2026-01-05T14:00:00Z", "2026-01-05T14:00:00.1Z", "2026-01-05T14:00:00.123456Z", "2026-01-05 14:00:00"),
    *("2026-01-05T14:00:00.1234567Z", "2026-01-05T14:00:00+05:30", "2026-01-05T14:00Z", "2026-01-05", "2026-1-5 1:00"),
    *("2026-02-29T14:00:00Z", "2024-02-29T23:59:59Z", "2026-01-05T24:00:00Z", "2026-01-05T23:59:60Z"),
    *("0001-01-01T00:00:00",),
    *("1582-10-10T00:00:00Z", "1969-12-31T23:59:59.999999Z", "9999-12-31T23:59:59Z", " 2026-01-05T14:00:00Z", "12:30"),
    *("2026-01-05T14:00:00ZZ", "2026-01-05T14:00:00z", "2026-01-05T14:00:00.Z", "2026-01-05t14:00:00Z", "2026"),
    *("2026-01-05T14:00+05:30", "2026-01-05 14:00:00.123456789-17:59", "2026-01-05T14:00:00+18:00", "2026-01-05 14:00"),
    *("2026-01-05T14:00:00+05:60", "2026-01-05T14:00:00+0530", "2026-01-05T14:00:00.5+00:00", "2026-01-05Z"),
    *("2026-01-05T14:00:00 ", "２026-01-05T14:00:00Z", "2026-13-05T14:00:00Z", "2026-01-32T14:00:00Z", "", "Z"),
]  # fmt: skip


def mutants(count: int) -> list[str]:
    """Plain lines with a byte or two changed, taken out, or put twice."""
    draw = random.Random(7)
    found = []
    for _ in range(count):
        line = (
            f'{{"at":"2026-01-05T14:{draw.randrange(60):02d}:00Z","s":"a{draw.choice(["", "é", chr(92) * 2])}b",'
            f'"n":{draw.randrange(-9, 10 ** draw.randrange(1, 19))},"t":{draw.randrange(-128, 128)},'
            f'"d":{draw.uniform(-1e3, 1e3)!r},"b":{draw.choice(["true", "false", "null"])},'
            f'"m":{draw.choice(["1.5", "-2.25", chr(34) + "7" + chr(34), "1e2"])},'
            f'"day":"2026-01-{draw.randrange(10, 30)}",'
            f'"ts":"2026-01-05T14:00:0{draw.randrange(9)}{draw.choice(["Z", "+05:30", ""])}"}}'
        )
        found.append(lines_kit.mutated(line, draw, '{}[]",:\\ 0123456789eE.+-untfl'))
    return found


def taken(lines: list[str], unknown: UnknownFields = "ignore") -> list[str]:
    """The lines that the fast path takes, each by itself."""
    found = []
    for line in lines:
        try:
            json_lines(line.encode(), COLUMNS, unknown)
        except Declined:
            continue
        found.append(line)
    return found


def shown(rows: pa.Table) -> list[str]:
    return [repr(row) for row in rows.select(list(COLUMNS)).to_pylist()]


def readable(text: str) -> bool:
    try:
        micros(pa.array([text]), "string", None, "UTC")
    except Declined:
        return False
    return True


def test_what_the_fast_path_reads_spark_reads_alike(spark: SparkSession, tmp_path: Path) -> None:
    times = [text for text in TIMES if readable(text)]
    assert 5 < len(times) < len(TIMES)
    lines = taken([*ODD, *mutants(3000), *(json.dumps({"at": text}, ensure_ascii=False) for text in times)])
    assert len(lines) > 1000
    assert len(taken(ODD)) < len(ODD) - 40
    file = tmp_path / "odd.json"
    file.write_bytes(("\n".join(lines) + "\n").encode())
    here = json_lines(file.read_bytes(), COLUMNS)

    decoder = JsonFiles(Files(path=str(tmp_path)), COLUMNS)
    (read,) = decoder.parts(lambda: spark.read, [SourceFile(f"file://{file}", 0, 0)], by_line=False)
    sql = micros_sql("at", "string", None, "UTC")
    values = (f"{decoder.value(name, by_line=False)} as {name}" for name in COLUMNS)
    there = pa.table(read.selectExpr(*values, CORRUPT, f"{sql} as micros").coalesce(1).toArrow())

    assert there.column(CORRUPT).null_count == there.num_rows
    assert shown(there) == shown(here)
    expected = micros(pa.array(times), "string", None, "UTC").to_pylist()
    assert there.column("micros").to_pylist()[-len(times) :] == expected


SCHEMA = {
    "id": "string",
    "at": "string",
    "arrived": "string",
    "shop": "string",
    "paise": "bigint",
    "rate": "double",
    "ok": "boolean",
    "fee": "decimal(9,2)",
    "day": "date",
}


@pytest.mark.parametrize("unknown", ["ignore", "keep", "dead_letter"])
def test_what_the_fast_path_reads_spark_reads_alike_as_records(
    spark: SparkSession, unknown: UnknownFields
) -> None:
    """A record of a topic is decoded by `from_json`, and not by the reader of files."""
    lines = taken([*ODD, *WITH_OTHERS, *mutants(3000)], unknown)
    assert len(lines) > 1000
    here = json_lines("\n".join(lines).encode(), COLUMNS, unknown)
    records = pa.table({RECORD: pa.array([line.encode() for line in lines])})
    decoded = JsonRecords(unknown).decoded(spark.createDataFrame(records), COLUMNS)
    there = pa.table(decoded.toArrow())
    assert there.column(CORRUPT).null_count == there.num_rows
    assert shown(there) == shown(here)
    if unknown == "keep":
        assert there.column(KEPT).to_pylist() == here.column(KEPT).to_pylist()
        assert set(WITH_OTHERS) <= set(lines)
    if unknown == "dead_letter":
        assert not set(WITH_OTHERS) & set(lines)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
def test_wall_clocks_are_those_of_java(spark: SparkSession, zone: str) -> None:
    """Every ten minutes of the days on which the clocks of 2025 change; what Arrow declines is left out."""
    days = [
        date(2025, 3, 9),
        date(2025, 3, 30),
        date(2025, 4, 6),
        date(2025, 10, 5),
        date(2025, 10, 26),
        date(2025, 11, 2),
    ]
    every = [f"{day}T{hour:02d}:{tens}0:00" for day in days for hour in range(24) for tens in range(6)]
    here: dict[str, int] = {}
    for text in every:
        with contextlib.suppress(Declined):
            (here[text],) = micros(pa.array([text]), "string", None, zone).to_pylist()
    assert len(every) - len(here) in (3, 6)
    there = spark.createDataFrame(pa.table({"at": list(here)})).selectExpr(
        f"{spark_micros('at', 'string', None, zone)} as m"
    )
    assert pa.table(there.toArrow()).column("m").to_pylist() == list(here.values())


def moment(second: float) -> str:
    minutes, seconds = divmod(second, 60)
    return f"2026-01-05T14:{int(minutes):02d}:{seconds:09.6f}Z"


FEES = [None, Decimal("0.50"), Decimal("-2.25"), Decimal("1200")]
WHY_SPARK = {
    "json": "lines that are not one object each",
    "csv": "CSV that is not plain",
    "parquet": "times that are written in another way",
}


def batches(folder: Path, form: str) -> list[FileSlice]:
    """Four batches of payments, some late and some too late. The third has two files, and in one of them lines that are
    none."""
    draw, slices = random.Random(5), []
    folder.mkdir()
    for number in range(4):
        rows: list[dict[str, Any]] = []
        for nth in range(60):
            arrived = 60 + number * 120 + nth * 2
            behind = draw.choice([1, 1, 1, 30, 200, 400])
            name = draw.choice([None, f"a'{draw.randrange(90)}", f"b{arrived}"])
            row: dict[str, Any] = {
                "id": name,
                "at": moment(max(arrived - behind, 0)),
                "arrived": moment(arrived),
            }
            row |= {"shop": draw.choice(["a", "b", "é", None]), "paise": draw.choice([None, 5, -7, 1 << 40])}
            row |= {
                "rate": draw.choice([None, 0.5, -2.25, 3.0]),
                "ok": draw.choice([True, True, False, None]),
                "fee": draw.choice(FEES),
                "day": draw.choice([None, date(2026, 1, 5), date(2026, 1, 6)]),
            }
            rows.append(row)
        if number == 2:
            rows.append(dict.fromkeys(SCHEMA) | {"at": "yesterday", "arrived": moment(420), "paise": 3})
        parts = {f"{number}": rows[:40], f"{number}-more": rows[40:]} if number == 2 else {f"{number}": rows}
        files = []
        for name, some in parts.items():
            file = folder / f"{name}.{form}"
            write(file, some, broken=name == "2-more")
            os.utime(file, (1_000_000 + number, 1_000_000 + number))
            files.append(SourceFile(f"file://{file}", (1_000_000 + number) * 1_000_000, file.stat().st_size))
        slices.append(FileSlice.of(files))
    return slices


def write(file: Path, rows: list[dict[str, Any]], broken: bool) -> None:
    if file.suffix == ".parquet":
        schema = pa.schema([(name, column_type(kind)) for name, kind in SCHEMA.items()])
        pq.write_table(pa.Table.from_pylist(rows, schema), file)
        return
    if file.suffix == ".csv":
        lines = [",".join(SCHEMA), *(",".join(map(written, row.values())) for row in rows)]
    else:
        lines = [json.dumps(row, default=str) for row in rows]
    file.write_text("\n".join([*lines, *(["not a payment"] if broken else [])]) + "\n", "utf-8")


def written(value: object) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


COMMON = {
    "n": "count(*)",
    "shops": "count(shop)",
    "paise": "sum(paise)",
    "least": "min(paise)",
    "most": "max(at)",
}
ALL = {
    **COMMON,
    "mean": "avg(paise)",
    "rates": "sum(rate)",
    "rate": "avg(rate)",
    "first": "min(shop)",
    "top": "max(rate)",
    "fees": "sum(fee)",
    "top_fee": "max(fee)",
    "first_day": "min(day)",
    "mean_fee": "avg(fee)",
    "spread": "variance(paise)",
    "deviation": "stddev_pop(fee)",
}
ADDED = {"n": "count(*)", "shops": "count(shop)", "paise": "sum(paise)", "fees": "sum(fee)"}
OUTPUTS = {
    "updated": Output(
        window={"tumbling": "1m"}, by=["shop"], aggregates=ALL, allowed_lateness="3m", late="update"
    ),
    "retracted": Output(
        window={"tumbling": "1m"},
        by=["shop", "ok"],
        aggregates=COMMON,
        allowed_lateness="3m",
        late="retract",
        where="ok = true or paise > 0",
    ),
    "sliding": Output(window={"sliding": "90s", "every": "60s"}, aggregates=ALL, allowed_lateness="1m"),
    "zoned": Output(
        window={"calendar": "day", "zone": "Asia/Kolkata"},
        by=["ok"],
        aggregates=COMMON,
        allowed_lateness="1m",
    ),
    "dropped": Output(
        window={"tumbling": "30s", "offset": "7s"}, aggregates=COMMON, late="drop", too_late="drop"
    ),
    "whole": Output(window={"global": True}, by=["shop"], aggregates=COMMON),
    "discarded": Output(
        window={"tumbling": "1m"},
        by=["shop"],
        aggregates=ADDED,
        allowed_lateness="3m",
        late="update",
        accumulation="discarding",
        trigger={"late": {"count": 2}},
    ),
    "early": Output(
        window={"tumbling": "5m"}, by=["day"], aggregates=ALL, allowed_lateness="3m", trigger={"early": "30s"}
    ),
    "early_retracted": Output(
        window={"sliding": "4m", "every": "2m"},
        by=["shop"],
        aggregates=COMMON,
        allowed_lateness="3m",
        late="retract",
        trigger={"early": {"count": 9}, "on_time": "if_changed"},
    ),
    "early_discarded": Output(
        window={"tumbling": "3m"},
        by=["ok"],
        aggregates=ADDED,
        allowed_lateness="3m",
        accumulation="discarding",
        trigger={"early": {"every": "40s", "clock": "event"}, "on_time": "if_changed"},
    ),
    "early_whole": Output(
        window={"global": True}, aggregates=COMMON, trigger={"early": {"every": "1m", "clock": "event"}}
    ),
    "derived": Output(
        window={"tumbling": "1m"},
        columns={
            "size": "case when paise > 100 then 'big' when paise is null then null else 'small' end",
            "doubled": "paise * 2",
            "halved": "rate / 2",
            "huge": "paise * 9223372036854775807",
        },
        by=["size"],
        aggregates={
            "n": "count(doubled)",
            "twice": "sum(doubled)",
            "half": "sum(halved)",
            "huge": "max(huge)",
        },
        where="doubled != 10 or size = 'small'",
        late="side_output",
    ),
}


def played(
    spark: SparkSession,
    folder: Path,
    slices: list[FileSlice],
    event: dict[str, Any],
    every: str,
    form: Literal["json", "csv", "parquet"],
) -> tuple[dict[str, list[str]], Engine]:
    """What a run leaves behind, table by table."""
    source = Source(files=Files(path=str(folder / "in"), format=form, order_by="arrived"), columns=SCHEMA)
    pipeline = Pipeline(
        name="both",
        store=str(folder / f"store-{os.environ[VARIABLE]}"),
        source=source,
        event=Event(time="at", **event),
        watermark=Bounded("20s", every=every),
        outputs=OUTPUTS,
        ledger=("paise", "fee"),
    )
    store = Store(pipeline, SCHEMA)
    engine = Engine(own_session(spark), store, clock=lambda: 1_800_000_000_000_000)
    engine.start()
    for number, piece in enumerate(slices):
        engine.data(number, piece)
    engine.drain()
    engine.finish()
    engine.close()
    tables = {"events": store.events, "duplicates": store.duplicates}
    tables |= {"dead letters": store.dead_letters, "watermarks": store.watermarks}
    tables |= {"ledger": store.ledger, "publications": store.publications}
    for output in engine.outputs:
        kept = output.tables
        tables |= {f"{output.name} panes": kept.panes, f"{output.name} late": kept.late}
        tables |= {f"{output.name} open": kept.partials}
    return {name: rows_of(table) for name, table in tables.items()}, engine


def rows_of(table: Table) -> list[str]:
    if not table.exists:
        return []
    rows = (
        table.dataset(table.files(), table.schema).to_table() if table.files() else table.schema.empty_table()
    )
    return sorted(repr(row) for row in rows.to_pylist())


@pytest.mark.long
@pytest.mark.parametrize(
    ("event", "every", "form"),
    [
        ({"partition": "shop"}, "1s", "json"),
        ({"partition": "shop", "id": "id"}, "10s", "csv"),
        ({"id": ["id", "paise"], "producer": "shop", "producer_seq": "paise"}, "event", "parquet"),
    ],
    ids=["plain", "with an id", "with an id of two columns and ticks of one event"],
)
def test_both_paths_leave_the_same_tables(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    event: dict[str, Any],
    every: str,
    form: Literal["json", "csv", "parquet"],
) -> None:
    slices = batches(tmp_path / "in", form)
    monkeypatch.setenv(VARIABLE, "on")
    here, fast = played(spark, tmp_path, slices, event, every, form)
    monkeypatch.setenv(VARIABLE, "off")
    there, slow = played(spark, tmp_path, slices, event, every, form)
    assert here == there
    assert ("id" in event) == bool(here["duplicates"])
    assert len(here["dead letters"]) == (1 if form == "parquet" else 2)
    assert fast.log.choice.fast["log"] == (3 if every == "event" else 4)
    assert fast.log.choice.declined["log"] == {WHY_SPARK[form]: 1}
    assert fast.log.choice.fast["heads"] == 4
    assert {output.name: output.choice.fast.get("windowing") for output in fast.outputs} == dict.fromkeys(
        OUTPUTS, 5
    )
    assert fast.paths()["log"].endswith(f"steps without Spark; Spark for {WHY_SPARK[form]}")
    assert slow.paths()["log"].endswith("Spark for LATECOMER_FAST is off")
    assert not slow.log.choice.fast
    assert not any(output.choice.fast for output in slow.outputs)
