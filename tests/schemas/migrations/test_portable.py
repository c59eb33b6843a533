"""Expressions of a migration in another database's SQL: the same value there, or refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.model.expressions import expression
from latecomer.schemas.migrations.portable import Column, Dialect, NotPortable, portable

KINDS = {
    "a": "bigint",
    "pricing.base": "bigint",
    "name": "string",
    "other": "string",
    "day": "date",
    "moment": "timestamp",
}
COLUMNS = {name: Column('"' + name + '"', kind) for name, kind in KINDS.items()}
SAME = [
    "a + pricing.base * 2 - 1",
    "-a + (pricing.base - a) * (2 - a)",
    "coalesce(a, pricing.base, 0)",
    "concat(name, 'T', other)",
    "name || '-' || other",
    "case when a is null then pricing.base when a = 3 then 0 else a + 1 end",
    "case when name = other or not a <> 1 then 1 else 2 end",
    "case when a is not null and name != 'x' then name else 'it' end",
]
WHOLE = st.none() | st.integers(-1000, 1000)
TEXTS = st.none() | st.text("xyé T'%\"", max_size=5)


@given(a=WHOLE, base=WHOLE, name=TEXTS, other=TEXTS)
@pytest.mark.parametrize("written", SAME)
def test_sqlite_computes_what_the_pipeline_computes(
    written: str, a: int | None, base: int | None, name: str | None, other: str | None
) -> None:
    row: dict[str, Any] = {"a": a, "pricing.base": base, "name": name, "other": other}
    expected = expression(written, KINDS).of(row)
    with closing(sqlite3.connect(":memory:")) as database:
        columns = ", ".join(f'? as "{column}"' for column in row)
        sql = portable(written, COLUMNS, Dialect.SQLITE)
        assert database.execute(f"select {sql} from (select {columns})", tuple(row.values())).fetchone() == (
            expected,
        )


@pytest.mark.parametrize(
    ("written", "dialect", "sql"),
    [
        ("left(name, 10)", Dialect.POSTGRES, 'substr("name", 1, 10)'),
        ("substring(name, 6, 2)", Dialect.SQLITE, 'substr("name", 6, 2)'),
        ("cast(moment as date)", Dialect.POSTGRES, "CAST(\"moment\" AT TIME ZONE 'UTC' AS date)"),
        ("cast(moment as date)", Dialect.SQLITE, 'substr("moment", 1, 10)'),
        ("cast(moment as date)", Dialect.DELTA, 'cast("moment" as date)'),
        ("cast(day as timestamp)", Dialect.POSTGRES, "(CAST(\"day\" AS timestamp) AT TIME ZONE 'UTC')"),
        ("cast(day as timestamp)", Dialect.SQLITE, "(\"day\" || 'T00:00:00Z')"),
        ("cast(day as date)", Dialect.SQLITE, '"day"'),
    ],
)
def test_moments_and_parts_of_text(written: str, dialect: Dialect, sql: str) -> None:
    assert portable(written, COLUMNS, dialect) == sql


def test_a_name_in_backticks_may_have_backticks() -> None:
    columns = {"the `day`": Column('"the `day`"', "date")}
    for written in ("`the ``day```", "cast(`the ``day``` as date)"):
        assert portable(written, columns, Dialect.POSTGRES) == '"the `day`"'


@pytest.mark.parametrize(
    "written",
    [
        "a / 2",
        "a % 2",
        "a div 2",
        "1.5 * a",
        "upper(name)",
        "left(name, a)",
        "left(name, 0)",
        "substring(name, -1, 2)",
        "cast(a as string)",
        "cast(a + 1 as bigint)",
        "name < other",
        "a::int",
        "'it\\'s'",
        '"name"',
        "unknown",
        "concat(name)",
        "name like 'x%'",
        "a in (1, 2)",
        "()",
        "a, a",
        "a)",
        "(a",
    ],
)
def test_what_may_mean_something_else_is_refused(written: str) -> None:
    for dialect in Dialect:
        with pytest.raises(NotPortable):
            portable(written, COLUMNS, dialect)
