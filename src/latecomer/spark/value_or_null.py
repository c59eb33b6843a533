"""Expressions that give null for a row where Spark cannot compute them, instead of an error."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql.classic.column import Column as ClassicColumn

VALUE = "value"
"""The field that has the value."""


def value_or_null(spark: SparkSession, sql: str, kind: str, row: str) -> Column:
    """The value of an expression, cast to a type, in a struct. The struct is null where it cannot be computed.

    Spark has this for some functions only (`try_divide`, `try_cast`). They all use one expression of Catalyst's,
    `TryEval`, which takes any expression. `row` is a column that is never null: see `store.sql.is_true_sql`.
    """
    jvm: Any = spark._jvm
    guarded = f"named_struct('{VALUE}', cast(if({row} is not null, ({sql}), null) as {kind}))"
    parsed = spark._jsparkSession.sessionState().sqlParser().parseExpression(guarded)
    whole = jvm.org.apache.spark.sql.catalyst.expressions.TryEval(parsed)
    return ClassicColumn(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(whole))
