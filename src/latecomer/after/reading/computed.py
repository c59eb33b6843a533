"""Conditions and derived columns of many rows, without Spark: each is computed once for each combination of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from latecomer.model.array_types import Flags, Integers
from latecomer.model.expressions import Failed, expression
from latecomer.model.nowcast.filling import numbered
from latecomer.model.predicates import named_columns
from latecomer.model.simple_predicates import NeedsSpark, predicate
from latecomer.store.layout import arrow_type

Columns = Mapping[str, pa.Array]


class OnlySpark(Exception):
    """A column or condition that only Spark can compute; the message says which."""


def computed_column(
    name: str, sql: str, kinds: Mapping[str, str], columns: Columns, count: int
) -> tuple[pa.Array, Flags]:
    """A derived column, and the rows for which it cannot be computed. `columns` are those that its SQL may name."""
    made = expression(sql, kinds)
    if made.value is None:
        raise OnlySpark(f"only Spark can compute {name}")
    inputs = named_columns(sql, kinds)
    first, code = distinct([columns[column] for column in inputs], count)
    values, failed = [], np.zeros(len(first), bool)
    for nth, row in enumerate(_rows(columns, inputs, first)):
        try:
            values.append(made.computed(row))
        except Failed:
            values.append(None)
            failed[nth] = True
    return pa.array(values, arrow_type(made.kind)).take(pa.array(code)), np.asarray(failed[code], bool)


def kept_by(where: str | None, kinds: Mapping[str, str], columns: Columns, count: int) -> Flags:
    """Which rows a condition keeps."""
    if where is None:
        return np.ones(count, bool)
    try:
        keeps = predicate(where, kinds)
    except NeedsSpark:
        raise OnlySpark(f"only Spark can evaluate where: {where}") from None
    inputs = named_columns(where, kinds)
    first, code = distinct([columns[column] for column in inputs], count)
    answers = [keeps(row) is True for row in _rows(columns, inputs, first)]
    return np.asarray(np.array(answers, bool)[code], bool)


def distinct(columns: Sequence[pa.Array], count: int) -> tuple[Integers, Integers]:
    """The distinct combinations of values: the first row of each, and for every row the number of its combination."""
    code, width = np.zeros(count, np.int64), 1
    for values in columns:
        encoded = values.dictionary_encode(null_encoding="encode")
        wide = code * len(encoded.dictionary) + np.asarray(encoded.indices.to_numpy(), np.int64)
        code, width = numbered(wide, width * len(encoded.dictionary))
    first = np.zeros(width if count else 0, np.int64)
    first[code[::-1]] = np.arange(count)[::-1]
    return first, code


def _rows(columns: Columns, names: Sequence[str], which: Integers) -> list[dict[str, Any]]:
    if not names:
        return [{} for _ in which]
    chosen = {name: columns[name].take(pa.array(which)) for name in names}
    listed: list[dict[str, Any]] = pa.table(chosen).to_pylist()
    return listed
