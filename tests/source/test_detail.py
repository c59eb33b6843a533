"""What a dead letter says of itself: which column, which value, what was expected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from latecomer.errors import SourceError
from latecomer.schemas.jsonschema import schema_of
from latecomer.source.decode.choose import framed_decoder
from latecomer.source.decode.detail import Explainer
from latecomer.store.schemas import KnownSchemas
from source.kafka_source_kit import SCHEMA, payments_from
from source.source_kit import pipeline_in

COLUMNS = {
    "at": "string",
    "paise": "bigint",
    "tiny": "tinyint",
    "fare": "double",
    "ok": "boolean",
    "price": "decimal(5,2)",
    "day": "date",
    "note": "string",
}
IN_ORDER = "the file has 8 columns: at, paise, tiny, fare, ok, price, day, note"


def explainer(folder: Path, **files: Any) -> Explainer:
    return Explainer(pipeline_in(folder, files={"order_by": "seen", **files}), COLUMNS)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"paise": "abc"}, 'column paise: "abc" is not a bigint'),
        (
            {"paise": "5"},
            'column paise: "5" is text, and not a bigint; write it without quotes, or declare a decimal',
        ),
        ({"paise": 1.5}, "column paise: 1.5 is not a bigint"),
        ({"paise": 2**63}, "column paise: 9223372036854775808 is not a bigint"),
        ({"tiny": 128, "note": 7}, "column tiny: 128 is not a tinyint"),
        ({"fare": "dear", "paise": None}, 'column fare: "dear" is not a double'),
        ({"ok": "maybe"}, 'column ok: "maybe" is not a boolean'),
        ({"price": "1000.00"}, 'column price: "1000.00" is not a decimal(5,2)'),
        ({"day": "soon"}, 'column day: "soon" is not a date'),
        ({"paise": "a", "ok": 1}, 'column paise: "a" is not a bigint; column ok: 1 is not a boolean'),
        ({"paise": "x" * 99}, f'column paise: "{"x" * 58}… is not a bigint'),
        ({"paise": 5, "fare": 1, "price": 9.99, "day": "2026-04-25"}, None),
    ],
)
def test_json_that_does_not_fit_names_column_and_value(tmp_path: Path, row: Any, said: str | None) -> None:
    assert explainer(tmp_path).detail("unreadable", json.dumps(row)) == said


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"tags": ["a", {"b": 1}], "attrs": {"k": 1}, "items": [None, {"sku": "a", "n": 2}]}, None),
        ({"tags": "a"}, 'column tags: "a" is not an array<string>'),
        (
            {"attrs": {"k": 1, "b": "2"}},
            "column attrs['b']: \"2\" is text, and not a bigint; write it without quotes, or declare a decimal",
        ),
        ({"attrs": [1]}, "column attrs: [1] is not a map<string,bigint>"),
        ({"items": [{"n": 1}, {"n": "two"}]}, 'column items[1].n: "two" is not an int'),
        ({"items": [5]}, "column items[0]: 5 is not a struct<sku:string,n:int>"),
        ({"pricing": {"base": "dear"}}, 'column pricing.base: "dear" is not a bigint'),
        (
            {"pricing": {"base": "5"}},
            'column pricing.base: "5" is text, and not a bigint; write it without quotes, or declare a decimal',
        ),
    ],
)
def test_json_that_does_not_fit_names_the_place_in_a_list_or_an_object(
    tmp_path: Path, row: Any, said: str | None
) -> None:
    columns = {
        "tags": "array<string>",
        "attrs": "map<string,bigint>",
        "items": "array<struct<sku:string,n:int>>",
        "pricing.base": "bigint",
    }
    assert Explainer(pipeline_in(tmp_path), columns).detail("unreadable", json.dumps(row)) == said


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ('{"at": "2026', "not JSON: Unterminated string starting at character 8"),
        ("{not json", "not JSON: Expecting property name enclosed in double quotes at character 2"),
        ("[1, 2]", "[1, 2] is not a JSON object"),
        ("null", "null is not a JSON object"),
        ("[" * 100_000, "not JSON that can be read: it is nested too deeply"),
        ("{\0a\0", "it looks like UTF-16; set source.files.encoding: utf-16"),
    ],
)
def test_what_is_no_json_object_says_so(tmp_path: Path, raw: str, said: str) -> None:
    assert explainer(tmp_path).detail("unreadable", raw) == said


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("t,5x,1,1.5,true,1,2026-04-25,n", 'column paise: "5x" is not a bigint'),
        ("t,,300,,,,,", 'column tiny: "300" is not a tinyint'),
        ("t,,,,yes,,,", 'column ok: "yes" is not a boolean'),
        ('t,"5" ,300,1.5,true,1,2026-04-25,"a"b', 'column tiny: "300" is not a tinyint'),
        ("t,5", f"2 fields, and {IN_ORDER}"),
        ('t,5,1,1.5,true,1,2026-04-25,"a,b"', None),
    ],
)
def test_csv_that_does_not_fit_names_column_and_value(tmp_path: Path, raw: str, said: str | None) -> None:
    found = explainer(tmp_path, format="csv").detail("unreadable", raw, tuple(COLUMNS))
    assert found == said


def test_times_say_what_stood_there(tmp_path: Path) -> None:
    detail = explainer(tmp_path).detail
    assert detail("no_event_time", "{}") == "column at is missing or empty"
    assert detail("no_arrival_time", "{}") == "column seen is missing or empty"
    assert (detail("unreadable_event_time", '{"at": "soon"}') or "").startswith(
        'column at: "soon" is not a time; '
    )
    assert (detail("unreadable_arrival_time", '{"seen": "x"}') or "").startswith(
        'column seen: "x" is not a time; '
    )
    for beyond in (
        "9999-12-31T23:59:59.999Z",
        "0001-01-01 00:00:00",
        "-75444-02-10T16:57:35Z",
        "+148108-07-06",
    ):
        said = f'column at: "{beyond}" lies beyond the calendar, which is from 0002-01-01 to 9997-12-31 here'
        assert detail("unreadable_event_time", f'{{"at": "{beyond}"}}') == said
    ahead = 'column at: "2030-01-01" is more than 5m ahead of its arrival (watermark.max_future)'
    assert detail("too_far_ahead", '{"at": "2030-01-01"}') == f"{ahead}, or event.zone is not UTC"
    for at in ("2030-01-01T00:00Z", "2030-01-01 00:00:00+01:00"):
        said = detail("too_far_ahead", f'{{"at": "{at}"}}')
        assert said == ahead.replace("2030-01-01", at)
    assert detail("too_far_ahead", '{"at": 1893456000}') == ahead.replace('"2030-01-01"', "1893456000")
    assert detail("a reason of another version", "{}") is None


def test_a_letter_is_explained_where_another_schema_cannot_be_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {1: schema_of({"required": ["txn"]}), 2: schema_of({"propertyNames": {"pattern": "^(?=[a-z])"}})}
    monkeypatch.setattr(KnownSchemas, "known", known)
    kafka = {"servers": "127.0.0.1:1", "topics": ["t"]}
    source = {"kafka": kafka, "format": {"json": {"registry": "http://127.0.0.1:1"}}, "schema": SCHEMA}
    pipeline = payments_from(tmp_path, source)
    with pytest.raises(SourceError, match="records of schema 2 cannot be checked"):
        framed_decoder(pipeline).in_tasks()
    said = Explainer(pipeline, SCHEMA).detail("invalid", "\0\0\0\0\1{}")
    assert said is not None
    assert said.startswith("schema 1 does not allow it: ")
