"""Logical types: what a value means beyond its type. Unknown and misplaced ones are ignored."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from latecomer.model.types import MOST_DIGITS
from latecomer.schemas.avro.types import Fixed, Properties, Type, TypeReference, Union

_NAMES = {
    "bytes": ("big-decimal", "decimal"),
    "fixed": ("decimal", "duration", "uuid"),
    "int": ("date", "time-millis"),
    "long": (
        "time-micros",
        *("timestamp-millis", "timestamp-micros", "timestamp-nanos"),
        *("local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos"),
    ),
    "string": ("uuid",),
}
"""Type → the logical types that it may have."""
_SIZES = {"duration": 12, "uuid": 16}
"""Logical type → the size of a fixed that has it."""
TIMES = {
    "date": "date",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "local-timestamp-millis": "timestamp_ntz",
    "local-timestamp-micros": "timestamp_ntz",
}
"""Logical types that Spark knows → the types of their columns."""
_FAMILIES = ("local-timestamp-", "timestamp-", "time-")


@dataclass(frozen=True)
class Logical:
    """A logical type. A decimal has `precision`, its digits in all, and `scale`, those after the point."""

    name: str
    precision: int | None = None
    scale: int | None = None


def logical_type(found: Type) -> Logical | None:
    """The logical type of a type; None if it has no valid one.

    >>> from latecomer.schemas.avro.types import Json, Primitive
    >>> logical_type(Primitive("int", (("logicalType", Json.of("date")),)))
    Logical(name='date', precision=None, scale=None)
    >>> logical_type(Primitive("string", (("logicalType", Json.of("date")),)))
    """
    if isinstance(found, Union | TypeReference):
        return None
    name = _property(found.properties, "logicalType")
    if name not in _NAMES.get(found.kind, ()):
        return None
    size = found.size if isinstance(found, Fixed) else None
    if name == "decimal":
        return _decimal(found.properties, size)
    return None if size is not None and size != _SIZES[name] else Logical(name)


def family(logical: Logical) -> str:
    """Logical types of a family differ only in units or digits."""
    return next((each for each in _FAMILIES if logical.name.startswith(each)), logical.name)


def spark_attributes(logical: Logical | None) -> dict[str, Any]:
    """The attributes of a logical type for Spark; none if Spark does not know the type."""
    if logical is not None and logical.name == "decimal" and (logical.precision or 0) <= MOST_DIGITS:
        return {"logicalType": "decimal", "precision": logical.precision, "scale": logical.scale}
    return {"logicalType": logical.name} if logical is not None and logical.name in TIMES else {}


def _decimal(properties: Properties, size: int | None) -> Logical | None:
    precision, scale = _property(properties, "precision"), _property(properties, "scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or precision < 1:
        return None
    if size is not None and precision > _digits(size):
        return None
    return Logical("decimal", precision, scale)


def _digits(size: int) -> int:
    """How many decimal digits always fit into so many bytes.

    >>> _digits(1), _digits(4), _digits(8), _digits(16)
    (2, 9, 18, 38)
    """
    return math.floor(math.log10(2) * (8 * size - 1))


def _property(properties: Properties, name: str, otherwise: Any = None) -> Any:
    return next((each.value for key, each in properties if key == name), otherwise)
