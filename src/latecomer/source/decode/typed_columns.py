"""Makes columns in their types: of texts, reporting those that the column does not take; of single rows; of nulls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.model import types
from latecomer.model.array_types import Flags
from latecomer.model.written_numbers import POINT, Signs
from latecomer.source.decode.arrow_text import DATE, NotPlain, typed, with_other_letters
from latecomer.source.decode.private_columns import BROKEN, CORRUPT, KEPT, POSITION
from latecomer.source.decode.written import Misfit, value_of
from latecomer.store.layout import source_type

_TIME = rf"{DATE}[T ][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(\.[0-9]{{1,6}})?"
_FRACTION = r"-?[0-9]{1,15}(\.[0-9]{1,15})?"
_PLAIN = {
    "bigint": "-?[0-9]{1,18}",
    "int": "-?[0-9]{1,9}",
    "smallint": "-?[0-9]{1,4}",
    "tinyint": "-?[0-9]{1,2}",
    "double": _FRACTION,
    "float": _FRACTION,
    "boolean": "true|false",
    "date": DATE,
    "timestamp": f"{_TIME}Z?",
    "timestamp_ntz": _TIME,
}
"""Patterns for the usual form of each type."""


def of_texts(texts: pa.Array, kind: str, signs: Signs = POINT) -> tuple[pa.Array, Sequence[int]]:
    """A column of texts in its type, null where the text is null; and the indices of texts that it does not take."""
    if kind == "string":
        return texts, ()
    if signs != POINT and types.is_numeric(kind):
        plain = pc.fill_null(pc.match_substring_regex(texts, f"^{signs.pattern()}$"), False)
        column, unread = of_texts(_with_point(pc.if_else(plain, texts, None), signs), kind)
        mask = np.asarray(plain)
        mask[list(unread)] = False
        plain = pa.array(mask)
    else:
        try:
            return typed(texts, kind), ()
        except NotPlain:
            plain, column = _plain(texts, kind)
    rest = pc.and_(pc.is_valid(texts), pc.invert(plain))
    values, refused = [], []
    for nth, text in zip(np.flatnonzero(rest).tolist(), texts.filter(rest).to_pylist(), strict=True):
        try:
            values.append(value_of(text, kind, signs))
        except Misfit:
            values.append(None)
            refused.append(nth)
    return pc.replace_with_mask(column, rest, array_of(values, kind)), refused


def _with_point(texts: pa.Array, signs: Signs) -> pa.Array:
    """Numbers with a decimal point and without thousands signs."""
    if signs.thousands_sign is not None:
        texts = pc.replace_substring(texts, signs.thousands_sign, "")
    return pc.replace_substring(texts, signs.decimal_sign, ".")


def _plain(texts: pa.Array, kind: str) -> tuple[pa.Array, pa.Array]:
    """Which texts are written in a usual form, and a column with their values."""
    if types.is_numeric(kind) and kind != "float":
        usual = np.ones(len(texts), bool)
        usual[with_other_letters(texts, kind)] = False
        with suppress(NotPlain):
            return pa.array(usual), typed(_others_out(texts, pa.array(usual), kind), kind)
    plain = pc.fill_null(pc.match_substring_regex(texts, f"^({_pattern(kind)})$"), False)
    with suppress(NotPlain):
        usual_texts = _others_out(texts, plain, kind)
        return plain, usual_texts.cast(pa.float32()) if kind == "float" else typed(usual_texts, kind)
    return pa.repeat(False, len(texts)), pa.nulls(len(texts), source_type(kind))


def _others_out(texts: pa.Array, plain: pa.Array, kind: str) -> pa.Array:
    """The texts with others in the place of those that are not plain. For numbers it is "0", because every byte of the
    buffer is checked, even behind a null."""
    if types.is_numeric(kind):
        return pc.if_else(pc.or_(plain, pc.is_null(texts)), texts, "0")
    return pc.if_else(plain, texts, None)


def _pattern(kind: str) -> str:
    if types.is_decimal(kind):
        whole, scale = types.whole_digits(kind), types.scale_of(kind)
        return (
            rf"-?[0-9]{{1,{max(whole, 1)}}}" + (rf"(\.[0-9]{{1,{scale}}})?" if scale else "")
            if whole
            else "0"
        )
    return _PLAIN.get(kind, "[^\x00-\U0010ffff]")


def array_of(values: Sequence[Any], kind: str) -> pa.Array:
    """Values as a column; days and moments are given as numbers."""
    return pa.array(values, source_type(kind))


def null_columns(columns: Mapping[str, str], count: int) -> dict[str, pa.Array]:
    """These columns, null in so many rows."""
    return {name: pa.nulls(count, source_type(kind)) for name, kind in columns.items()}


def broken_row(
    columns: Mapping[str, str], reason: str, position: int = 0, first: bytes | None = None
) -> pa.Table:
    """The one row that stands for a file, or for a part of it, that cannot be read; `first` are its first bytes."""
    corrupt = {} if first is None else {CORRUPT: pa.array([first], pa.binary())}
    return pa.table(
        {
            **null_columns(columns, 1),
            **corrupt,
            BROKEN: pa.array([reason], pa.string()),
            POSITION: pa.array([position], pa.int64()),
        }
    )


def with_rows(
    columns: Mapping[str, pa.Array], kinds: Mapping[str, str], mask: Flags, rows: Sequence[Mapping[str, Any]]
) -> dict[str, pa.Array]:
    """The columns with these rows where the mask is true."""
    if not rows:
        return dict(columns)
    replaced, places = {}, pa.array(mask)
    take = np.arange(len(mask))
    take[mask] = np.arange(len(mask), len(mask) + len(rows))
    for name, kind in kinds.items():
        values = array_of([row.get(name) for row in rows], kind)
        if types.nested_type(kind) is None:
            replaced[name] = pc.replace_with_mask(columns[name], places, values)
        else:
            replaced[name] = pa.concat_arrays([columns[name], values]).take(pa.array(take))
    return replaced


def marked(
    columns: Mapping[str, pa.Array], count: int, corrupt: Mapping[int, bytes], kept: Mapping[int, str]
) -> pa.Table:
    """So many rows with CORRUPT, and with KEPT if one has unknown fields; both are given by row."""
    marks = {CORRUPT: _sparse(count, corrupt, pa.binary())}
    if kept:
        marks[KEPT] = _sparse(count, kept, pa.string())
    return pa.table({**columns, **marks})


def _sparse(count: int, values: Mapping[int, Any], kind: pa.DataType) -> pa.Array:
    """A column with values in some rows and nulls elsewhere."""
    rows, mask = sorted(values), np.zeros(count, bool)
    mask[rows] = True
    return pc.replace_with_mask(pa.nulls(count, kind), pa.array(mask), pa.array(map(values.get, rows), kind))
