"""Reads the Avro records of one writer all at once, field by field; they lie side by side in one buffer.

`Cursor` keeps where the next field begins in each record. A record with something unusual is marked as `odd`, and its
values here mean nothing: `avro_data.py` reads it by itself. Schemas with lists, maps and unions of several types are
not read here at all: `RowByRow`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from latecomer.model.array_types import Flags, Integers, Unsigned
from latecomer.model.types import is_decimal
from latecomer.schemas.avro import Reading, ReadValue, Schema, logical_type, schema_of
from latecomer.schemas.avro.reading import MARK
from latecomer.schemas.avro.types import (
    SIZES,
    Defined,
    Enum,
    Field,
    Fixed,
    Named,
    Primitive,
    Record,
    Type,
    Union,
    deepest_of,
)
from latecomer.source.decode.framing import words_of
from latecomer.store.layout import source_type

LONGEST = 32 << 20
"""Bytes of a text; a record with a longer one is read by itself."""
_Path = tuple[str, ...]
_Columns = dict[_Path, pa.Array]
_WORD = 8
_CONTINUES, _SEVEN_BITS = np.uint64(0x8080808080808080), np.uint64(0x7F7F7F7F7F7F7F7F)
_JOINED = tuple(
    (np.uint64(low), np.uint64(high), np.uint64(shift))
    for low, high, shift in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)
"""The steps by which eight groups of seven bits become four of 14, two of 28, and one of 56."""
_DEEPEST = 40
_ONE, _LAST_BIT = np.uint64(1), np.uint64(63)
_DEFAULTS = {"string": (str,), "boolean": (bool,), "int": (int,), "bigint": (int,), "double": (int, float)}
_KEPT = {"string": "string", "enum": "string", "boolean": "boolean", "int": "int", "long": "bigint"}
"""The types of unknown fields that can be kept without reading each record by itself, and what they are read as."""
_PLAIN = ("plain", "nanos", "local_nanos", "millis_of_day")
_MILLIS = ("timestamp-millis", "local-timestamp-millis")


class RowByRow(Exception):
    """The schemas have something that is not read all at once."""


class Cursor:
    """Where the next field of each record begins: never beyond the end of the record."""

    def __init__(self, data: bytes, at: Integers, ends: Integers, rows: Integers, odd: Flags) -> None:
        """Behind the last record, `data` has more bytes than the longest number. `rows` are the indices of these
        records among all, and `odd` marks records that are not plain."""
        self.data, self.at, self.ends, self.rows, self.odd = data, at, ends, rows, odd
        self.bytes = np.frombuffer(data, np.uint8)
        self.words = words_of(data)

    def __len__(self) -> int:
        return len(self.at)

    def of(self, rows: Integers) -> Cursor:
        """A cursor of its own for some of the records."""
        return Cursor(self.data, self.at[rows], self.ends[rows], self.rows[rows], self.odd)

    def mark(self, wrong: Flags | Integers) -> None:
        self.odd[self.rows[wrong]] = True

    def skip(self, sizes: Integers | int) -> Integers:
        """Pass over so many bytes of each record; returns where they began."""
        began, self.at = self.at, self.at + sizes
        beyond = self.at > self.ends
        if beyond.any():
            self.mark(beyond)
            self.at = np.minimum(self.at, self.ends)
        return began

    def integers(self, most: int) -> Integers:
        """A whole number from each record, of `most` bytes: five for 32 bits, ten for 64."""
        words = self.words[self.at]
        last = ~words & _CONTINUES
        first = last & (~last + _ONE)
        inside = (first << _ONE) - _ONE  # the bits up to the end of the number
        sizes = (np.bitwise_count(inside) >> 3).astype(np.int64)
        numbers = words & inside & _SEVEN_BITS
        for low, high, shift in _JOINED:
            numbers = (numbers & low) | ((numbers & high) >> shift)
        if len(longer := np.flatnonzero(last == 0)):
            self._add_ninth_byte(longer, numbers, sizes)
        if most == 5 and (wrong := (sizes > most) | (numbers >= 1 << 32)).any():
            self.mark(wrong)
            numbers[wrong] = 0
        self.skip(sizes)
        half = (numbers >> _ONE).view(np.int64)
        return half ^ -(numbers & _ONE).view(np.int64)

    def _add_ninth_byte(self, longer: Integers, numbers: Unsigned, sizes: Integers) -> None:
        """Add the ninth byte of longer numbers, and the tenth if they have one."""
        ninth, tenth = (self.bytes[self.at[longer] + nth].astype(np.uint64) for nth in (8, 9))
        more = ninth > 0x7F
        self.mark(longer[more & (tenth > 1)])
        numbers[longer] |= (ninth & np.uint64(0x7F)) << np.uint64(56)
        numbers[longer] |= np.where(more, tenth << _LAST_BIT, np.uint64(0))
        sizes[longer] = np.where(more, 10, 9)

    def sizes(self) -> Integers:
        """The size of the text or bytes that come next."""
        sizes = self.integers(10)
        wrong = (sizes < 0) | (sizes > LONGEST)
        if wrong.any():
            self.mark(wrong)
            sizes[wrong] = 0
        return sizes

    def slices(self) -> pa.Array:
        """The bytes of each record: slices of the buffer. Every other slice is a gap between two records."""
        began = self.skip(self.sizes())
        bounds = np.stack([began, self.at], axis=1).ravel().astype(np.int32)
        count = 2 * len(self) - 1
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.binary(), count, buffers).take(pa.array(np.arange(0, count, 2)))

    def cast(self, values: pa.Array, wanted: pa.DataType) -> pa.Array:
        """Values as another type; those that it does not hold are null, and their records are marked."""
        column, wrong = cast_each(values, wanted)
        self.mark(wrong)
        return column

    def decimals(self, size: int | None, kind: str) -> pa.Array:
        """A decimal from each record: of `size` bytes, or with its size before it."""
        sizes = self.sizes() if size is None else np.full(len(self), size, np.int64)
        wrong = (sizes < 1) | (sizes > 2 * _WORD)
        self.mark(wrong)
        sizes[wrong] = 1
        began = self.skip(sizes)
        first = self.words[began].byteswap().view(np.int64)
        last = self.words[np.maximum(began + sizes - _WORD, 0)].byteswap().view(np.int64)
        short = sizes <= _WORD
        first >>= np.where(short, _WORD - sizes, 2 * _WORD - sizes) * 8
        halves = np.stack([np.where(short, first, last), np.where(short, first >> 63, first)], axis=1)
        wanted = source_type(kind)
        widest = pa.decimal128(38, wanted.scale)
        values = pa.Array.from_buffers(widest, len(self), [None, pa.py_buffer(halves)])
        return self.cast(values, wanted)


def cast_each(values: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, Integers]:
    """Values as another type, null where it does not hold them, and the indices of those."""
    try:
        column = values.cast(wanted)
        column.validate(full=True)
    except pa.ArrowInvalid:
        if len(values) == 1:
            return pa.nulls(1, wanted), np.zeros(1, np.int64)
        half = len(values) // 2
        (one, wrong), (other, more) = (
            cast_each(part, wanted) for part in (values.slice(0, half), values.slice(half))
        )
        return pa.concat_arrays([one, other]), np.concatenate([wrong, more + half])
    return column, np.empty(0, np.int64)


# Values


class AvroPlan:
    """How records of a writer's schema are read with the schema of a reading, which uses the same names."""

    def __init__(self, writer: Schema, reading: Reading, columns: Mapping[str, str]) -> None:
        self.writer, self.reading = writer, reading
        self.reader = schema_of(reading.schema, strict=False)
        self.named = {name: reading.values.get(name) for name in columns}
        self.kinds = columns
        self.extra = {name: self._extra(name) for name in reading.unknown}
        read = [*self.named.values(), *self.extra.values()]
        self.values = {value.path: value for value in read if value is not None}
        if any(value.delivered_as not in _PLAIN for value in self.values.values()):
            raise RowByRow
        self.deepest = min(deepest_of(writer) or _DEEPEST, _DEEPEST)

    def columns(self, cursor: Cursor) -> dict[str, pa.Array]:
        """The columns of some records, and the unknown fields that are kept; `RowByRow` if the schemas have something
        that is not read here."""
        values = self._any(cursor, self.writer.root, self.reader.root, ())
        columns = {}
        for name, value in self.named.items():
            wanted = source_type(self.kinds[name])
            column = pa.nulls(len(cursor), wanted) if value is None else values[value.path]
            if column.type != wanted:
                if not is_decimal(self.kinds[name]):
                    raise RowByRow
                column = cursor.cast(column, wanted)
            columns[name] = column
        return {**columns, **{name: values[value.path] for name, value in self.extra.items()}}

    def _extra(self, name: str) -> ReadValue:
        """How an unknown field is read: plain numbers, texts and booleans, or null."""
        root = self.reader.resolve(self.reader.root)
        fields = root.fields if isinstance(root, Record) else ()
        branches = self._branches(next(each.type for each in fields if each.name == name))
        others = [each for each in branches if each.kind != "null"]
        if len(others) != 1 or others[0].kind not in _KEPT or logical_type(others[0]) is not None:
            raise RowByRow
        return ReadValue((name,), _KEPT[others[0].kind])

    def _any(self, cursor: Cursor, written: Type, wanted: Type | None, path: _Path) -> _Columns:
        """The columns at this path and below it. If nothing is `wanted`, the value is passed over."""
        source = self.writer.resolve(written)
        if not len(cursor):
            return self._nulls(0, path) if wanted is not None else {}
        if len(path) > self.deepest:
            cursor.mark(np.ones(len(cursor), np.bool_))
            return self._nulls(len(cursor), path) if wanted is not None else {}
        if isinstance(source, Union):
            return self._union(cursor, source, wanted, path)
        if wanted is not None and source.kind == "null":
            if all(each.kind != "null" for each in self._branches(wanted)):
                cursor.mark(np.ones(len(cursor), np.bool_))
            return self._nulls(len(cursor), path)
        target = None if wanted is None else self._target(source, wanted)
        if isinstance(source, Record):
            return self._record(cursor, source, target, path)
        column = self._plain(cursor, source, target, path)
        return {} if column is None else {path: column}

    def _branches(self, wanted: Type) -> list[Defined]:
        """The types that a value may be read as."""
        whole = self.reader.resolve(wanted)
        return [self.reader.resolve(each) for each in whole.branches] if isinstance(whole, Union) else [whole]

    def _target(self, source: Defined, wanted: Type) -> Defined:
        """What a value of this type is read as: for a union with null, the other type."""
        others = [each for each in self._branches(wanted) if each.kind != "null"]
        if len(others) != 1:
            raise RowByRow
        (target,) = others
        if isinstance(target, Named) and not (isinstance(source, Named) and source.name == target.name):
            raise RowByRow
        return target

    def _union(self, cursor: Cursor, source: Union, wanted: Type | None, path: _Path) -> _Columns:
        branches = cursor.integers(5)
        wrong = (branches < 0) | (branches >= len(source.branches))
        cursor.mark(wrong)
        parts, order = [], []
        if wrong.any() and wanted is not None:
            order.append(np.flatnonzero(wrong))
            parts.append(self._nulls(len(order[0]), path))
        for nth, branch in enumerate(source.branches):
            rows = np.flatnonzero(branches == nth)
            if not len(rows):
                continue
            inner = cursor.of(rows)
            parts.append(self._any(inner, branch, wanted, path))
            order.append(rows)
            cursor.at[rows] = inner.at
        if len(parts) <= 1 or wanted is None:
            return parts[0] if parts and wanted is not None else {}
        places = np.empty(len(cursor), np.int64)
        places[np.concatenate(order)] = np.arange(len(cursor))
        back = pa.array(places)
        return {each: pa.concat_arrays([part[each] for part in parts]).take(back) for each in parts[0]}

    def _record(self, cursor: Cursor, source: Record, target: Defined | None, path: _Path) -> _Columns:
        if target is not None and not isinstance(target, Record):
            raise RowByRow
        wanted = {field.name: field for field in target.fields} if target is not None else {}
        columns: _Columns = {}
        for field in source.fields:
            other = wanted.pop(field.name, None)
            columns |= self._any(cursor, field.type, other.type if other else None, (*path, field.name))
        for field in wanted.values():
            if field.name != MARK:
                columns |= self._missing(len(cursor), field, (*path, field.name))
        return columns

    def _missing(self, count: int, field: Field, path: _Path) -> _Columns:
        """The default of a field that was not written."""
        if field.default is None or field.aliases:
            raise RowByRow
        if not any(self._beyond(path)):
            return {}
        default, value = field.default.value, self.values.get(path)
        if default is None:
            return self._nulls(count, path)
        if (
            value is None
            or value.delivered_as != "plain"
            or type(default) not in _DEFAULTS.get(value.kind, ())
        ):
            raise RowByRow
        return {path: pa.repeat(pa.scalar(default, source_type(value.kind)), count)}

    def _beyond(self, path: _Path) -> Iterator[_Path]:
        return (each for each in self.values if each[: len(path)] == path)

    def _nulls(self, count: int, path: _Path) -> _Columns:
        return {each: pa.nulls(count, source_type(self.values[each].kind)) for each in self._beyond(path)}

    def _plain(self, cursor: Cursor, source: Defined, target: Defined | None, path: _Path) -> pa.Array | None:
        value = self.values.get(path) if target is not None else None
        if value is None or target is None:
            _pass_over(cursor, source)
            return None
        match source, target:
            case Enum(), Enum():
                return _enum(cursor, source, target)
            case Fixed(), Fixed() if is_decimal(value.kind) and source.size == target.size:
                return cursor.decimals(source.size, value.kind)
            case Primitive(kind="bytes"), Primitive(kind="bytes") if is_decimal(value.kind):
                return cursor.decimals(None, value.kind)
            case Primitive(), Primitive():
                return _primitive(cursor, source.kind, target, value)
        raise RowByRow


