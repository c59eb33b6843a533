"""Lists as JSON text, as Spark's `to_json` writes them."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.model.json_text import json_text, short_form
from scenarios import quick


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.5, "1.5"),
        (100.0, "100.0"),
        (0.001, "0.001"),
        (0.00012, "1.2E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (-1.25e22, "-1.25E22"),
        (float("nan"), '"NaN"'),
        (float("-inf"), '"-Infinity"'),
        (Decimal("0E-7"), "0E-7"),
        (Decimal("1.50"), "1.50"),
        (True, "true"),
        (b"A", '"QQ=="'),
        (date(2026, 4, 5), '"2026-04-05"'),
        (datetime(2026, 4, 5, 6, 7, 8, 9, UTC), '"2026-04-05T06:07:08.000009Z"'),
        (datetime(2, 4, 5, tzinfo=UTC), '"0002-04-05T00:00:00.000000Z"'),
        ('é"\\/\n\x1f', '"é\\"\\\\/\\n\\u001F"'),
        (None, "null"),
    ],
)
def test_each_value_has_one_text(value: Any, written: str) -> None:
    assert json_text(value) == written


@given(
    st.lists(
        st.one_of(st.text(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans())
    )
)
@quick
def test_what_is_written_is_read_back(values: list[Any]) -> None:
    assert json.loads(json_text(values)) == values


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ('["a","b"]', "[a,b]"),
        ("[1,2.50,true]", "[1,2.50,true]"),
        ('[{"value":"DEL","count":2}]', "[DEL:2]"),
        ('["a b"]', None),
        ('["a,b"]', None),
        ('[""]', None),
        ('[{"other":1}]', None),
        ("[[1]]", None),
        ("[a", None),
        ("plain", None),
    ],
)
def test_a_transcript_writes_plain_lists_short(text: str, short: str | None) -> None:
    assert short_form(text) == short
