"""Columns in their types: of texts, with the values that their column does not take named, and of single rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.model import types
from latecomer.model.written_numbers import POINT, Signs
from latecomer.source.decode.arrow_text import typed, with_other_letters
from latecomer.source.decode.plain import NotPlain
from latecomer.source.decode.written import Misfit, value_of
from latecomer.store.layout import source_type

_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = rf"{_DATE}[T ][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(\.[0-9]{{1,6}})?"
_FRACTION = r"-?[0-9]{1,15}(\.[0-9]{1,15})?"
_PLAIN = {
    "bigint": "-?[0-9]{1,18}",
    "int": "-?[0-9]{1,9}",
    "smallint": "-?[0-9]{1,4}",
    "tinyint": "-?[0-9]{1,2}",
    "double": _FRACTION,
    "float": _FRACTION,
    "boolean": "true|false",
    "date": _DATE,
    "timestamp": f"{_TIME}Z?",
    "timestamp_ntz": _TIME,
}
"""How values of a type are written by nearly everybody."""
Mask = npt.NDArray[np.bool_]


def of_texts(texts: pa.Array, kind: str, signs: Signs = POINT) -> tuple[pa.Array, Sequence[int]]:
    """A column of texts in its type, null where there is no text; and which of them it does not take."""
    if kind == "string":
        return texts, ()
    if signs != POINT and types.is_numeric(kind):
        plain = pc.fill_null(pc.match_substring_regex(texts, f"^{signs.pattern()}$"), False)
        found, unread = of_texts(_with_point(pc.if_else(plain, texts, None), signs), kind)
        mask = np.asarray(plain)
        mask[list(unread)] = False
        plain = pa.array(mask)
    else:
        try:
            return typed(texts, kind), ()
        except NotPlain:
            plain, found = _plain(texts, kind)
    rest = pc.and_(pc.is_valid(texts), pc.invert(plain))
    values, refused = [], []
    for nth, text in zip(np.flatnonzero(rest).tolist(), texts.filter(rest).to_pylist(), strict=True):
        try:
            values.append(value_of(text, kind, signs))
        except Misfit:
            values.append(None)
            refused.append(nth)
    return pc.replace_with_mask(found, rest, array_of(values, kind)), refused


def _with_point(texts: pa.Array, signs: Signs) -> pa.Array:
    """Numbers with a point and without thousands signs."""
    if signs.thousands_sign is not None:
        texts = pc.replace_substring(texts, signs.thousands_sign, "")
    return pc.replace_substring(texts, signs.decimal_sign, ".")


def _plain(texts: pa.Array, kind: str) -> tuple[pa.Array, pa.Array]:
    """Which texts are written in a usual way, and the values of these."""
    if types.is_numeric(kind) and kind != "float":
        usual = np.ones(len(texts), bool)
        usual[with_other_letters(texts, kind)] = False
        with suppress(NotPlain):
            return pa.array(usual), typed(_others_out(texts, pa.array(usual), kind), kind)
    plain = pc.fill_null(pc.match_substring_regex(texts, f"^({_pattern(kind)})$"), False)
    with suppress(NotPlain):
        return plain, _typed_plain(_others_out(texts, plain, kind), kind)
    return pa.repeat(False, len(texts)), pa.nulls(len(texts), source_type(kind))


def _others_out(texts: pa.Array, plain: pa.Array, kind: str) -> pa.Array:
    """The texts without those that are not plain: of numbers all letters are looked at, those behind a null too."""
    if types.is_numeric(kind):
        return pc.if_else(pc.or_(plain, pc.is_null(texts)), texts, "0")
    return pc.if_else(plain, texts, None)


def _typed_plain(texts: pa.Array, kind: str) -> pa.Array:
    return texts.cast(pa.float32()) if kind == "float" else typed(texts, kind)


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
    """Values as a column: days and moments are numbers."""
    wanted = source_type(kind)
    if kind == "date":
        return pa.array(values, pa.int32()).cast(wanted)
    if kind in ("timestamp", "timestamp_ntz"):
        return pa.array(values, pa.int64()).cast(wanted)
    return pa.array(values, wanted)


def with_rows(
    columns: Mapping[str, pa.Array], kinds: Mapping[str, str], mask: Mask, rows: Sequence[Mapping[str, Any]]
) -> dict[str, pa.Array]:
    """The columns with other rows in the place of those of the mask."""
    if not rows:
        return dict(columns)
    found, places = {}, pa.array(mask)
    take = np.arange(len(mask))
    take[mask] = np.arange(len(mask), len(mask) + len(rows))
    for name, kind in kinds.items():
        values = array_of([row.get(name) for row in rows], kind)
        if types.nested_type(kind) is None:
            found[name] = pc.replace_with_mask(columns[name], places, values)
        else:
            found[name] = pa.concat_arrays([columns[name], values]).take(pa.array(take))
    return found


def sparse(
    count: int, places: Sequence[int] | npt.NDArray[np.int64], values: Sequence[Any], kind: pa.DataType
) -> pa.Array:
    """A column that is null but for some places."""
    mask = np.zeros(count, bool)
    mask[places] = True
    return pc.replace_with_mask(pa.nulls(count, kind), pa.array(mask), pa.array(values, kind))