def _pass_over(cursor: Cursor, source: Defined) -> None:
    match source:
        case Primitive(kind="int") | Enum():
            cursor.integers(5)
        case Primitive(kind="long"):
            cursor.integers(10)
        case Primitive(kind="string" | "bytes"):
            cursor.skip(cursor.sizes())
        case Primitive():
            cursor.skip(SIZES[source.kind])
        case Fixed():
            cursor.skip(source.size)
        case _:
            raise RowByRow


def _enum(cursor: Cursor, source: Enum, target: Enum) -> pa.Array:
    chosen = cursor.integers(5)
    own_symbols = {*target.symbols}
    symbols = [each if each in own_symbols else target.default for each in source.symbols]
    wrong = (chosen < 0) | (chosen >= len(symbols))
    chosen[wrong] = len(symbols)
    texts = pa.array([*symbols, None], pa.string()).take(pa.array(chosen))
    cursor.mark(np.asarray(texts.is_null()))
    return texts


def _primitive(cursor: Cursor, kind: str, target: Primitive, value: ReadValue) -> pa.Array:
    match kind, target.kind:
        case "boolean", "boolean":
            octets = cursor.bytes[cursor.skip(1)]
            cursor.mark(octets > 1)
            return pa.array(octets == 1)
        case "string", "string":
            return cursor.cast(cursor.slices(), pa.string())
        case "bytes", "bytes":
            return cursor.slices()
        case (("float" | "double"), ("float" | "double")) if kind == target.kind or kind == "float":
            if kind == "double":
                numbers = cursor.words[cursor.skip(8)].view(np.float64)
            else:
                numbers = cursor.words[cursor.skip(4)].astype(np.uint32).view(np.float32)
            return pa.array(numbers).cast(source_type(value.kind))
        case ("int", "int" | "long" | "double") | ("long", "long" | "double"):
            return _integers(cursor, cursor.integers(5 if kind == "int" else 10), target, value)
    raise RowByRow


def _integers(cursor: Cursor, numbers: Integers, target: Primitive, value: ReadValue) -> pa.Array:
    wanted, logical = source_type(value.kind), logical_type(target)
    if target.kind == "double":
        return pa.array(numbers.astype(np.float64))
    if value.delivered_as == "millis_of_day":
        return pa.array(numbers * 1000)
    if wanted in (pa.date32(), pa.int32()):
        return pa.array(numbers.astype(np.int32)).cast(wanted)
    if value.delivered_as in ("nanos", "local_nanos"):
        numbers = np.floor_divide(numbers, 1000)
    elif logical is not None and logical.name in _MILLIS:
        beyond = np.abs(numbers // 1000) > (2**63 - 1) // 1_000_000
        cursor.mark(beyond)
        numbers = np.where(beyond, 0, numbers) * 1000
    return pa.array(numbers).cast(wanted)
