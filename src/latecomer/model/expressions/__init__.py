"""SQL expressions over columns: their types, and the values of simple ones, without Spark.

The types are Spark's. An expression of unknown type is refused; a `cast` around it gives the type. Values are computed
for arithmetic (`+ - * /`), comparisons, choices and concatenation of numbers, text and booleans, and equal Spark's.
Only Spark computes the others.
"""

from __future__ import annotations

from latecomer.model.expressions.parser import UnknownType, condition, condition_of, expression
from latecomer.model.expressions.values import Expression, Failed

__all__ = ["Expression", "Failed", "UnknownType", "condition", "condition_of", "expression"]
