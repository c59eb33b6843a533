"""Numbers in text: one grammar, everything else a dead letter, and the signs that a pipeline sets."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from latecomer import Reader, load_pipeline, replay_dead_letters
from latecomer.config.columns import infer_columns
from latecomer.engine.ledger.check import check_ledger
from latecomer.errors import PipelineError
from latecomer.model.written_numbers import Numbers, Signs, written_number
from latecomer.source.decode.csv_rows import CsvLines
from latecomer.source.decode.detail import Explainer
from latecomer.source.decode.json_rows import JsonRecords
from latecomer.source.decode.private_columns import CORRUPT
from latecomer.source.decode.text_lines import Lines
from latecomer.source.decode.written import Misfit, value_of
from source.source_kit import (
    ledger_lines,
    pipeline_in,
    rows_of,
    run_once,
    write_text,
)

AT = "2026-11-08T14:00:00Z"
COMMA = Signs(decimal_sign=",")
GERMAN = Signs(decimal_sign=",", thousands_sign=".")
ENGLISH = Signs(thousands_sign=",")
MISREAD = [
    "100,59",
    "1,5",
    "1.234,56",
    "1,,5",
    ",5",
    "5,",
    "1,000",
    "1,000.50",
    "1.2.3",
    "--5",
    "5-",
    ".",
    "1 000",
]
"""Each was a number once, or looks like one."""
KINDS = ("decimal(18,2)", "decimal(4,0)", "double", "float", "bigint", "tinyint")
WRITTEN = st.text(st.sampled_from("0123456789.,+-eE ' _"), min_size=1, max_size=8) | st.sampled_from(MISREAD)
ALL_SIGNS = [
    Signs(),
    COMMA,
    GERMAN,
    ENGLISH,
    Signs(thousands_sign="'"),
    Signs(decimal_sign=",", thousands_sign=" "),
]


@pytest.mark.parametrize(
    ("signs", "text", "number"),
    [
        (Signs(), "100.59", "100.59"),
        (Signs(), "-.5", "-0.5"),
        (Signs(), "+5.", "5"),
        (Signs(), "1.5e3", "1500"),
        (COMMA, "100,59", "100.59"),
        (COMMA, ",5", "0.5"),
        (COMMA, "100.59", None),
        (GERMAN, "1.234,56", "1234.56"),
        (GERMAN, "1234,56", "1234.56"),
        (GERMAN, "1.23,4", None),
        (GERMAN, "1.2345", None),
        (ENGLISH, "1,234,567.5", "1234567.5"),
        (ENGLISH, "12,34,567.5", "1234567.5"),
        (ENGLISH, "1,23,4567", None),
        (ENGLISH, "1,5", None),
        (ENGLISH, "1,,500", None),
        (ENGLISH, ",500", None),
        (ENGLISH, "1,500,", None),
        (ENGLISH, "1.500,000", None),
    ],
)
def test_the_grammar(signs: Signs, text: str, number: str | None) -> None:
    assert written_number(text, signs) == (None if number is None else Decimal(number))


@pytest.mark.parametrize("text", MISREAD)
def test_without_settings_nothing_but_a_point_is_a_sign(text: str) -> None:
    assert written_number(text) is None
    for kind in KINDS:
        with pytest.raises(Misfit):
            value_of(text, kind)


def csv_values(texts: list[str], kind: str, signs: Signs) -> list[Any]:
    """What a column of CSV makes of texts, all at once; ... for those it does not take."""
    lines = "".join(f'"{text}";x\n' for text in texts).encode()
    reader = CsvLines(["c", "other"], {"c": kind}, ";", numbers=Numbers(columns={"c": signs}))
    rows = reader.read(Lines.of(lines, "utf-8")).to_pylist()
    return [... if row[CORRUPT] is not None else row["c"] for row in rows]


def json_values(texts: list[str], kind: str, signs: Signs) -> list[Any]:
    reader = JsonRecords(numbers=Numbers(columns={"c": signs}))
    rows = reader.decode([json.dumps({"c": text}).encode() for text in texts], {"c": kind}).to_pylist()
    return [... if row[CORRUPT] is not None else row["c"] for row in rows]


def one_by_one(text: str, kind: str, signs: Signs) -> Any:
    try:
        return value_of(text, kind, signs)
    except Misfit:
        return ...


@given(st.lists(WRITTEN, min_size=1, max_size=12), st.sampled_from(KINDS), st.sampled_from(ALL_SIGNS))
def test_all_readers_are_of_one_mind(texts: list[str], kind: str, signs: Signs) -> None:
    """Many at once, one by one, CSV and JSON: a number is what the grammar says, or a dead letter."""
    expected = [one_by_one(text, kind, signs) for text in texts]
    assert csv_values(texts, kind, signs) == expected
    if kind.startswith("decimal"):  # of other numbers, a text is none in JSON
        assert json_values(texts, kind, signs) == expected
        numbers = [written_number(text, signs) for text in texts]
        assert all(value is ... for value, number in zip(expected, numbers, strict=True) if number is None)


def test_a_number_of_json_has_a_point_whatever_the_signs_of_texts(tmp_path: Path) -> None:
    reader = JsonRecords(numbers=Numbers(decimal_sign=",", thousands_sign="."))
    lines = [b'{"c": 1.234}', b'{"c": "1.234"}', b'{"c": "1,5"}', b'{"c": "1.5"}']
    rows = reader.decode(lines, {"c": "decimal(9,3)"}).to_pylist()
    assert [row["c"] for row in rows] == [Decimal("1.234"), Decimal(1234), Decimal("1.5"), None]
    nested = reader.decode([b'{"c": {"d": "1,5"}}'], {"c.d": "decimal(9,3)"}).to_pylist()
    assert nested[0]["c.d"] == Decimal("1.5")
    listed = reader.decode([b'{"c": ["1,5", 1.5]}'], {"c": "array<decimal(9,3)>"}).to_pylist()
    assert listed[0]["c"] == [Decimal("1.5"), Decimal("1.5")]


def test_what_was_misread_is_a_dead_letter_that_says_what_to_set(spark: SparkSession, tmp_path: Path) -> None:
    schema = {"at": "string", "fare": "decimal(18,2)"}
    pipeline = pipeline_in(
        tmp_path, files={"format": "csv", "delimiter": ";"}, schema=schema, ledger=["fare"]
    )
    lines = [f"{AT};{text}" for text in ("100,59", "1.234,56", "1,000.5", "7.25")]
    write_text(tmp_path, "a.csv", "\n".join(["at;fare", *lines]) + "\n")
    store = run_once(pipeline, spark, drain=True)
    assert [row["fare"] for row in rows_of(store.events, "select fare from t")] == [Decimal("7.25")]
    assert ledger_lines(store, "totals")[0, "fare"] == {"received": 7.25, "on_time": 7.25}
    details = [row["detail"] for row in Reader(pipeline).dead_letters().to_pylist()]
    assert details == [
        'column fare: "100,59" is not a decimal(18,2); if that is how numbers are written, set source.numbers: '
        '{decimal_sign: ","}',
        'column fare: "1.234,56" is not a decimal(18,2); if that is how numbers are written, set source.numbers: '
        '{decimal_sign: ",", thousands_sign: "."}',
        'column fare: "1,000.5" is not a decimal(18,2); if that is how numbers are written, set source.numbers: '
        '{decimal_sign: ".", thousands_sign: ","}',
    ]


def test_a_point_where_the_comma_is_set_is_told_as_such(tmp_path: Path) -> None:
    pipeline = pipeline_in(tmp_path, files={"format": "csv"}, numbers={"decimal_sign": ","})
    said = Explainer(pipeline, {"fare": "double"}).detail("unreadable", "1.5", ("fare",))
    assert said is not None
    assert said.endswith('set source.numbers: {decimal_sign: "."}')


def test_signs_that_are_set_reach_the_ledger_and_the_replay_of_dead_letters(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Of dead letters, amounts with other signs are not read: signs may be set after letters have come."""
    schema = {"at": "string", "fare": "decimal(18,2)", "fee": "decimal(18,2)"}
    numbers = {"decimal_sign": ",", "thousands_sign": ".", "columns": {"fee": {"decimal_sign": "."}}}
    rows = [
        {"at": AT, "fare": "1.234,56", "fee": "1.5"},
        {"at": AT, "fare": 2.5, "fee": 1},
        {"at": AT, "fare": "1.000,00", "fee": "1,5"},  # the fee is none
        {"at": None, "fare": "10,00", "fee": "0.25"},
        {"at": None, "fare": 0.5, "fee": None},
    ]
    write_text(tmp_path, "a.json", "".join(json.dumps(row) + "\n" for row in rows))
    pipeline = pipeline_in(tmp_path, schema=schema, ledger=["fare", "fee"], numbers=numbers)
    store = run_once(pipeline, spark, drain=True)
    found = ledger_lines(store, "totals")
    assert found[0, "fare"] == {"received": 1247.56, "on_time": 1237.06, "dead_letter": 10.5}
    assert found[0, "fee"] == {"received": 2.75, "on_time": 2.5, "dead_letter": 0.25}
    assert check_ledger(pipeline, spark) == []
    other = pipeline_in(
        tmp_path, schema=schema, ledger=["fare", "fee"], numbers={"decimal_sign": ",", "thousands_sign": "."}
    )
    done = replay_dead_letters(other, spark=spark)
    assert done.events == 1
    assert check_ledger(other, spark) == []
    fees = [row["fee"] for row in rows_of(store.events, "select fee from t order by position")]
    assert Decimal("1.5") in fees
    assert len(fees) == 3


