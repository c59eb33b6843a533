"""Simple SQL predicates, evaluated without Spark, in three-valued logic.

They compare columns and constants, and combine comparisons with and, or, not. Functions, arithmetic, and comparisons
for which Spark converts types are refused, so that every result equals Spark's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from latecomer.errors import LatecomerError
from latecomer.model.expressions import condition
from latecomer.model.predicates import Token, check_where, column_mistake, tokens

Predicate = Callable[[Mapping[str, Any]], bool | None]
"""Whether a row passes; None where that is null."""
_SIGNS = frozenset(["=", "==", "!=", "<>", "<", "<=", ">", ">=", "<=>", "(", ")", ",", "!"])
_BEFORE_BRACKETS = frozenset(["and", "or", "not", "in", "is", "between", "when", "then", "else", "case"])
_END = Token("end", "")


class NeedsSpark(LatecomerError):
    """The predicate can only be evaluated by Spark."""


def predicate(written: str, columns: Mapping[str, str]) -> Predicate:
    """The predicate as a function of a row.

    >>> kept = predicate("status = 'OK' and paise > 5", {"status": "string", "paise": "bigint"})
    >>> kept({"status": "OK", "paise": 6}), kept({"status": "OK", "paise": None})
    (True, None)
    """
    try:
        check_where(written)
        reason = column_mistake(written, columns) or _beyond(written)
        answer = None if reason else condition(written, columns)
    except ValueError as error:
        reason, answer = str(error), None
    if answer is None:
        raise NeedsSpark(
            f"the predicate {written!r} is not one that can be evaluated without Spark: "
            f"{reason or 'it is no comparison of numbers, of text or of booleans with each other'}; run it on Spark"
        )
    return answer


def needs_spark(written: str | None, columns: Mapping[str, str]) -> bool:
    """Whether only Spark can evaluate a predicate. None is no predicate."""
    if written is None:
        return False
    try:
        predicate(written, columns)
    except NeedsSpark:
        return True
    return False


def _beyond(written: str) -> str | None:
    """The first function call, or operation that may fail for a row, with a reason: only Spark evaluates those."""
    for token, after in pairwise([*tokens(written), _END]):
        is_call = token.kind == "word" and after.text == "(" and token.word not in _BEFORE_BRACKETS
        is_minus = token.text == "-" and after.kind == "number"
        if is_call or (token.kind == "sign" and token.text not in _SIGNS and not is_minus):
            return f"{token.text} is beyond it"
    return None
