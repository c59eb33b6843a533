"""The filters that Spark pushes down: as SQL, and as a reason not to read a file.

Spark applies every filter again. So a filter that is not understood here costs time, but changes no result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource

from latecomer.after.reading.questions import literal
from latecomer.store.delta.data_files import DataFile
from latecomer.store.sql import double_quoted

BATCH = "batch"
_COMPARED = {
    "EqualTo": "=",
    "EqualNullSafe": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "In": "in",
}
_KINDS = (
    (pa.types.is_string, str),
    (pa.types.is_timestamp, datetime),
    (pa.types.is_boolean, bool),
    (pa.types.is_integer, int),
    (pa.types.is_decimal, (Decimal, int)),
    (pa.types.is_date, date),
)
"""The Python type of Spark's values for a column. Floating point is left to Spark, which has its own rules for NaN."""


@dataclass(frozen=True)
class Condition:
    """A column has one of some values, or is above or below one; without values, it is null or not null."""

    column: str
    op: str
    sql: str
    values: tuple[Any, ...] = ()

    def may_hold(self, file: DataFile) -> bool:
        """Whether a row of a file may meet the condition, by the file's statistics."""
        low, high = file.minimum.get(self.column), file.last(self.column)
        if low is None or high is None or not self.values:
            return True
        first, last = min(self.values), max(self.values)
        if self.op in ("=", "in"):
            return bool(low <= last and first <= high)
        if self.op.startswith(">"):
            return bool(high > first or (high == first and self.op == ">="))
        return bool(low < first or (low == first and self.op == "<="))


def conditions(filters: Iterable[Any], columns: Mapping[str, pa.DataType]) -> list[Condition]:
    """The conditions of Spark's filters on these columns."""
    return [condition for each in filters for condition in _conditions(each, columns)]


def of_batches(after: int, until: int) -> list[Condition]:
    """The batches after one and up to another."""
    bounds = ((">", after), ("<=", until))
    return [Condition(BATCH, op, f"{BATCH} {op} {number:d}", (number,)) for op, number in bounds]


def _conditions(filter_: Any, columns: Mapping[str, pa.DataType]) -> Iterator[Condition]:
    path: tuple[str, ...] = getattr(filter_, "attribute", ())
    if len(path) != 1 or path[0] not in columns:
        return
    column, kind, name = path[0], columns[path[0]], type(filter_).__name__
    quoted = double_quoted(column)
    if name == "IsNull" or (name == "EqualNullSafe" and filter_.value is None):
        yield Condition(column, "null", f"{quoted} is null")
    elif name == "IsNotNull":
        yield Condition(column, "not null", f"{quoted} is not null")
    elif name in _COMPARED:
        given = filter_.value if isinstance(filter_, datasource.In) else [filter_.value]
        values = [value for value in given if value is not None]
        written = [_written(value, kind) for value in values]
        if values and None not in written:
            op = _COMPARED[name]
            right = f"({', '.join(map(str, written))})" if op == "in" else written[0]
            yield Condition(column, op, f"{quoted} {op} {right}", tuple(map(in_utc, values)))


def _written(value: Any, kind: pa.DataType) -> str | None:
    """A value as SQL; None where it does not fit a column of this type."""
    if not any(is_kind(kind) and isinstance(value, given) for is_kind, given in _KINDS):
        return None
    try:
        return literal(value.isoformat() if isinstance(value, date) else str(value), kind)
    except (ValueError, KeyError, OverflowError, pa.ArrowException):
        return None


def in_utc(value: Any) -> Any:
    """A value; a moment without a zone is one of UTC."""
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value
