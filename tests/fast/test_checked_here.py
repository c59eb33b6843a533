"""JSON that is checked against the schema of its writer without Spark: what is taken here is valid."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from latecomer.fast import Declined

from examples_kit import usual
from latecomer.config.sources import UnknownFields
from latecomer.decode.arrow_checked import Rules
from latecomer.decode.columns import KEPT
from latecomer.decode.json import JsonRecords
from latecomer.model.jsonschema import Validator, schema_of
from latecomer.model.jsonschema.records import NotJson, read_record

COLUMNS = {"at": "timestamp", "shop": "string", "paise": "bigint", "few": "int", "fee": "decimal(12,2)"}
COLUMNS |= {"share": "double", "ok": "boolean"}
_NUMBERS = (
    "0",
    "-0",
    "1",
    "5",
    "7",
    "10",
    "-3",
    "2147483648",
    "9223372036854775808",
    "1.0",
    "0.1",
    "0.5",
    "1e1",
)
_NUMBERS += (
    "0.10",
    "12.34",
    "0.001",
    "5.0000000000000000001",
    "0.1000000000000000055511151231257827",
    "1e-400",
)
_NUMBERS += (
    "-0.0",
    "4.999999999999999999",
    "9007199254740993",
    "0.30000000000000004",
    "1e400",
    "100000000000.25",
)
_TEXTS = (
    "",
    "a",
    "chai",
    "ein längerer Text",
    "é",
    "\\u00e9",
    "null",
    "CASH",
    "CARD",
    "2026-01-05T14:00:00Z",
)
_OTHERS = ("null", "true", "false", "[]", "[1]", "{}", '{"a":1}')


def random_schema(rng: Random) -> dict[str, Any]:
    def number_rules() -> dict[str, Any]:
        rules: dict[str, Any] = {}
        for name in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
            if rng.random() < 0.25:
                low = name.lower().endswith("minimum")
                rules[name] = rng.choice([0, -5, 0.1, 0.3] if low else [10, 5, 10**9, 0.5, 12.34])
        if rng.random() < 0.2:
            rules["multipleOf"] = rng.choice([1, 0.01, 0.001, 5])
        return rules

    def text_rules() -> dict[str, Any]:
        rules = {"minLength": rng.choice([0, 1])} if rng.random() < 0.3 else {}
        return {**rules, **({"maxLength": rng.choice([1, 4, 40])} if rng.random() < 0.3 else {})}

    makers = {
        "at": lambda: {"type": "string", **text_rules()},
        "shop": lambda: rng.choice([{"type": "string", **text_rules()}, {"enum": ["CASH", "CARD", 1]}]),
        "paise": lambda: rng.choice([{"type": "integer", **number_rules()}, {"enum": [0, 5.0, "5"]}]),
        "few": lambda: {"type": "integer", **number_rules()},
        "fee": lambda: {"type": "number", **number_rules()},
        "share": lambda: {"type": "number", **number_rules()},
        "ok": lambda: rng.choice([{"type": "boolean"}, {"const": True}]),
        "extra": lambda: rng.choice(
            [{"type": "string", **text_rules()}, {"type": "integer", **number_rules()}, {}, {"type": "array"}]
        ),
    }
    chosen = rng.sample(sorted(makers), rng.randint(1, len(makers)))
    properties = {name: makers[name]() for name in chosen}
    for rules in properties.values():
        if isinstance(rules.get("type"), str) and rng.random() < 0.3:
            rules["type"] = [rules["type"], "null"]
    required = [name for name in chosen if rng.random() < 0.4]
    closed = {"additionalProperties": False} if rng.random() < 0.5 else {}
    return {"type": "object", "properties": properties, "required": required, **closed}


def random_record(rng: Random) -> str:
    """As it is written: its numbers in ways that readers see differently."""
    kinds = {"at": "text", "shop": "text", "paise": "number", "few": "number", "fee": "number"}
    kinds |= {"share": "number", "ok": "other", "extra": rng.choice(["text", "number", "other"])}
    said = []
    for name, kind in kinds.items():
        if rng.random() < 0.3:
            continue
        if name == "at" and rng.random() < 0.9:
            value = '"2026-01-05T14:00:00Z"'
        elif rng.random() < 0.03:
            value = rng.choice(_OTHERS)
        elif kind == "number":
            value = rng.choice(_NUMBERS[:7]) if rng.random() < 0.6 else rng.choice(_NUMBERS)
        else:
            value = (
                f'"{rng.choice(_TEXTS)}"' if kind == "text" else rng.choice(["true", "false", "true", "null"])
            )
        said.append(f'"{name}":{value}')
    return "{" + ",".join(said) + "}"


def with_kept(rows: pa.Table) -> pa.Table:
    """The rows with KEPT, also where nothing is kept."""
    kept = rows.column(KEPT) if KEPT in rows.column_names else pa.nulls(rows.num_rows, pa.string())
    return rows.select(list(COLUMNS)).append_column(KEPT, kept)


@pytest.mark.drawn
def test_what_is_taken_here_is_valid_and_read_as_ever() -> None:
    reasons: Counter[str] = Counter()
    valid = taken = together = 0
    for seed in range(6 * usual.max_examples):
        rng = Random(seed)
        schema = schema_of(random_schema(rng))
        validator = Validator(schema)
        unknown: UnknownFields = rng.choice(["ignore", "ignore", "keep", "dead_letter"])
        try:
            rules = Rules.of(schema, COLUMNS, unknown)
        except Declined as declined:
            reasons[str(declined)] += 1
            continue
        whole = []
        for _ in range(12):
            text = random_record(rng)
            try:
                is_valid = not validator.faults(read_record(text))
            except NotJson:
                is_valid = False
            valid += is_valid
            try:
                rules.read([text.encode()])
            except Declined as declined:
                reasons[str(declined)] += 1
                continue
            assert is_valid, (seed, text)
            whole.append(text.encode())
        taken += len(whole)
        if whole:
            plain = JsonRecords(unknown).load(whole, COLUMNS)
            with suppress(Declined):  # a null in one of them, and a field that is not there in another
                assert with_kept(rules.read(whole)).equals(with_kept(plain))
                together += len(whole)
    assert taken > valid / 3, reasons
    assert together > taken / 2


def listed(properties: dict[str, Any], **more: Any) -> Rules:
    return Rules.of(schema_of({"type": "object", "properties": properties, **more}), COLUMNS, "ignore")


@pytest.mark.parametrize(
    ("rules", "fine", "not_sure"),
    [
        ({"share": {"type": "number", "minimum": 0}}, ["0", "-0.0", "0.1"], ["-0.1", "-1e-300"]),
        ({"share": {"type": "number", "maximum": 5}}, ["4.9", "0"], ["5", "5.0000000000000000001", "6"]),
        ({"share": {"type": "number", "minimum": 0.1}}, ["0.2"], ["0.1", "0.09999999999999999999"]),
        (
            {"fee": {"type": "number", "minimum": 0.1, "multipleOf": 0.01}},
            ["0.1", "0.10", "7"],
            ["0.09", "0.105"],
        ),
        ({"paise": {"type": "integer", "exclusiveMinimum": 0}}, ["1"], ["0", "1.0"]),
        ({"paise": {"type": "integer", "minimum": 0.5, "multipleOf": 3}}, ["3", "6"], ["4", "0"]),
        ({"paise": {"enum": [5, 7.0]}}, ["5", "7"], ["6", "7.0"]),
        ({"shop": {"type": "string", "maxLength": 2}}, ['"é😀"', '"ab"'], ['"abc"', "1"]),
        ({"shop": {"type": ["string", "null"]}}, ['"a"', "null"], ["1"]),
        ({"shop": {"type": "string"}}, ['"a"'], ["null"]),
        ({"ok": {"const": True}}, ["true"], ["false"]),
    ],
)
def test_each_rule(rules: dict[str, Any], fine: list[str], not_sure: list[str]) -> None:
    (name,) = rules
    made = listed(rules)
    for value in fine:
        assert made.read([f'{{"{name}":{value}}}'.encode()]).num_rows == 1
    for value in not_sure:
        with pytest.raises(Declined):
            made.read([f'{{"{name}":{value}}}'.encode()])


def test_what_is_required_and_what_may_not_be_there() -> None:
    text = {"shop": {"type": "string"}}
    required = listed(text, required=["shop"])
    with pytest.raises(Declined):
        required.read([b'{"shop":"a"}', b"{}"])
    closed = listed(text, additionalProperties=False)
    assert closed.read([b'{"shop":"a"}', b"{}"]).column("shop").to_pylist() == ["a", None]
    for more in (b'{"shop":"a","paise":null}', b'{"pai\\u0073e":null}', b'{"other":1}', b'{"paise":1}'):
        with pytest.raises(Declined):
            closed.read([more])
    assert listed(text).read([b'{"shop":"a","other":1,"paise":5}']).column("paise").to_pylist() == [5]
    extra = listed({"other": {"type": "integer", "maximum": 3}})
    assert extra.read([b'{"other":3}']).column_names == list(COLUMNS)
    with pytest.raises(Declined):
        extra.read([b'{"other":4}'])


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"shop": {"pattern": "^a$"}}},
        {"properties": {"shop": {"type": "string", "not": {"const": "x"}}}},
        {"properties": {"paise": {"type": "string"}}},
        {"properties": {"at": {"type": "string", "maxLength": 20}}},
        {"properties": {"tags": {"type": "array"}}},
        {"properties": {"x": {"type": ["string", "integer"]}}},
        {"anyOf": [{"required": ["shop"]}]},
        {"minProperties": 1},
        {"required": ["x"]},
        {"additionalProperties": {"type": "string"}},
        {"properties": {"x": {}}, "additionalProperties": False},
        {"properties": {"share": {"type": "number", "multipleOf": 0.1}}},
        {"properties": {"paise": {"type": "integer", "maximum": 10**40}}},
    ],
)
def test_schemas_that_are_left_to_spark(schema: dict[str, Any]) -> None:
    with pytest.raises(Declined):
        Rules.of(schema_of({"type": "object", **schema}), COLUMNS, "ignore")