def test_folders_say_numbers_in_the_same_way(spark: SparkSession, tmp_path: Path) -> None:
    schema = {"at": "string", "rate": "decimal(9,2)"}
    for nth, rate in enumerate(("1,5", "1.5")):
        write_text(tmp_path, f"rate={rate}/a.json", json.dumps({"at": AT}) + "\n", nth)
    pipeline = pipeline_in(tmp_path, schema=schema, numbers={"decimal_sign": ","})
    store = run_once(pipeline, spark, drain=True)
    assert [row["rate"] for row in rows_of(store.events, "select rate from t")] == [Decimal("1.5")]
    (letter,) = Reader(pipeline).dead_letters().to_pylist()
    assert letter["reason"] == "unreadable_file"
    assert "its folder says rate=1.5, and rate is decimal(9,2)" in letter["raw"]


def test_types_are_inferred_by_the_signs_that_are_set(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("n;d;c\n1.000;1,5;1\n2;2,25;١\n")
    assert infer_columns([str(file)], "csv", ";", numbers=Numbers(decimal_sign=",", thousands_sign=".")) == {
        "n": "bigint",
        "d": "double",
        "c": "string",
    }
    assert infer_columns([str(file)], "csv", ";") == {"n": "double", "d": "string", "c": "string"}


@pytest.mark.parametrize(
    ("source", "mistake"),
    [
        ({"numbers": {"decimal_sign": ";"}}, "source.numbers.decimal_sign"),
        ({"numbers": {"decimal_sign": ",", "thousands_sign": ","}}, "has ',' for both signs"),
        ({"numbers": {"columns": {"fare": {"decimal": ","}}}}, "source.numbers.columns.fare.decimal"),
        ({"files": {"path": "in", "format": "parquet"}, "numbers": {"decimal_sign": ","}}, "beside parquet"),
    ],
)
def test_mistakes_in_the_file(tmp_path: Path, source: dict[str, Any], mistake: str) -> None:
    written = {"files": {"path": "in", "format": "csv"}, **source}
    outputs = {"totals": {"window": {"tumbling": "1m"}, "aggregates": {"n": "count(*)"}}}
    whole = {"store": "store", "source": written, "event": {"time": "at"}, "watermark": {"delay": "1s"}}
    file = tmp_path / "p.yaml"
    file.write_text(json.dumps({"name": "n", **whole, "outputs": outputs}))
    with pytest.raises(PipelineError) as raised:
        load_pipeline(file)
    assert mistake in str(raised.value)
