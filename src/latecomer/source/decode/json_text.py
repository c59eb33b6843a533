"""Values as JSON text, exactly as Spark's `to_json` writes them, and columns of Arrow as such values.

Stores have texts that were written so. Dates are given as days and moments as microseconds since 1970, as they are
stored, so that every year can be written. A text that was not UTF-8 has a lone surrogate for each wrong byte.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from latecomer.model.json_text import double_text, float_text
from latecomer.model.types import is_decimal, is_nested, nested_type

Shape = str | tuple[str, Mapping[str, Any]]
"""A type as `model.types` writes it; or array, map or struct with the shapes within it."""
Writer = Callable[[Any], str]
_DAY, _SECOND = 86_400_000_000, 1_000_000
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_ESCAPED = re.compile(r"\\(?:\\|u00[01][0-9a-f])")
"""A control character as JSON has it. A backslash is found with the one that escapes it: what follows is plain text."""
_encode = json.JSONEncoder(ensure_ascii=False).encode


def shape_of(kind: str) -> Shape:
    """The shape of a type.

    >>> shape_of("array<struct<a:int>>")
    ('array', {'element': ('struct', {'a': 'int'})})
    """
    nested = nested_type(kind)
    if nested is None:
        return kind
    outer, parts = nested
    return outer, {name: shape_of(part) for name, part in parts.items()}


def struct_of(columns: Mapping[str, Shape]) -> Shape:
    return "struct", dict(columns)


@dataclass(frozen=True)
class JsonText:
    """How values are written."""

    digits: int = 6
    """Of a second: six in texts that are kept, three in texts for people."""
    nulls: bool = False
    """Whether null fields of objects are written."""
    by_byte: bool = False
    """Whether a text is written with one character for each byte."""

    def of(self, shape: Shape) -> Writer:
        """What writes values of this shape that are not null.

        >>> JsonText().of(shape_of("struct<a:array<int>,b:timestamp>"))({"a": [1, None], "b": 1})
        '{"a":[1,null],"b":"1970-01-01T00:00:00.000001Z"}'
        """
        if isinstance(shape, str):
            return self._plain(shape)
        outer, parts = shape
        match outer:
            case "array":
                return self._list(self.of(parts["element"]))
            case "map":
                return self._map(self.of(parts["value"]), _key_text(parts["key"]))
        return self._struct({name: self.of(each) for name, each in parts.items()})

    def _list(self, write: Writer) -> Writer:
        return lambda value: f"[{','.join('null' if each is None else write(each) for each in value)}]"

    def _map(self, write: Writer, key: Writer) -> Writer:
        def written(value: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> str:
            pairs = value.items() if isinstance(value, Mapping) else value
            return (
                "{"
                + ",".join(
                    f"{self._text(key(name))}:{'null' if each is None else write(each)}"
                    for name, each in pairs
                )
                + "}"
            )

        return written

    def _struct(self, writers: Mapping[str, Writer]) -> Writer:
        heads = [(name, f"{self._text(name)}:", write) for name, write in writers.items()]

        def written(value: Mapping[str, Any]) -> str:
            parts = []
            for name, head, write in heads:
                each = value.get(name)
                if each is not None:
                    parts.append(head + write(each))
                elif self.nulls:
                    parts.append(f"{head}null")
            return "{" + ",".join(parts) + "}"

        return written

    def _plain(self, kind: str) -> Writer:
        match kind:
            case "string":
                return self._text
            case "boolean":
                return lambda value: "true" if value else "false"
            case "float":
                return lambda value: _number(float_text(value))
            case "double":
                return lambda value: _number(double_text(value))
            case "binary":
                return lambda value: f'"{b64encode(value).decode()}"'
            case "date":
                return lambda value: f'"{date_text(value)}"'
            case "timestamp":
                return lambda value: f'"{self._moment(value)}Z"'
            case "timestamp_ntz":
                return lambda value: f'"{self._moment(value)}"'
        return str

    def _moment(self, micros: int) -> str:
        days, rest = divmod(micros, _DAY)
        seconds, fraction = divmod(rest, _SECOND)
        shown = f"{fraction:06d}"[: self.digits]
        return f"{date_text(days)}T{_clock(seconds)}.{shown}"

    def _text(self, value: str) -> str:
        if self.by_byte:
            value = raw_text(value).decode("iso-8859-1")
        text = _encode(value)
        # Python writes escapes in lower case, Java in upper case.
        return _ESCAPED.sub(lambda each: each[0][:2] + each[0][2:].upper(), text) if "\\u00" in text else text


def raw_text(value: str) -> bytes:
    """The bytes of a text, even if they were not UTF-8."""
    return value.encode("utf-8", "surrogateescape")


def has_valid_texts(value: Any) -> bool:
    r"""Whether all texts in a value were UTF-8.

    >>> has_valid_texts([{"a": "é"}]), has_valid_texts([("a", "\udcff")])
    (True, False)
    """
    match value:
        case str():
            try:
                value.encode()
            except UnicodeEncodeError:
                return False
        case dict():
            return all(map(has_valid_texts, value)) and all(map(has_valid_texts, value.values()))
        case list() | tuple():
            return all(map(has_valid_texts, value))
    return True


def _key_text(shape: Shape) -> Writer:
    if shape == "binary":
        return lambda value: b64encode(value).decode()
    return partial(plain_text, kind=shape) if shape in ("boolean", "float", "double") else str


def _number(text: str) -> str:
    """A number; infinity and NaN, which JSON does not have, are texts."""
    return f'"{text}"' if text[-1] in "yN" else text


def date_text(days: int) -> str:
    """A day in the Gregorian calendar, even before it was in use and beyond the year 9999.

    >>> date_text(0), date_text(-719529), date_text(2932897)
    ('1970-01-01', '-0001-12-31', '+10000-01-01')
    """
    era, day = divmod(days + 719_468, 146_097)
    of_era = (day - day // 1460 + day // 36524 - day // 146_096) // 365
    of_year = day - (365 * of_era + of_era // 4 - of_era // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    year = of_era + 400 * era + (month <= 2)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{of_year - (153 * shifted + 2) // 5 + 1:02d}"


def _clock(seconds: int) -> str:
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def plain_text(value: Any, kind: str) -> str:
    """A plain value as text, as a cast to string writes it.

    >>> from decimal import Decimal
    >>> plain_text(1_500_000, "timestamp"), plain_text(True, "boolean"), plain_text(Decimal("1E-7"), "decimal(9,7)")
    ('1970-01-01 00:00:01.5', 'true', '0.0000001')
    """
    match kind:
        case "boolean":
            return "true" if value else "false"
        case "float":
            return float_text(value)
        case "double":
            return double_text(value)
        case "date":
            return date_text(value)
        case "timestamp" | "timestamp_ntz":
            days, rest = divmod(value, _DAY)
            seconds, fraction = divmod(rest, _SECOND)
            behind = f".{fraction:06d}".rstrip("0") if fraction else ""
            return f"{date_text(days)} {_clock(seconds)}{behind}"
    return format(value, "f") if is_decimal(kind) else str(value)


def kept_text(columns: Mapping[str, Shape], rows: Iterable[Mapping[str, Any]]) -> list[str | None]:
    """An object of the values that are not null, for each row; None if all are null.

    >>> kept_text({"tip": "int"}, [{"tip": 5}, {"tip": None}])
    ['{"tip":5}', None]
    """
    write = JsonText().of(struct_of(columns))
    return [None if (text := write(row)) == "{}" else text for row in rows]


def misread_text(columns: Mapping[str, Shape], row: Mapping[str, Any]) -> bytes:
    """A row that its columns do not take, as JSON for people, with all bytes of its texts."""
    write = JsonText(digits=3, nulls=True, by_byte=True).of(struct_of(columns))
    return write(row).encode("iso-8859-1")


def refused_text(columns: Mapping[str, Shape], row: Mapping[str, Any]) -> bytes:
    """A row as JSON for people."""
    return JsonText(digits=3, nulls=True).of(struct_of(columns))(row).encode()


def stored_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of a column. A text that is not UTF-8 has a lone surrogate for each wrong byte.

    >>> stored_values(pa.array([[{"a": 1}], None]))
    [[{'a': 1}], None]
    """
    if isinstance(column, pa.ChunkedArray):
        return [each for chunk in column.chunks for each in stored_values(chunk)]
    kind, types = column.type, pa.types
    if types.is_dictionary(kind):
        return stored_values(column.dictionary_decode())
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        raw = column.cast(pa.large_binary()).to_pylist()
        return [None if each is None else each.decode("utf-8", "surrogateescape") for each in raw]
    if types.is_timestamp(kind):
        numbers, per_second = column.cast(pa.int64()).to_pylist(), _PER_SECOND[kind.unit]
        return [None if each is None else each * 1_000_000 // per_second for each in numbers]
    if types.is_date32(kind):
        return column.cast(pa.int32()).to_pylist()  # type: ignore[no-any-return]
    if types.is_struct(kind):
        return _structs(column)
    if types.is_map(kind):
        pairs = list(zip(stored_values(column.keys), stored_values(column.items), strict=True))
        return _slices(column, pairs)
    if types.is_list(kind) or types.is_large_list(kind):
        return _slices(column, stored_values(column.values))
    if types.is_fixed_size_list(kind):
        return stored_values(column.cast(pa.list_(kind.value_type)))
    return column.to_pylist()  # type: ignore[no-any-return]


def _structs(column: pa.StructArray) -> list[Any]:
    names = [field.name for field in column.type.fields]
    fields = [stored_values(column.field(nth)) for nth in range(len(names))]
    valid = np.asarray(column.is_valid())
    if not names:
        return [{} if is_valid else None for is_valid in valid]
    rows = zip(*fields, strict=True)
    return [
        dict(zip(names, row, strict=True)) if is_valid else None
        for row, is_valid in zip(rows, valid, strict=True)
    ]


def _slices(column: pa.ListArray, values: list[Any]) -> list[Any]:
    bounds, valid = column.offsets.to_pylist(), np.asarray(column.is_valid())
    return [values[bounds[nth] : bounds[nth + 1]] if is_valid else None for nth, is_valid in enumerate(valid)]


def stored_rows(rows: pa.Table) -> Iterator[dict[str, Any]]:
    """The values of each row, by name."""
    columns = [stored_values(column) for column in rows.columns]
    return (dict(zip(rows.column_names, row, strict=True)) for row in zip(*columns, strict=True))


def texts_of(column: pa.Array | pa.ChunkedArray, kind: str) -> list[str | None]:
    """The values of a column as Spark casts them to text; lists and maps as JSON.

    Binary values need not be UTF-8: each byte becomes one character.

    >>> texts_of(pa.array([1e7, None]), "double"), texts_of(pa.array([[1]]), "array<int>")
    (['1.0E7', None], ['[1]'])
    """
    write: Writer = partial(plain_text, kind=kind)
    if is_nested(kind):
        write = JsonText(digits=3, nulls=True).of(shape_of(kind))
    elif kind == "binary":
        write = partial(str, encoding="iso-8859-1")
    return [None if each is None else write(each) for each in stored_values(column)]


def shape_of_type(kind: pa.DataType) -> Shape:
    """The shape of a column as it is stored."""
    types = pa.types
    if types.is_dictionary(kind):
        return shape_of_type(kind.value_type)
    if types.is_struct(kind):
        return "struct", {field.name: shape_of_type(field.type) for field in kind.fields}
    if types.is_map(kind):
        return "map", {"key": shape_of_type(kind.key_type), "value": shape_of_type(kind.item_type)}
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return "array", {"element": shape_of_type(kind.value_type)}
    if types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "string"
    if types.is_boolean(kind):
        return "boolean"
    if types.is_floating(kind):
        return "float" if kind == pa.float32() else "double"
    if types.is_date(kind):
        return "date"
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return "bigint" if types.is_integer(kind) else "binary"
