"""What Spark SQL says of a record under a JSON Schema is what the validator in Python says."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from latecomer.decode.json_rules import SETTINGS, is_json, parsed, valid
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jsonschema_kit import D7, D2020, anything, value_for, whole_schema
from latecomer.model.jsonschema import SchemaError, Validator, schema_of
from latecomer.model.jsonschema.checkable import require_checkable
from latecomer.model.jsonschema.records import NotJson, read_record

Json = Any
NOT_JSON = [
    "",
    " ",
    "{",
    '{"a": 1} x',
    '{"a": 1}] [',
    '{"a": 1}} {',
    '{"a": 1}, {"a": 2}',
    '{"a": 1}, "b": 2',
    '{"a": 01}',
    '{"a": NaN}',
    "{'a': 1}",
    '{"a": "\\ud800"}',
    '{"a": "\\udc00x"}',
    '{"a": 1,}',
    "\ufeff{}",
]
ODD = [
    '{"a": 1, "a": "x"}',
    '{"a": "\\ud83d\\ude00"}',
    '{"a": "\\\\ud800"}',
    ' {"a": [] }\n',
    "[]",
    "null",
    '{"a": null}',
    "{}",
]
SPELLINGS = [
    *(
        "1",
        "1.0",
        "1.00",
        "1e0",
        "10e-1",
        "-0",
        "-0.0",
        "0.0",
        "-1",
        "2",
        "2.5",
        "2.50",
        "25e-1",
        "0.5",
        "-0.5",
    ),
    *("0.1", "0.30", "0.07", "7e-2", "1e400", "-1e400", "1e-400", "0.0000000000001", "100", "1e2"),
    *(
        "9007199254740991",
        "9007199254740992",
        "9007199254740993",
        "9007199254740993.0",
        "9.007199254740993e15",
    ),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809"),
    *(
        "9223372036854775807.0",
        "9.223372036854775807e18",
        "0.3",
        "0.30000000000000001",
        "0.29999999999999999",
    ),
    *("9" * 38, "9" * 39, "-" + "9" * 38, "0." + "3" * 38, "0." + "3" * 39, "1" + "0" * 38),
]
NUMBER_RULES: list[dict[str, Json]] = [
    *({"type": each} for each in ("integer", "number", "string")),
    *(
        {word: bound}
        for bound in (0, 1, 0.3, 2.5, -0.5, 9007199254740993, 9223372036854775807, 10**38 - 1, -1)
        for word in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
    ),
    *({"multipleOf": each} for each in (1, 2, 0.01, 0.5, 2.5, 3, 0.07, 10)),
    {"enum": [1, 0.5, 0.07, 9007199254740993, 9223372036854775807, 10**38 - 1, 0.3, -1, 100]},
    {"const": 0},
    {"const": 2.5},
    {"not": {"multipleOf": 0.5}},
]
AT_ONCE = 10
"""How many schemas a plan checks."""
TEXTS = ["", "a", "ab", "é", "😀", "x1", "INR", "inr", "a@b.in", "a@", "2026-04-25", "x\n", "\n", "a-b", "12"]
TEXT_RULES: list[dict[str, Json]] = [
    {"minLength": 1}, {"maxLength": 1}, {"minLength": 2, "maxLength": 3}, {"enum": ["a", "é", "?"]}, {"const": ""},
    *({"pattern": each} for each in ("^[A-Z]{3}$", "^[^@]+@[^@]+$", "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", "^x", "^a?b?$",
                                     r"^\d+$", r"^[\w-]*$", r"^\D+$", "^[a-z]+[0-9]*$", "^$")),
]  # fmt: skip


def verdict(text: str, validator: Validator) -> tuple[bool, bool | None]:
    """Whether a text is JSON, and whether it is valid, as Python has it."""
    try:
        value = read_record(text)
    except NotJson:
        return False, None
    return True, not validator.faults(value)


def require_same(spark: SparkSession, cases: Sequence[tuple[Json, Sequence[str]]]) -> int:
    """Hold each schema's verdicts on its texts against Python's; tells how many were valid. A plan that is twice as
    large takes Spark four times as long."""
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    return sum(
        _require_same(spark, cases[first : first + AT_ONCE]) for first in range(0, len(cases), AT_ONCE)
    )


def _require_same(spark: SparkSession, cases: Sequence[tuple[Json, Sequence[str]]]) -> int:
    schemas = [schema_of(schema) for schema, _ in cases]
    texts = [(nth, text) for nth, (_, each) in enumerate(cases) for text in each]
    numbers, every = zip(*texts, strict=True)
    rows = spark.createDataFrame(pa.table({"nth": pa.array(numbers), "text": pa.array(every)}))
    rows = rows.withColumn("variant", parsed(F.col("text")))
    conditions = [valid(F.col("variant"), schema, f"fact_{nth}_") for nth, schema in enumerate(schemas)]
    facts = {
        name: F.when(F.col("nth") == nth, column)
        for nth, each in enumerate(conditions)
        for name, column in each.facts.items()
    }
    rows = rows.withColumns(facts)
    found = [F.when(F.col("nth") == nth, each.holds) for nth, each in enumerate(conditions)]
    answers = rows.select("nth", "text", is_json(F.col("text"), F.col("variant")), F.coalesce(*found))
    valids = 0
    validators = [Validator(schema) for schema in schemas]
    for nth, text, json_found, fit in answers.collect():
        expected = verdict(text, validators[nth])
        assert (json_found, fit if json_found else None) == expected, (cases[nth][0], text)
        valids += bool(fit)
    return valids


def test_numbers_texts_and_what_is_no_json(spark: SparkSession) -> None:
    numbers = [f'{{"a": {each}}}' for each in SPELLINGS]
    texts = [json.dumps({"a": each}) for each in TEXTS]
    cases = [
        *(({"properties": {"a": rule}}, numbers) for rule in NUMBER_RULES),
        *(({"properties": {"a": rule}}, texts) for rule in TEXT_RULES),
        ({"type": "object", "properties": {"a": {"type": ["null", "array"]}}}, [*ODD, *NOT_JSON, *texts[:2]]),
        ({"additionalProperties": {"type": "integer"}}, [*ODD, '{"a?": 1}', '{"\\"\'": 1.5}']),
    ]
    assert require_same(spark, cases) > 500


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_random_schemas(spark: SparkSession, seed: int) -> None:
    rng, cases = Random(seed), list[tuple[Json, list[str]]]()
    while len(cases) < 60:
        schema = whole_schema(rng, rng.choice((D7, D2020)))
        try:
            require_checkable(schema_of(schema))
        except SchemaError:
            continue
        values = [value_for(rng, schema, schema) for _ in range(18)]
        values += [anything(rng) for _ in range(6)]
        cases.append((schema, [odd_numbers(rng, json.dumps(each)) for each in values]))
    assert require_same(spark, cases) > 300


def odd_numbers(rng: Random, text: str) -> str:
    """The same text, with some of its numbers written in other ways."""

    def other(found: re.Match[str]) -> str:
        number = found[2]
        return found[1] + rng.choice(
            (number, number, f"{number}e0", number if "." in number else f"{number}.0")
        )

    return re.sub(r"([:\[,] )(-?[0-9.]+)(?=[,\]}])", other, text)
