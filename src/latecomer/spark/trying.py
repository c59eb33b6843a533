"""Expressions that stop nothing where they cannot be computed for a row."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql.classic.column import Column as ClassicColumn

VALUE = "value"
"""The field that has the value."""


def tried(spark: SparkSession, sql: str, kind: str, row: str) -> Column:
    """The value of an expression as a type, in a struct; that is null where it cannot be computed.

    Spark has this for some functions only (`try_divide`, `try_cast`). All of them are made of one expression of
    Catalyst's, `TryEval`, which takes any other. `row` is a column that is never null: see `store.sql.holds`.
    """
    jvm: Any = spark._jvm
    guarded = f"named_struct('{VALUE}', cast(if({row} is not null, ({sql}), null) as {kind}))"
    parsed = spark._jsparkSession.sessionState().sqlParser().parseExpression(guarded)
    whole = jvm.org.apache.spark.sql.catalyst.expressions.TryEval(parsed)
    return ClassicColumn(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(whole))
