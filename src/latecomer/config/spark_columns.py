"""Spark Columns as the SQL that a pipeline file would have: `F.col("status") == "OK"` becomes `(status = 'OK')`.

A Column is a tree of nodes, and each is written as SQL. A node without an SQL form, such as a user-defined Python
function, is refused: the pipeline is kept in the store and must mean the same later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from latecomer.model.types import field_name
from latecomer.model.words import words

_INFIX = frozenset(words("= <=> < <= > >= + - * / % & | ^ and or like rlike"))
_FIX = "write it as SQL text, such as \"status = 'OK'\""


def as_sql(value: object) -> object:
    """A Column as SQL text; anything else as it is."""
    if not type(value).__module__.startswith("pyspark.sql") or type(value).__name__ != "Column":
        return value
    column = getattr(value, "_jc", None)
    if column is None:
        raise ValueError(f"is a Column of Spark Connect, which does not say what it is made of; {_FIX}")
    return _text(column.node())


def _text(node: Any) -> str:
    kind = node.getClass().getSimpleName()
    if kind not in _WRITERS:
        raise ValueError(f"has a part that no SQL text says ({node.sql()}); {_FIX}")
    return _WRITERS[kind](node)


def _function(node: Any) -> str:
    name, arguments = str(node.functionName()), [_text(each) for each in _each(node.arguments())]
    if name in _INFIX and len(arguments) == 2:
        return f"({arguments[0]} {name.upper()} {arguments[1]})"
    match name:
        case "!" | "not":
            return f"(NOT {arguments[0]})"
        case "negative":
            return f"(- {arguments[0]})"
        case "in":
            return f"({arguments[0]} IN ({', '.join(arguments[1:])}))"
        case "isNull" | "isnull":
            return f"({arguments[0]} IS NULL)"
        case "isNotNull" | "isnotnull":
            return f"({arguments[0]} IS NOT NULL)"
    if not name.isidentifier() or node.isDistinct():
        raise ValueError(f"has a part that no SQL text says ({node.sql()}); {_FIX}")
    return f"{name}({', '.join(arguments)})"


def _attribute(node: Any) -> str:
    return ".".join(field_name(str(part)) for part in _each(node.nameParts()))


def _literal(node: Any) -> str:
    value, shown = node.value(), str(node.sql())
    if isinstance(value, bool | int | float | str) or value is None:
        if isinstance(value, float) and not shown.replace(".", "").replace("-", "").isdigit():
            return f"CAST('{shown}' AS DOUBLE)"
        return f"{shown}D" if isinstance(value, float) else shown
    kind = value.getClass().getSimpleName() if hasattr(value, "getClass") else type(value).__name__
    match kind:
        case "Date" | "LocalDate" | "date":
            return f"DATE '{shown}'"
        case "BigDecimal" | "Decimal":
            return f"{shown}BD"
    raise ValueError(f"has a value that no SQL text says ({shown}); {_FIX}")


def _cast(node: Any) -> str:
    return f"CAST({_text(node.child())} AS {node.dataType().sql()})"


def _case(node: Any) -> str:
    branches = (f"WHEN {_text(each._1())} THEN {_text(each._2())}" for each in _each(node.branches()))
    last = node.otherwise()
    rest = f" ELSE {_text(last.get())}" if last.isDefined() else ""
    return f"CASE {' '.join(branches)}{rest} END"


def _extracted(node: Any) -> str:
    return f"{_text(node.child())}[{_text(node.extraction())}]"


def _each(sequence: Any) -> Iterator[Any]:
    """The elements of a Scala sequence."""
    return (sequence.apply(nth) for nth in range(sequence.size()))


_WRITERS: dict[str, Callable[[Any], str]] = {
    "UnresolvedFunction": _function,
    "UnresolvedAttribute": _attribute,
    "Literal": _literal,
    "Cast": _cast,
    "CaseWhenOtherwise": _case,
    "UnresolvedExtractValue": _extracted,
    "SqlExpression": lambda node: f"({node.expression()})",
    "Alias": lambda node: _text(node.child()),
}
