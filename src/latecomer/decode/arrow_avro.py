"""Messages of Avro as typed columns without Spark: each value as Spark and Java's Avro read it, or all `Declined`.

The messages of one writer lie side by side in one buffer. They are read field by field, all messages at once: `_Cursor`
knows where in each of them the next field begins. What both readers may see differently is left to Spark: whatever
would be a dead letter, lists and maps, unions of several types, texts that become numbers (ADR 0063).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.decode.arrow_framed import LONGEST, Framed, Numbers, Words, words_of
from latecomer.decode.arrow_kept import kept_columns
from latecomer.decode.arrow_text import column_type, require_finite, require_recent
from latecomer.decode.columns import KEPT
from latecomer.decode.framing import HEAD_SIZE
from latecomer.fast import Declined
from latecomer.model.avro import Reading, Schema, Value, logical_type, schema_of
from latecomer.model.avro.reading import MARK
from latecomer.model.avro.types import Defined, Enum, Field, Fixed, Named, Primitive, Record, Type, Union
from latecomer.model.types import is_decimal

_Way = tuple[str, ...]
_Columns = dict[_Way, pa.Array]
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
"""How eight groups of seven bits become four of fourteen, two of 28, and one of 56."""
_DEEPEST = 40
_ONE, _LAST_BIT = np.uint64(1), np.uint64(63)
_DEFAULTS = {"string": (str,), "boolean": (bool,), "int": (int,), "bigint": (int,), "double": (int, float)}
_KEPT = {"string": "string", "enum": "string", "boolean": "boolean", "int": "int", "long": "bigint"}
"""What is kept here of a field that is no column, and as what it is read."""
_MILLIS = ("timestamp-millis", "local-timestamp-millis")


def avro_rows(framed: Framed, plans: Mapping[int, Plan], columns: Mapping[str, str]) -> pa.Table:
    """The columns of messages, each read by the plan for the id of its schema; and the ids."""

    def read(number: int, rows: Numbers) -> pa.Table:
        cursor = _Cursor(framed.data, framed.starts[rows] + HEAD_SIZE, framed.ends[rows])
        return pa.table(plans[number].columns(cursor, columns))

    return framed.by_writer(read)


def require_plain_avro(columns: Mapping[str, str]) -> None:
    """Decline columns that are not read here, whatever a message holds."""
    for kind in columns.values():
        column_type(kind)


def _as_column(column: pa.Array, kind: str) -> pa.Array:
    wanted = column_type(kind)
    if column.type != wanted and not is_decimal(kind):
        raise Declined(f"a column of type {kind} that was read as another")
    try:
        found = column.cast(wanted)
        found.validate(full=True)
    except pa.ArrowInvalid:
        raise Declined(f"a number beyond {kind}") from None
    return found


# Bytes


class _Cursor:
    """Where in each of some messages the next field begins. Whatever is not there is `Declined`."""

    def __init__(self, data: bytes, at: Numbers, ends: Numbers) -> None:
        self.data, self.at, self.ends = data, at, ends
        self.bytes = np.frombuffer(data, np.uint8)
        self.words = words_of(data)

    def __len__(self) -> int:
        return len(self.at)

    def of(self, rows: Numbers) -> _Cursor:
        """A cursor of its own for some of the messages."""
        return _Cursor(self.data, self.at[rows], self.ends[rows])

    def skip(self, sizes: Numbers | int) -> Numbers:
        """Pass over so many bytes of each; tells where they began."""
        began, self.at = self.at, self.at + sizes
        if (self.at > self.ends).any():
            raise Declined("a message that is cut off")
        return began

    def integers(self, most: int) -> Numbers:
        """A whole number of each, in so many bytes at most: five of 32 bits, ten of 64."""
        words = self.words[self.at]
        last = ~words & _CONTINUES
        first = last & (~last + _ONE)
        inside = (first << _ONE) - _ONE  # the bits up to the end of the number
        sizes = (np.bitwise_count(inside) >> 3).astype(np.int64)
        found = words & inside & _SEVEN_BITS
        for low, high, shift in _JOINED:
            found = (found & low) | ((found & high) >> shift)
        if len(longer := np.flatnonzero(last == 0)):
            self._read_on(longer, found, sizes)
        if most == 5 and (sizes.max() > most or found.max() >= 1 << 32):
            raise Declined("a number of more than 32 bits")
        self.skip(sizes)
        half = (found >> _ONE).view(np.int64)
        return half ^ -(found & _ONE).view(np.int64)

    def _read_on(self, longer: Numbers, found: Words, sizes: Numbers) -> None:
        """The bytes of numbers behind their first eight."""
        ninth, tenth = (self.bytes[self.at[longer] + nth].astype(np.uint64) for nth in (8, 9))
        more = ninth > 0x7F
        if (tenth[more] > 1).any():
            raise Declined("a number of more than 64 bits")
        found[longer] |= (ninth & np.uint64(0x7F)) << np.uint64(56)
        found[longer] |= np.where(more, tenth << _LAST_BIT, np.uint64(0))
        sizes[longer] = np.where(more, 10, 9)

    def sizes(self) -> Numbers:
        """How long the text or the bytes are that come next."""
        found = self.integers(10)
        if found.min() < 0 or found.max() > LONGEST:
            raise Declined("a length that is not true")
        return found

    def texts(self) -> pa.Array:
        """A text of each: slices of the buffer, of which every other one is the gap between two texts."""
        sizes = self.sizes()
        began = self.skip(sizes)
        bounds = np.stack([began, self.at], axis=1).ravel().astype(np.int32)
        count = 2 * len(self) - 1
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(self.data)]
        slices = pa.Array.from_buffers(pa.binary(), count, buffers)
        try:
            return slices.take(pa.array(np.arange(0, count, 2))).cast(pa.string())
        except pa.ArrowInvalid:
            raise Declined("bytes that are not UTF-8") from None

    def decimals(self, size: int | None, scale: int) -> pa.Array:
        """A decimal of each: of so many bytes, or as many as are said before it."""
        sizes = self.sizes() if size is None else np.full(len(self), size, np.int64)
        if sizes.min() < 1 or sizes.max() > 2 * _WORD:
            raise Declined("a decimal without bytes, or with many")
        began = self.skip(sizes)
        first = self.words[began].byteswap().view(np.int64)
        last = self.words[np.maximum(self.at - _WORD, 0)].byteswap().view(np.int64)
        short = sizes <= _WORD
        first >>= np.where(short, _WORD - sizes, 2 * _WORD - sizes) * 8
        halves = np.stack([np.where(short, first, last), np.where(short, first >> 63, first)], axis=1)
        return pa.Array.from_buffers(pa.decimal128(38, scale), len(self), [None, pa.py_buffer(halves)])


# Values


class Plan:
    """How what one schema wrote is read with the schema of a reading, in which the same things have the same names."""

    def __init__(self, writer: Schema, reading: Reading) -> None:
        self.writer, self.reader, self.reading = writer, schema_of(reading.schema), reading
        self.values: Mapping[_Way, Value] = {}

    def columns(self, cursor: _Cursor, columns: Mapping[str, str]) -> dict[str, pa.Array]:
        """The columns of some messages."""
        named = {name: self.reading.values[name] for name in columns}
        extra = {name: self._extra(name) for name in self.reading.unknown}
        self.values = {value.way: value for value in (*named.values(), *extra.values())}
        found = self._any(cursor, self.writer.root, self.reader.root, ())
        made = {name: _as_column(found[value.way], columns[name]) for name, value in named.items()}
        kept = (
            {KEPT: kept_columns({name: found[value.way] for name, value in extra.items()})} if extra else {}
        )
        return {**made, **kept}

    def _extra(self, name: str) -> Value:
        """How a field is read that is no column: plain numbers, texts and booleans, or null."""
        root = self.reader.resolve(self.reader.root)
        fields = root.fields if isinstance(root, Record) else ()
        branches = self._branches(next(each.type for each in fields if each.name == name))
        others = [each for each in branches if each.kind != "null"]
        if len(others) != 1 or others[0].kind not in _KEPT or logical_type(others[0]) is not None:
            raise Declined("a field that Spark writes as it is kept")
        return Value((name,), _KEPT[others[0].kind])

    def _any(self, cursor: _Cursor, written: Type, wanted: Type | None, way: _Way) -> _Columns:
        """The columns on this way and beyond it; without what is `wanted`, what was written is passed over."""
        source = self.writer.resolve(written)
        if len(way) > _DEEPEST:
            raise Declined("records that are deep in one another")
        if not len(cursor):
            return self._nulls(0, way) if wanted is not None else {}
        if isinstance(source, Union):
            return self._union(cursor, source, wanted, way)
        target = None if wanted is None else self._target(source, wanted)
        if wanted is not None and source.kind == "null":
            return self._nulls(len(cursor), way)
        if isinstance(source, Record):
            return self._record(cursor, source, target, way)
        column = self._plain(cursor, source, target, way)
        return {} if column is None else {way: column}

    def _branches(self, wanted: Type) -> list[Defined]:
        """The types that a value may be read as."""
        whole = self.reader.resolve(wanted)
        return [self.reader.resolve(each) for each in whole.branches] if isinstance(whole, Union) else [whole]

    def _target(self, source: Defined, wanted: Type) -> Defined | None:
        """What a value of this type is read as: of a union with null, the other type."""
        branches = self._branches(wanted)
        others = [each for each in branches if each.kind != "null"]
        if source.kind == "null":
            if len(others) == len(branches):
                raise Declined("a null for what is never null")
            return None
        if len(others) != 1:
            raise Declined("a union of several types")
        (target,) = others
        if isinstance(target, Named) and not (isinstance(source, Named) and source.name == target.name):
            raise Declined("a type under another name")
        return target

    def _union(self, cursor: _Cursor, source: Union, wanted: Type | None, way: _Way) -> _Columns:
        branches = cursor.integers(5)
        if branches.min() < 0 or branches.max() >= len(source.branches):
            raise Declined("a branch that a union does not have")
        parts, order = [], []
        for nth, branch in enumerate(source.branches):
            rows = np.flatnonzero(branches == nth)
            if not len(rows):
                continue
            inner = cursor.of(rows)
            parts.append(self._any(inner, branch, wanted, way))
            order.append(rows)
            cursor.at[rows] = inner.at
        if len(parts) == 1:
            return parts[0]
        places = np.empty(len(cursor), np.int64)
        places[np.concatenate(order)] = np.arange(len(cursor))
        back = pa.array(places)
        return {each: pa.concat_arrays([part[each] for part in parts]).take(back) for each in parts[0]}

    def _record(self, cursor: _Cursor, source: Record, target: Defined | None, way: _Way) -> _Columns:
        if target is not None and not isinstance(target, Record):
            raise Declined("a record that is read as something else")
        wanted = {field.name: field for field in target.fields} if target is not None else {}
        found: _Columns = {}
        for field in source.fields:
            other = wanted.pop(field.name, None)
            found |= self._any(cursor, field.type, other.type if other else None, (*way, field.name))
        for field in wanted.values():
            if field.name != MARK:
                found |= self._missing(len(cursor), field, (*way, field.name))
        return found

    def _missing(self, count: int, field: Field, way: _Way) -> _Columns:
        """A field that was not written: its default."""
        if field.default is None or field.aliases:
            raise Declined("a field without a default")
        if not any(self._beyond(way)):
            return {}
        default, value = field.default.value, self.values.get(way)
        if default is None:
            return self._nulls(count, way)
        if value is None or value.given != "plain":
            raise Declined("a default that is more than a plain value")
        kind = value.kind
        if type(default) not in _DEFAULTS.get(kind, ()):
            raise Declined(f"a default of type {kind}")
        return {way: pa.repeat(pa.scalar(default, column_type(kind)), count)}

    def _beyond(self, way: _Way) -> Iterator[_Way]:
        return (each for each in self.values if each[: len(way)] == way)

    def _nulls(self, count: int, way: _Way) -> _Columns:
        return {each: pa.nulls(count, _type_of(self.values[each])) for each in self._beyond(way)}

    def _plain(self, cursor: _Cursor, source: Defined, target: Defined | None, way: _Way) -> pa.Array | None:
        value = self.values.get(way) if target is not None else None
        if value is None or target is None:
            _pass_over(cursor, source)
            return None
        match source, target:
            case Enum(), Enum():
                return _enum(cursor, source, target)
            case Fixed(), Fixed() if is_decimal(value.kind) and source.size == target.size:
                return _decimals(cursor, source.size, value.kind)
            case Primitive(kind="bytes"), Primitive(kind="bytes") if is_decimal(value.kind):
                return _decimals(cursor, None, value.kind)
            case Primitive(), Primitive():
                return _primitive(cursor, source.kind, target, value)
        raise Declined(f"a value of type {source.kind}")


def _pass_over(cursor: _Cursor, source: Defined) -> None:
    match source:
        case Primitive(kind="null"):
            pass
        case Primitive(kind="int") | Enum():
            cursor.integers(5)
        case Primitive(kind="long"):
            cursor.integers(10)
        case Primitive(kind="string" | "bytes"):
            cursor.skip(cursor.sizes())
        case Primitive(kind="boolean"):
            cursor.skip(1)
        case Primitive(kind="float"):
            cursor.skip(4)
        case Primitive(kind="double"):
            cursor.skip(8)
        case Fixed():
            cursor.skip(source.size)
        case _:
            raise Declined("lists and maps")


def _enum(cursor: _Cursor, source: Enum, target: Enum) -> pa.Array:
    chosen = cursor.integers(5)
    if chosen.min() < 0 or chosen.max() >= len(source.symbols):
        raise Declined("a symbol that an enum does not have")
    known = {*target.symbols}
    symbols = [each if each in known else target.default for each in source.symbols]
    found = pa.array(symbols, pa.string()).take(pa.array(chosen))
    if found.null_count:
        raise Declined("a symbol that is not known")
    return found


def _decimals(cursor: _Cursor, size: int | None, kind: str) -> pa.Array:
    wanted: Any = column_type(kind)
    try:
        found = cursor.decimals(size, wanted.scale).cast(wanted)
        found.validate(full=True)
    except pa.ArrowInvalid:
        raise Declined("a decimal of more digits than its type has") from None
    return found


def _type_of(value: Value) -> pa.DataType:
    """The type of a value as it is handed over here."""
    if value.given not in ("plain", "nanos", "local_nanos", "millis_of_day"):
        raise Declined("values that become text")
    return column_type(value.kind)


def _primitive(cursor: _Cursor, kind: str, target: Primitive, value: Value) -> pa.Array:
    wanted = _type_of(value)
    match kind, target.kind:
        case "boolean", "boolean":
            found = cursor.bytes[cursor.skip(1)]
            if found.max() > 1:
                raise Declined("a boolean that is neither true nor false")
            return pa.array(found.astype(bool))
        case "string", "string":
            return cursor.texts()
        case (("float" | "double"), "double"):
            return _floats(cursor, kind)
        case ("int", "int" | "long" | "double") | ("long", "long" | "double"):
            return _integers(cursor.integers(5 if kind == "int" else 10), target, value, wanted)
    raise Declined(f"a value of type {kind} that is read as {target.kind}")


def _floats(cursor: _Cursor, kind: str) -> pa.Array:
    if kind == "double":
        found = pa.array(cursor.words[cursor.skip(8)].view(np.float64))
    else:
        halves = cursor.words[cursor.skip(4)].astype(np.uint32)
        found = pa.array(halves.view(np.float32).astype(np.float64))
    require_finite(found)
    return found


def _integers(numbers: Numbers, target: Primitive, value: Value, wanted: pa.DataType) -> pa.Array:
    if target.kind == "double":
        return pa.array(numbers.astype(np.float64))
    logical = logical_type(target)
    if value.given == "millis_of_day":
        return pa.array(numbers * 1000)
    if wanted == pa.date32():
        days = pa.array(numbers.astype(np.int32)).cast(wanted)
        require_recent(days.cast(pa.timestamp("us")).cast(pa.int64()))
        return days
    if not pa.types.is_timestamp(wanted):
        return pa.array(numbers).cast(wanted)
    if value.given in ("nanos", "local_nanos"):
        numbers = np.floor_divide(numbers, 1000)
    micros = pa.array(numbers)
    if logical is not None and logical.name in _MILLIS:
        micros = pc.multiply_checked(micros, 1000)
    require_recent(micros)
    return micros.cast(wanted)
