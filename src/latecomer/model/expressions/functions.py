"""The type of each operation's and function's result, as in Spark, and its value where Spark is not needed."""

from __future__ import annotations

from collections.abc import Sequence

from latecomer.model import types
from latecomer.model.expressions.values import (
    COMPUTED,
    NULL,
    Expression,
    Row,
    both,
    divided,
    either,
    fitting,
    joined_text,
    of_known,
    same,
)
from latecomer.model.predicates import FUNCTION_TYPES

ARRAY = "array<"

SAME_AS_FIRST = frozenset(["abs", "negative", "positive", "nullif", "mod", "pmod", "nanvl"])
SAME_ARRAY = frozenset(
    ["array_distinct", "array_except", "array_intersect", "array_union", "slice", "sort_array"]
)
COMMON = frozenset(["coalesce", "ifnull", "nvl", "greatest", "least"])
UNITS = frozenset(["year", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond"])
IRREGULAR = {
    "extract": "int",
    "date_part": "int",
    "datepart": "int",
    "dateadd": "timestamp",
    "timestampadd": "timestamp",
}
"""Functions whose arguments are not only expressions."""
TRIED = {"try_add": "+", "try_subtract": "-", "try_multiply": "*", "try_divide": "/"}

INTERVAL = "interval"
UNKNOWN = Expression("unknown")
"""An expression, or part of one, whose type is not known here; a cast around it may give it."""


def operation(sign: str, left: Expression, right: Expression) -> Expression:
    """Two expressions with an operator between them."""
    match sign:
        case "or":
            return either(left, right)
        case "and":
            return both(left, right)
        case "||":
            return joined_text([left, right])
        case "&" | "|" | "^":
            return Expression(common_type([left, right]))
    return _arithmetic(sign, left, right)


def called(name: str, given: Sequence[Expression]) -> Expression:
    """The call of a function."""
    if kind := FUNCTION_TYPES.get(name):
        return joined_text(given) if name == "concat" and given else Expression(kind)
    if not given:
        return UNKNOWN
    first = given[0].kind
    if name == "if" and len(given) == 3:
        return chosen([(given[0], given[1])], given[2])
    if name == "nvl2" and len(given) == 3:
        return Expression(common_type(given[1:]))
    if name == "coalesce":
        return _first_of(given)
    if name in COMMON:
        return Expression(common_type(given))
    if name in ("mod", "pmod", "try_mod") and len(given) == 2:
        return Expression(common_type(given))
    if name in TRIED and len(given) == 2:
        return Expression(_arithmetic(TRIED[name], *given).kind)
    if (
        name in SAME_AS_FIRST
        or (name in ("round", "bround") and not types.is_decimal(first))
        or (name in SAME_ARRAY and types.is_nested(first))
    ):
        return Expression(first)
    if name in ("ceil", "ceiling", "floor") and len(given) == 1 and not types.is_decimal(first):
        return Expression("bigint")
    if name in ("shiftleft", "shiftright"):
        return Expression("bigint" if first == "bigint" else "int")
    if name in ("array_max", "array_min", "element_at", "get", "try_element_at"):
        return element(given[0])
    if name == "map_keys":
        return Expression(f"{ARRAY}string>")
    inner = UNKNOWN.kind
    if name in ("map_values", "array"):
        inner = common_type(given) if name == "array" else element(given[0]).kind
    return UNKNOWN if inner == UNKNOWN.kind else Expression(f"{ARRAY}{inner}>")


def element(parsed: Expression) -> Expression:
    """An element of a list, or a value of a map."""
    match types.nested_type(parsed.kind):
        case ("array", {"element": kind}) | ("map", {"value": kind}):
            return Expression(kind)
    return UNKNOWN


def chosen(branches: Sequence[tuple[Expression, Expression]], otherwise: Expression) -> Expression:
    """The value of the first branch whose condition is true."""
    kind = common_type([*(value for _, value in branches), otherwise])
    parts = [part for branch in branches for part in branch] + [otherwise]
    if not all(same(part, kind) for part in (*(value for _, value in branches), otherwise)):
        return Expression(kind)
    if any(part.value is None for part in parts):
        return Expression(kind)
    asked = [(condition.value, value.value) for condition, value in branches]

    def choose(row: Row) -> object:
        for condition, value in asked:
            if condition is not None and value is not None and condition(row) is True:
                return value(row)
        return None if otherwise.value is None else otherwise.value(row)

    form = ("chosen", *parts) if all(part.form and part.kind != NULL for part in parts) else ()
    return Expression(kind, choose, form)


def _first_of(given: Sequence[Expression]) -> Expression:
    kind = common_type(given)
    if not all(same(each, kind) for each in given):
        return Expression(kind)
    values = [each.value for each in given if each.value is not None]

    def first(row: Row) -> object:
        return next((parsed for value in values if (parsed := value(row)) is not None), None)

    form = ("first", *given) if all(each.form for each in given) else ()
    return Expression(kind, first, form) if len(values) == len(given) else Expression(kind)


def _arithmetic(sign: str, left: Expression, right: Expression) -> Expression:
    kinds = (left.kind, right.kind)
    if INTERVAL in kinds:
        moved = left.kind if right.kind == INTERVAL else right.kind
        known = sign in ("+", "-") and moved in ("timestamp", "timestamp_ntz")
        return Expression(moved) if known else UNKNOWN
    if "date" in kinds and sign in "+-" and right.kind in types.INTEGERS:
        return Expression("date")
    if not all(types.is_numeric(kind) for kind in kinds) or any(map(types.is_decimal, kinds)):
        return UNKNOWN
    if sign == "/":
        if types.FLOATS & set(kinds) - {"double"}:
            return Expression("double")
        return of_known([left, right], "double", divided, "divide")
    if sign == "div":
        return Expression("bigint")
    kind, compute = common_type([left, right]), COMPUTED.get(sign)
    if compute is None or kind == "float" or "float" in kinds:
        return Expression(kind)
    if kind == "double":
        return of_known([left, right], kind, lambda a, b: compute(float(a), float(b)), "compute", sign)
    return of_known([left, right], kind, lambda a, b: fitting(compute(a, b), kind), "compute", sign)


def common_type(given: Sequence[Expression]) -> str:
    """The type that holds all of these."""
    kinds = {each.kind for each in given} - {NULL}
    if len(kinds) <= 1:
        return kinds.pop() if kinds else NULL
    if kinds <= types.INTEGERS:
        return max(kinds, key=types.INTEGER_BITS.__getitem__)
    if kinds <= types.INTEGERS | types.FLOATS:
        return "double"
    return UNKNOWN.kind
