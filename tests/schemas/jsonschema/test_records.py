"""The JSON of records: numbers as they are written, and what is no JSON."""

from __future__ import annotations

from decimal import Decimal

import pytest

from latecomer.schemas.json_input import depth_of
from latecomer.schemas.jsonschema.validation import NotJson, read_record


def test_numbers_of_a_record_are_as_they_are_written() -> None:
    found = read_record(
        '{"a": 0.10, "b": 1e2, "c": 12345678901234567890, "d": 1e400, "e": %s}' % ("9" * 5000)
    )
    assert found == {
        "a": Decimal("0.10"),
        "b": Decimal("1e2"),
        "c": 12345678901234567890,
        "d": Decimal("1e400"),
        "e": Decimal("9" * 5000),
    }


@pytest.mark.parametrize(
    "text", ['"\\ud800"', '"\\udc00"', '"\\ud800x\\udc00"', "NaN", "[Infinity]", "{", "[1] 2", ""]
)
def test_what_is_no_json(text: str) -> None:
    with pytest.raises(NotJson):
        read_record(text)


def test_halves_that_are_beside_each_other_are_a_character() -> None:
    assert read_record('["\\ud83d\\ude00", "\\\\ud800"]') == ["😀", "\\ud800"]


@pytest.mark.parametrize(
    ("text", "depth"), [("1", 0), ("[]", 1), ('[{"a":[]}]', 3), ("[[],[],[]]", 2), ('["[[[\\"[["]', 1)]
)
def test_how_deep_a_text_is(text: str, depth: int) -> None:
    assert depth_of(text) == depth
