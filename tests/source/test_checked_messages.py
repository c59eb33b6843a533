"""JSON with the schema of its writer as a task decodes and checks it, without Spark."""

from __future__ import annotations

import json
import pickle
import struct
import time
from random import Random
from typing import Any

import pytest

from examples_kit import usual
from latecomer.schemas.jsonschema import Validator, schema_of
from latecomer.schemas.jsonschema.validation import NotJson
from latecomer.source.decode import checked_messages
from latecomer.source.decode.checked_messages import CheckedMessages
from latecomer.source.decode.framing import UnknownSchemas
from latecomer.source.decode.private_columns import CORRUPT, INVALID, KEPT, SCHEMA_ID
from source.checked_kit import COLUMNS, random_record, random_schema

PAISE = {"type": "object", "properties": {"paise": {"type": "integer", "minimum": 0}}, "required": ["paise"]}


def decoder(schemas: dict[int, Any], unknown: Any = "ignore", validates: bool = True) -> CheckedMessages:
    """As a task has it."""
    parsed = {number: schema_of(each) for number, each in schemas.items()}
    return pickle.loads(pickle.dumps(CheckedMessages(parsed, unknown, validates)))  # type: ignore[no-any-return]


def framed(number: int, text: str | bytes) -> bytes:
    return struct.pack(">bI", 0, number) + (text.encode() if isinstance(text, str) else text)


@pytest.mark.drawn
def test_what_is_valid_the_validator_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of random schemas, checked all at once and one by one."""
    invalid = count = 0
    for seed in range(usual.max_examples // 3):
        rng = Random(seed)
        schemas = {number: random_schema(rng) for number in (1, 2)}
        validators = {number: Validator(schema_of(each)) for number, each in schemas.items()}
        written = [(rng.choice((1, 2)), random_record(rng)) for _ in range(200)]
        rule = rng.choice(["ignore", "keep", "dead_letter"])
        by, found = decoder(schemas, rule), {}
        for few in (4, 10_000):
            monkeypatch.setattr(checked_messages, "FEW", few)
            found[few] = by.decode([framed(*each) for each in written], COLUMNS)
        assert repr(found[4].to_pylist()) == repr(found[10_000].to_pylist())
        for (number, text), said in zip(written, found[4].column(INVALID).to_pylist(), strict=True):
            try:
                expected = bool(validators[number].faults(text))
            except NotJson:
                expected = False
            assert said == expected, (text, schemas[number])
            invalid, count = invalid + said, count + 1
    assert count / 10 < invalid < count * 0.95


def test_dead_letters_have_their_bytes_and_neighbours_are_read() -> None:
    fine = [framed(1, f'{{"paise":{nth}}}') for nth in range(1_000)]
    odd = {
        3: (framed(1, '{"paise":-1}'), True),
        70: (framed(1, '{"paise":"x"}'), True),
        71: (framed(1, "{}"), True),
        300: (framed(1, '{"paise":1'), False),
        301: (framed(1, b'{"paise":1,"shop":"\xff"}'), False),
        500: (b'{"paise":1}', False),
        900: (framed(1, '{"paise":99999999999999999999}'), False),
    }
    records = [odd[nth][0] if nth in odd else each for nth, each in enumerate(fine)]
    rows = decoder({1: PAISE}).decode(records, COLUMNS)
    corrupt, invalid = rows.column(CORRUPT).to_pylist(), rows.column(INVALID).to_pylist()
    assert {nth: (each, invalid[nth]) for nth, each in enumerate(corrupt) if each is not None} == odd
    assert rows.column(SCHEMA_ID).to_pylist() == [None if nth == 500 else 1 for nth in range(1_000)]
    values = rows.column("paise").to_pylist()
    assert [values[nth] for nth in range(1_000) if nth not in odd] == [
        nth for nth in range(1_000) if nth not in odd
    ]


def test_rules_that_only_a_look_at_each_record_tells() -> None:
    schema = {"type": "object", "properties": {"shop": {"pattern": "^[a-z]+$"}}, "minProperties": 1}
    texts = ['{"shop":"chai"}', '{"shop":"CHAI"}', "{}", '{"shop":1}', "[]"]
    rows = decoder({5: schema}).decode([framed(5, text) for text in texts], {"shop": "string"})
    assert rows.column(INVALID).to_pylist() == [False, True, True, False, True]
    assert rows.column("shop").to_pylist()[0] == "chai"


def test_fields_that_are_no_columns() -> None:
    records = [
        framed(1, '{"paise":1,"tip":2.50}'),
        framed(1, '{"paise":2}'),
        framed(1, '{"paise":-2,"tip":1}'),
    ]
    kept = decoder({1: PAISE}, "keep").decode(records, {"paise": "bigint"})
    assert kept.column(KEPT).to_pylist()[:2] == ['{"tip":2.50}', None]
    assert kept.column(CORRUPT).to_pylist() == [None, None, records[2]]
    refused = decoder({1: PAISE}, "dead_letter").decode(records, {"paise": "bigint"})
    assert refused.column(CORRUPT).to_pylist() == [records[0], None, records[2]]
    assert refused.column(INVALID).to_pylist() == [False, False, True]


def test_ids_that_are_not_known_and_records_that_are_not_checked() -> None:
    records = [framed(1, '{"paise":-1}'), framed(2, '{"paise":1}')]
    with pytest.raises(UnknownSchemas, match="2"):
        decoder({1: PAISE}).decode(records, COLUMNS)
    unchecked = decoder({}, validates=False).decode([*records, b"{}"], COLUMNS)
    assert unchecked.column("paise").to_pylist() == [-1, 1, None]
    assert unchecked.column(SCHEMA_ID).to_pylist() == [1, 2, None]
    assert unchecked.column(CORRUPT).to_pylist() == [None, None, b"{}"]


def test_many_ids_in_one_batch_are_not_slow() -> None:
    """36 records of a dozen schemas took 49 s as conditions of Spark's."""
    schemas = {
        number: {
            "type": "object",
            "properties": {f"p{nth}": {"type": "integer", "minimum": number} for nth in range(40)},
            "additionalProperties": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        }
        for number in range(1, 101)
    }
    by = decoder(schemas)
    records = [
        framed(number, json.dumps({f"p{nth}": number for nth in range(40)}))
        for number in schemas
        for _ in range(3)
    ]
    began = time.process_time()
    rows = by.decode(records, {"p0": "bigint"})
    assert time.process_time() - began < 10
    assert rows.column("p0").to_pylist() == [number for number in schemas for _ in range(3)]
    assert not any(rows.column(INVALID).to_pylist())
