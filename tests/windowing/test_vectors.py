"""Expressions over many rows at once have the values that they have row by row."""

from __future__ import annotations

import math
import random
from typing import Any

import pyarrow as pa
import pytest

from latecomer.model.expressions import Expression, Failed, expression
from latecomer.store.layout import arrow_type
from latecomer.windowing.vectors import over

COLUMNS = {
    "n": "bigint",
    "i": "int",
    "t": "tinyint",
    "x": "double",
    "s": "string",
    "ok": "boolean",
    "m": "decimal(10,2)",
}
VALUES: dict[str, list[Any]] = {
    "n": [None, 0, 1, -1, 7, 2**63 - 1, -(2**63), 2**53 + 1],
    "i": [None, 0, 3, 2**31 - 1, -(2**31)],
    "t": [None, 0, 2, 127, -128],
    "x": [None, 0.0, -0.0, 1.5, math.inf, -math.inf, math.nan, 9007199254740993.0],
    "s": [None, "", "a", "b", "é", "\U0001f600", "\uffff"],
    "ok": [None, True, False],
    "m": [None, 0, 1, -5],
}
EXPRESSIONS = [
    "n > 5 and not ok",
    "n >= i or ok",
    "ok = true",
    "ok < true",
    "s = 'a' or s is null",
    "s < 'b'",
    "s <=> 'a'",
    "n <=> i",
    "x <=> n",
    "x > 1",
    "x = n",
    "n in (1, 7, i)",
    "s in ('a', 'b')",
    "n not in (1, null)",
    "n between 1 and 7",
    "n is not null",
    "ok is true",
    "ok is not false",
    "n is distinct from i",
    "n + i",
    "i * 2",
    "t - 1",
    "t * t",
    "n * 2",
    "x * 2 + n",
    "x - x",
    "n / 100",
    "n / i",
    "x / t",
    "-n",
    "s || 'z' || s",
    "concat(s, 'q')",
    "coalesce(n, i, 5)",
    "coalesce(x, 0.5D)",
    "case when n > 3 then 'many' when n is null then s else 'few' end",
    "case n when 1 then i when 7 then 20000000000 else t end",
    "if(n / i > 1, n, i)",
    "if(ok, n, i) + 1",
    "cast(n as int)",
    "cast(n as string)",
    "ok or n / i > 1",
    "ok and n / i > 1",
    "not (n > 1 or x < 2)",
    "m > 1",
    "m = n",
    "coalesce(m, m)",
    "5 > 3",
    "1 + 1",
    "7 / 2",
    "'a' || 'b'",
    "1 / 0",
    "n - i",
    "n * n",
    "n * i * 3",
    "coalesce(n / 3, n / i, 1 / 0)",
    "case when n / i > 1 then n / 0.5D when ok then i / t else n / t end",
    "(ok and n / i > 1) or (n * n > 3 and s = 'a')",
    "not (n + n > 1) or n / t in (1, 2)",
]


def columns_of(rows: int, rng: random.Random, odd: bool) -> dict[str, pa.Array]:
    """Some rows; where they are not `odd`, numbers are small and there is no NaN."""
    picked = (
        VALUES
        if odd
        else {**VALUES, "n": [1, 2, 7, None], "i": [1, 3, None], "t": [1, 2], "x": [0.5, 4.0, None]}
    )
    return {
        name: pa.array([rng.choice(picked[name]) for _ in range(rows)], arrow_type(kind))
        for name, kind in COLUMNS.items()
    }


def same(one: Any, other: Any) -> bool:
    """Whether two values are one: NaN is NaN, and the zero below 0 is another."""
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or (
            one == other and math.copysign(1, one) == math.copysign(1, other)
        )
    return bool(one == other) and type(one) is type(other)


def failing(made: Expression, row: dict[str, Any]) -> bool:
    try:
        made.computed(row)
    except Failed:
        return True
    return False


@pytest.mark.parametrize("written", EXPRESSIONS)
def test_many_rows_have_the_values_of_each(written: str) -> None:
    made, rng = expression(written, COLUMNS), random.Random(written)
    for rows, odd in ((0, True), (1, True), (40, True), (40, False)) * 5:
        columns = columns_of(rows, rng, odd)
        values, failed = over(made, columns, rows, arrow_type(made.kind))
        found = values.to_pylist()
        given = [
            dict(zip(columns, row, strict=True))
            for row in zip(*(columns[c].to_pylist() for c in columns), strict=True)
        ]
        expected = [made.of(row) for row in given]
        fails = [failing(made, row) for row in given]
        assert (fails if any(fails) else None) == (None if failed is None else failed.tolist())
        assert len(found) == rows
        assert all(map(same, found, expected)), [
            each for each in zip(found, expected, strict=True) if not same(*each)
        ]


def test_the_plain_ones_are_computed_at_once() -> None:
    by_row = [each for each in EXPRESSIONS if not expression(each, COLUMNS).form]
    assert by_row == ["n not in (1, null)", "-n", "cast(n as int)", "cast(n as string)"]


@pytest.mark.parametrize("written", ["n / i", "n + n", "n * i", "i * 2", "if(ok, n / i, 0.0D)"])
def test_rows_that_fail_are_no_reason_to_go_row_by_row(written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latecomer.windowing.vectors._one_by_one", lambda *_: pytest.fail("row by row"))
    made = expression(written, COLUMNS)
    columns = columns_of(1000, random.Random(written), odd=True)
    _, failed = over(made, columns, 1000, arrow_type(made.kind))
    assert failed is not None
