"""Texts as values of a type, in Spark SQL: for dead letters, whose columns a fix computes as text."""

from __future__ import annotations

from latecomer.model.written_numbers import LONGEST, PATTERN, POINT, Signs
from latecomer.source.decode.private_columns import CORRUPT
from latecomer.store.sql import ddl


def number(text: str, kind: str, signs: Signs = POINT) -> str:
    """The number that a text means; null where a column of this type does not take it. A text that
    `model/written_numbers.py` refuses is never cast: a cast of `1e3000000` takes seconds."""
    plain = text
    written = f"octet_length({text}) <= {LONGEST}"
    if signs != POINT:
        thousands = _escaped(signs.thousands_sign or "")
        plain = f"replace(replace({text}, '{thousands}', ''), '{signs.decimal_sign}', '.')"
        written += f" and {text} rlike '^{_escaped(signs.pattern())}$'"
    return f"case when {written} and {plain} rlike '^{PATTERN}$' then try_cast({plain} as {kind}) end"


def _escaped(text: str) -> str:
    return text.replace("'", "\\'")


def list_of(text: str, kind: str) -> str:
    """The list or map that a JSON text means; null where a column of this type does not take it."""
    record = f"""concat('{{"v":', {text}, '}}')"""
    options = f"map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{CORRUPT}')"
    schema = literal(ddl({"v": kind, CORRUPT: "string"}))
    parsed = f"from_json({record}, {schema}, {options})"
    return f"if({parsed}.{CORRUPT} is null, {parsed}.v, null)"


def text_of(sql: str) -> str:
    """A value as text: a list or a map as JSON, a text as it is."""
    return f"from_json(to_json(struct({sql} as v)), 'v string').v"


def literal(text: str) -> str:
    r"""A text by Spark's rule, by which a backslash escapes.

    >>> print(literal("it's \\d"))
    'it\'s \\d'
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
