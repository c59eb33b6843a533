"""What texts mean in their types, in SQL: for columns that users compute in Spark, where a fix makes texts of them."""

from __future__ import annotations

from latecomer.model.written_numbers import LONGEST, PATTERN, POINT, Signs
from latecomer.source.decode.columns import CORRUPT
from latecomer.store.sql import ddl


def number(text: str, kind: str, signs: Signs = POINT) -> str:
    """The number that a text means, in SQL; null where a column of this type does not take it. What
    `model/written_numbers.py` does not take never reaches a cast: `1e3000000` would take it seconds."""
    plain = text
    written = f"octet_length({text}) <= {LONGEST}"
    if signs != POINT:
        apart = _escaped(signs.thousands_sign or "")
        plain = f"replace(replace({text}, '{apart}', ''), '{signs.decimal_sign}', '.')"
        written += f" and {text} rlike '^{_escaped(signs.pattern())}$'"
    return f"case when {written} and {plain} rlike '^{PATTERN}$' then try_cast({plain} as {kind}) end"


def _escaped(text: str) -> str:
    return text.replace("'", "\\'")


def list_of(text: str, kind: str) -> str:
    """The list or map that a JSON text means, in SQL; null where a column of this type does not take it."""
    record = f"""concat('{{"v":', {text}, '}}')"""
    options = f"map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{CORRUPT}')"
    schema = ddl({"v": kind, CORRUPT: "string"}).replace("\\", "\\\\").replace("'", "\\'")
    parsed = f"from_json({record}, '{schema}', {options})"
    return f"if({parsed}.{CORRUPT} is null, {parsed}.v, null)"


def text_of(sql: str) -> str:
    """A value as text, in SQL: a list or a map as JSON, a text as it is."""
    return f"from_json(to_json(struct({sql} as v)), 'v string').v"
