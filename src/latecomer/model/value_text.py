"""A value as text and as JSON, by the type of its column: letter for letter as Spark casts and writes it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from math import isfinite
from typing import Any

from latecomer.model import types
from latecomer.model.float_text import double_text, float_text
from latecomer.model.json_text import json_text


def value_text(value: Any, kind: str) -> str:
    """A value as Spark's cast to a string has it. Bytes need not be UTF-8: they have a character each.

    >>> value_text(True, "boolean"), value_text(Decimal("1E+2"), "decimal(5,0)"), value_text(1e7, "double")
    ('true', '100', '1.0E7')
    """
    match value:
        case bool():
            return "true" if value else "false"
        case bytes():
            return value.decode("iso-8859-1")
        case Decimal():
            return f"{value:f}"
        case float():
            return float_text(value) if kind == "float" else double_text(value)
        case datetime():
            return moment_text(value)
    return str(value)


def moment_text(moment: datetime) -> str:
    """A moment as Spark's cast writes it.

    >>> moment_text(datetime(2026, 1, 5, 14, 0, 0, 120_000))
    '2026-01-05 14:00:00.12'
    """
    seconds = moment.replace(tzinfo=None).isoformat(" ", "seconds")
    return f"{seconds}.{moment.microsecond:06}".rstrip("0").rstrip(".") if moment.microsecond else seconds


def row_json(values: Mapping[str, Any], kinds: Mapping[str, str]) -> str:
    """A row as a JSON object, nulls and all, as `to_json` writes it.

    >>> from datetime import UTC
    >>> row_json({"at": datetime(2026, 1, 5, tzinfo=UTC), "n": None}, {"at": "timestamp", "n": "int"})
    '{"at":"2026-01-05T00:00:00.000Z","n":null}'
    """
    fields = (f"{json_text(name)}:{value_json(value, kinds[name])}" for name, value in values.items())
    return "{" + ",".join(fields) + "}"


def value_json(value: Any, kind: str) -> str:
    """A value as `to_json` writes it."""
    if value is None:
        return "null"
    match types.nested_type(kind):
        case "array", {"element": element}:
            return "[" + ",".join(value_json(each, element) for each in value) + "]"
        case "map", {"value": held}:
            pairs = value.items() if isinstance(value, Mapping) else value
            return "{" + ",".join(f"{json_text(name)}:{value_json(each, held)}" for name, each in pairs) + "}"
        case "struct", fields:
            return row_json({name: value[name] for name in fields}, fields)
    match value:
        case datetime():
            written = value.strftime("%Y-%m-%dT%H:%M:%S").zfill(19) + f".{value.microsecond // 1000:03}"
            return f'"{written}{"" if value.tzinfo is None else "Z"}"'
        case date():
            return f'"{value.isoformat()}"'
        case bytes():
            return f'"{b64encode(value).decode()}"'
        case float() if kind == "float" and isfinite(value):
            return float_text(value)
    return json_text(value)
