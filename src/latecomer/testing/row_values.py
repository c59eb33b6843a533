"""The values of a row as columns of each type hold them, in Python and in a line of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from struct import pack, unpack
from typing import Any

from latecomer.model import types
from latecomer.model.durations import UNITS, iso, to_micros, to_moment
from latecomer.model.written_numbers import written_number
from latecomer.model.written_values import json_value
from latecomer.model.zones import day_of, midnight, to_local, to_utc
from latecomer.testing.times import Times

_EXACT = Context(prec=80)
UNFIT = (ValueError, TypeError, ArithmeticError)
"""The errors of a value that its column cannot hold."""


def typed(value: Any, kind: str, times: Times) -> Any:
    """A value as a column of this type holds it."""
    if value is None:
        return None
    if (nested := types.nested_type(kind)) is not None:
        return _typed_within(value, *nested, times)
    if kind in types.INTEGERS:
        number = int(value)
        is_whole = not isinstance(value, bool) and (isinstance(value, str) or number == value)
        if not is_whole or not types.holds(kind, number):
            raise ValueError
        return number
    if kind in types.FLOATS:
        return float(value) if kind == "double" else unpack("<f", pack("<f", float(value)))[0]
    if types.is_decimal(kind):
        step = Decimal(1).scaleb(-types.scale_of(kind))
        written = written_number(str(value))
        if written is None:
            raise ValueError
        exact = written.quantize(step, ROUND_HALF_UP, _EXACT)
        if abs(exact) >= 10 ** types.whole_digits(kind):
            raise ValueError
        return exact
    if kind == "boolean":
        if str(value).lower() not in ("true", "false"):
            raise ValueError
        return str(value).lower() == "true"
    if kind == "date":
        day = value.date() if isinstance(value, datetime) else value
        return day if isinstance(day, date) else date.fromisoformat(str(day))
    if kind in ("timestamp", "timestamp_ntz"):
        return to_moment(moment(value, times))
    if kind == "binary":
        return value if isinstance(value, bytes) else str(value).encode()
    return str(value)


def _typed_within(value: Any, outer: str, kinds: Mapping[str, str], times: Times) -> Any:
    """A list, a map or an object, with the values in it as their types hold them."""
    if outer == "array":
        if not isinstance(value, list | tuple):
            raise ValueError
        return [typed(each, kinds["element"], times) for each in value]
    if not isinstance(value, Mapping):
        raise ValueError
    if outer == "map":
        return {str(name): typed(each, kinds["value"], times) for name, each in value.items()}
    return {name: typed(value.get(name), kind, times) for name, kind in kinds.items()}


def moment(value: Any, times: Times) -> int:
    """A time in microseconds, from a datetime, a number or text."""
    if isinstance(value, datetime):
        return to_micros(value)
    return value if isinstance(value, int) else times.read(str(value))


def as_json(value: Any, kind: str) -> Any:
    """A value of a column of this type in a line of JSON."""
    if isinstance(value, datetime) and kind == "timestamp_ntz":
        return json_value(value.replace(tzinfo=None))
    return json_value(value)


# Columns that hold moments, in their unit or by the wall clock of a zone


def held(micros: int, kind: str, unit: str | None, zone: str) -> int:
    """A moment as a column of this type can hold it, rounded down."""
    if kind == "date":
        return midnight(day_of(micros, zone), zone)
    if kind == "timestamp_ntz":
        return to_utc(to_local(micros, zone), zone)
    if not types.is_numeric(kind):
        return micros
    if kind == "float":
        raise ValueError("a float has too few digits for a time; declare the column as double")
    unit = unit or "s"
    if kind == "double":
        step = UNITS["s"] if unit == "ns" else 1
    else:
        step = max(1, UNITS.get(unit, 1) // 10 ** types.scale_of(kind))
    rounded = micros // step * step
    try:
        typed(_counted(rounded, unit), kind, Times())
    except UNFIT:
        raise ValueError(f"a time in {unit} is too large for {kind}; declare a larger type") from None
    return rounded


def moment_as_json(micros: int, kind: str, unit: str | None, zone: str) -> Any:
    """A moment of a column of this type in a line of JSON."""
    if kind == "date":
        return str(day_of(micros, zone))
    if kind == "timestamp_ntz":
        return as_json(to_moment(to_local(micros, zone)), kind)
    if not types.is_numeric(kind):
        return iso(micros)
    return as_json(typed(_counted(micros, unit or "s"), kind, Times()), kind)


def _counted(micros: int, unit: str) -> Decimal:
    if unit == "ns":
        return Decimal(micros * 1_000)
    return _EXACT.divide(Decimal(micros), Decimal(UNITS[unit]))
