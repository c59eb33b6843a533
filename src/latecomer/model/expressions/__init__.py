"""SQL expressions over columns: their type, and for simple ones their value, without Spark.

The types are Spark's. What is not known here is refused, and a `cast` around it says the type. A value is Spark's
value, or only Spark can tell: numbers, text and booleans that are computed by `+ - * /`, compared, chosen between and
joined.
"""

from __future__ import annotations

from latecomer.model.expressions.parser import UnknownType, condition, condition_of, expression
from latecomer.model.expressions.values import Expression, Failed

__all__ = ["Expression", "Failed", "UnknownType", "condition", "condition_of", "expression"]
