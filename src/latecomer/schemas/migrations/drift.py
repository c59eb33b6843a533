"""Whether the two shapes of an event agree."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from latecomer.errors import LatecomerError, did_you_mean
from latecomer.model.expressions import Expression, UnknownType, expression
from latecomer.model.types import is_numeric
from latecomer.schemas.migrations.definition import Migration

OLD_MISSING = "the old shape is missing"
NEW_MISSING = "the new shape is missing"
NEAR = 1e-9
"""The relative tolerance within which floating-point numbers are equal."""


def differs(column: str) -> str:
    return f"{column} differs"


@dataclass(frozen=True)
class Checks:
    """The expressions that every event must satisfy."""

    old: list[str]
    new: list[str]
    sql: Mapping[str, str]
    """Column → the expression over the other shape."""
    expressions: Mapping[str, Expression]

    @property
    def columns(self) -> list[str]:
        return [*self.old, *self.new]

    @property
    def needs_spark(self) -> list[str]:
        """The columns whose expressions only Spark can compute."""
        return [name for name, each in self.expressions.items() if each.value is None]

    def drift(self, row: Mapping[str, Any]) -> str | None:
        """Why an event drifts; None if its shapes agree, or if it has neither."""
        has_old = any(row.get(name) is not None for name in self.old)
        has_new = any(row.get(name) is not None for name in self.new)
        if not has_old:
            return OLD_MISSING if has_new else None
        if not has_new:
            return NEW_MISSING
        for name, each in self.expressions.items():
            if not is_equal(row.get(name), each.of(row)):
                return differs(name)
        return None


def is_equal(a: Any, b: Any) -> bool:
    """
    >>> is_equal(0.1 + 0.2, 0.3), is_equal(1, 1.0), is_equal(None, 0), is_equal(None, None)
    (True, True, False, True)
    """
    if isinstance(a, float) or isinstance(b, float):
        if a is None or b is None:
            return False
        return math.isclose(a, b, rel_tol=NEAR) or (math.isnan(a) and math.isnan(b))
    return bool(_moment(a) == _moment(b))


def _moment(value: Any) -> Any:
    """A date as the moment at which it begins; any other value as it is."""
    is_date = isinstance(value, date) and not isinstance(value, datetime)
    return datetime(value.year, value.month, value.day, tzinfo=UTC) if is_date else value


def _comparable(one: str, other: str) -> bool:
    moments = {"date", "timestamp"}
    return one == other or (is_numeric(one) and is_numeric(other)) or {one, other} <= moments


def checks_of(migration: Migration, types: Mapping[str, str]) -> Checks:
    """The checks over a log with columns of these types."""
    for name in (*migration.old, *migration.new):
        if name not in types:
            raise LatecomerError(
                f"the pipeline has no column {name}, so its events cannot be compared; declare it in source.schema "
                f"({did_you_mean(name, types)})"
            )
    sql = {**migration.backward, **migration.forward}
    expressions: dict[str, Expression] = {}
    for name, written in sql.items():
        try:
            expressions[name] = expression(written, types)
        except UnknownType as error:
            raise LatecomerError(f"the expression of {name} cannot be used: {error}") from None
        except ValueError as error:
            raise LatecomerError(f"the expression of {name} {error}") from None
        if not _comparable(expressions[name].kind, types[name]):
            raise LatecomerError(
                f"the expression of {name} makes a {expressions[name].kind}, and the column is a {types[name]}; "
                f"write cast({written} as {types[name]})"
            )
    return Checks(migration.old, migration.new, sql, expressions)
