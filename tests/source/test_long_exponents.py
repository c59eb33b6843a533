"""A number of ten bytes does not stall the pipeline: what a decimal column does not take never reaches a cast."""

from __future__ import annotations

import json
import time
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from latecomer import Reader
from latecomer.engine.ledger.check import check_ledger
from latecomer.model.ledger import WHOLE_DIGITS
from latecomer.model.written_numbers import LONGEST, fits, written_number
from latecomer.source.decode.json_rows import JsonRecords
from source.source_kit import dead_letters, ledger_lines, pipeline_in, rows_of, run_once, write_text

AT = "2026-11-08T14:00:00Z"
STALLING = ["1e3000000", "-1E+2147483647", "1e-3000000", "1e-999999999", "0e999999999", "1e99999999999"]
"""Each took Spark's cast seconds to minutes, or more memory than there is."""
MANY = 60
SECONDS = 120.0
"""For all of them at once, with room for a slow machine: a single one had taken longer than a second."""


def as_json(written: str, amount: str = "5") -> str:
    return f'{{"at":"{AT}","fare":{written},"paise":{amount}}}'


def run_timed(
    folder: Path, spark: SparkSession, **files: object
) -> tuple[list[tuple[str, str]], list[object]]:
    schema = {"at": "string", "fare": "decimal(18,2)", "paise": "decimal(18,2)"}
    pipeline = pipeline_in(folder, files=files, schema=schema, ledger=["paise", "fare"])
    began = time.monotonic()
    store = run_once(pipeline, spark, drain=True)
    assert time.monotonic() - began < SECONDS
    fares = rows_of(store.events, "select fare from t order by position")
    paise = ledger_lines(store, "totals")[0, "paise"]
    assert paise["received"] == paise["on_time"] + paise.get("dead_letter", 0)  # CSV tells no amount
    return [(reason, raw) for reason, raw, *_ in dead_letters(store)], [row["fare"] for row in fares]


def test_json_numbers_and_texts_that_would_stall_are_dead_letters_with_their_bytes(
    spark: SparkSession, tmp_path: Path
) -> None:
    bad = [as_json(each) for each in STALLING] * MANY + [as_json(json.dumps(each)) for each in STALLING]
    bad += [
        as_json('"1\\u00653000000"'),
        as_json(f'"{"9" * (LONGEST + 1)}"'),
        as_json("1e999"),
        as_json("true"),
    ]
    twice = f'{{"at":"{AT}","fare":1e3000000,"fare":1,"paise":1}}'
    good = ["1234567890123456.78", "12.345", '"1000.5"', "1.5e3", "1e-999", "null", '"7"']
    write_text(tmp_path, "a.json", "\n".join([*bad, twice, *map(as_json, good)]) + "\n")
    letters, fares = run_timed(tmp_path, spark)
    assert [raw for reason, raw in letters if reason == "unreadable"] == [*bad, twice]
    assert fares == [Decimal("1234567890123456.78"), Decimal("12.35"), Decimal("1000.5"), 1500, 0, None, 7]


def test_csv_fields_that_would_stall_are_dead_letters_with_their_bytes(
    spark: SparkSession, tmp_path: Path
) -> None:
    bad = [f"{AT},{each},5" for each in STALLING]
    good = [f"{AT},{each},5" for each in ("12.345", '"1000.5"', "1e-999", "")]
    write_text(tmp_path, "a.csv", "\n".join(["at,fare,paise", *bad, *good]) + "\n")
    letters, fares = run_timed(tmp_path, spark, format="csv")
    assert [raw for _, raw in letters] == bad
    assert fares == [Decimal("12.35"), Decimal("1000.5"), 0, None]


@pytest.mark.parametrize(
    "text", [*STALLING, "", "-", "NaN", "Infinity", "1_000", "١", "0x1", " 1", "9" * (LONGEST + 1)]
)
def test_what_a_decimal_column_does_not_take(text: str) -> None:
    assert written_number(text) is None


def test_what_a_decimal_column_takes_is_compared_by_its_size() -> None:
    for text, number in {"1e999": "1e999", "+1000.50": "1000.5", ".5E-0003": "0.0005", "1.": "1"}.items():
        assert written_number(text) == Decimal(number)
    assert fits(Decimal("99.9"), 2)
    assert not fits(Decimal("1e3000000"), 38)  # Decimal's own abs() would raise Overflow here
    assert fits(Decimal("0e3000000"), 1)


def test_an_amount_that_the_ledger_cannot_add_up_is_a_dead_letter(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The sums of the ledger have 32 digits before the point: an amount must leave room for the others of its batch."""
    schema = {"at": "string", "fare": "decimal(32,0)", "paise": "decimal(18,2)"}
    pipeline = pipeline_in(tmp_path, schema=schema, ledger=["fare"])
    largest, beyond = "9" * WHOLE_DIGITS, f"1{'0' * WHOLE_DIGITS}"
    amounts = [largest, f"-{largest}", beyond, f"-{beyond}", "7"]
    write_text(tmp_path, "a.json", "\n".join(map(as_json, amounts)) + "\n")
    store = run_once(pipeline, spark, drain=True)
    fares = [row["fare"] for row in rows_of(store.events, "select fare from t order by position")]
    assert fares == [Decimal(largest), Decimal(f"-{largest}"), 7]
    letters = Reader(pipeline).dead_letters().to_pylist()
    assert [letter["reason"] for letter in letters] == ["beyond_the_ledger"] * 2
    assert f"has more than the {WHOLE_DIGITS} digits before the point" in letters[0]["detail"]
    counted = ledger_lines(store, "totals")
    assert counted[0, "events"] == {"received": 5, "on_time": 3, "dead_letter": 2}
    assert counted[0, "fare"] == {"received": 7, "on_time": 7}
    assert check_ledger(pipeline, spark) == []


SLOW = {
    "commas and points": '{"a":"' + ",." * 200_000 + '"}',
    "many digits": '{"a":"' + ("9" * 1_000 + ".") * 400 + '"}',
    "many numbers": "[" + "1.5, " * 100_000 + "]",
}


@pytest.mark.parametrize("line", SLOW.values(), ids=SLOW)
@pytest.mark.parametrize("kind", ["decimal(18,2)", "string"])
def test_no_line_takes_long_to_look_at(line: str, kind: str) -> None:
    begun = time.process_time()
    JsonRecords("keep").decode([line.encode(), b'{"a":"1"}'], {"a": kind})
    assert time.process_time() - begun < 5  # it was hours
