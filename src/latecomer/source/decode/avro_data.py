"""Reads one Avro record at a time: a record of the writer's schema, with the schema of a reading.

Every pair of types becomes a function once, and these functions read the bytes of each record. Java's library is the
model: what it refuses is `Damaged`, such as lengths beyond the end, and branches and symbols that do not exist.
Only fields that are passed over can hold their own record, and they are passed over without recursion.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any

import numpy as np

from latecomer.model.types import MOST_DIGITS, holds
from latecomer.schemas.avro.logical import logical_type
from latecomer.schemas.avro.reading import MARK
from latecomer.schemas.avro.types import (
    Array,
    Defined,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Primitive,
    Record,
    Schema,
    Type,
    Union,
)
from latecomer.source.decode.avro_bytes import ByteCursor, Damaged, Passing, Read, TooDeep
from latecomer.source.decode.json_text import Shape

_PLAIN = {"int": "int", "long": "bigint", "bytes": "binary", "fixed": "binary", "enum": "string"}
_TIMES = {
    "date": "date",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "local-timestamp-millis": "timestamp_ntz",
    "local-timestamp-micros": "timestamp_ntz",
}
_WIDER = ({"int", "long"}, {"float", "double"})
_PROMOTED = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
_IN_JSON: dict[str, tuple[type, ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    **dict.fromkeys(("int", "long"), (int,)),
    **dict.fromkeys(("float", "double"), (int, float)),
    "array": (list,),
    **dict.fromkeys(("map", "record"), (dict,)),
}
"""What a default is in JSON; for all other types it is a text."""
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_EXACT = Context(prec=MOST_DIGITS + 1)


class RecordReader:
    """Reads the records of one writer with the schema of a reading, which uses the same names."""

    def __init__(self, writer: Schema, reader: Schema) -> None:
        self.writer, self.reader = writer, reader
        self.passing = Passing(writer)
        self._records: dict[tuple[int, int, int], Read] = {}
        self._read = self._any(writer.root, reader.resolve(reader.root), 0)
        self.shapes = self._fields_of(reader.resolve(reader.root))

    def record(self, data: bytes, at: int = 0) -> tuple[dict[str, Any], int]:
        """The record that begins at a byte, and where it ends; `Damaged` if there is none."""
        cursor = ByteCursor(data, at)
        row = self._read(cursor)
        return row, cursor.at

    # Pairs of types

    def _any(self, source: Type, target: Defined, depth: int) -> Read:
        """What reads a value of the written type as the target type. `depth` is the number of records around it that
        can hold themselves."""
        written = self.writer.resolve(source)
        if isinstance(written, Union):
            return _chosen([self._any(each, target, depth) for each in written.branches])
        if isinstance(target, Union):
            return self._into_union(written, target, depth)
        return self._pair(written, target, depth)

    def _into_union(self, source: Defined, union: Union, depth: int) -> Read:
        branches = [self.reader.resolve(each) for each in union.branches]
        nth = _branch(source, branches)
        if nth is None:
            return _refused
        read = self._pair(source, branches[nth], depth)
        if (member := _members(branches)) is None:
            return read
        name = f"member{member.index(nth)}" if nth in member else None
        return read if name is None else lambda cursor: {name: read(cursor)}

    def _pair(self, source: Defined, target: Defined, depth: int) -> Read:
        match source, target:
            case Record(), Record():
                return self._record(source, target, depth)
            case Array(), Array():
                item = self._any(source.items, self.reader.resolve(target.items), depth)
                return lambda cursor: [item(cursor) for _ in cursor.items()]
            case Map(), Map():
                value = self._any(source.values, self.reader.resolve(target.values), depth)
                return lambda cursor: {_text(cursor): value(cursor) for _ in cursor.items()}
            case Enum(), Enum():
                return _enum(source, target)
            case Fixed(), Fixed() if source.size == target.size and _same_name(source, target):
                return _changed(lambda cursor: cursor.take(source.size), target)
            case Primitive(), Primitive():
                read = _primitive(source.kind, target.kind)
                return read if read is _refused else _changed(read, target)
        return _refused

    def _record(self, source: Record, target: Record, depth: int) -> Read:
        depth += source.name in self.passing.endless
        if self.passing.deepest is not None and depth > self.passing.deepest:
            return _too_deep
        key = id(source), id(target), depth
        if key not in self._records:
            self._records[key] = self._fields(source, target, depth)
        return self._records[key]

    def _fields(self, source: Record, target: Record, depth: int) -> Read:
        wanted = {field.name: field for field in target.fields}
        named = {alias: field for field in target.fields for alias in field.aliases}
        steps: list[tuple[str | None, Read]] = []
        for field in source.fields:
            other = wanted.get(field.name) or named.get(field.name)
            if other is None:
                steps.append((None, self.passing.over(field.type, depth)))
            else:
                read = self._any(field.type, self.reader.resolve(other.type), depth)
                steps.append((other.name, read))
        written = {name for name, _ in steps}
        missing = [field for field in target.fields if field.name not in written]
        if any(field.default is None for field in missing):
            return _refused
        defaults = {field.name: self._default(field) for field in missing}

        def record(cursor: ByteCursor) -> dict[str, Any]:
            row = dict(defaults)
            for name, read in steps:
                if name is None:
                    read(cursor)
                else:
                    row[name] = read(cursor)
            return row

        return record

    # Values that were not written

    def _default(self, field: Field) -> Any:
        return None if field.default is None else self._given(field.type, field.default.value)

    def _given(self, kind: Type, value: Any) -> Any:
        """A default value, from its JSON."""
        target = self.reader.resolve(kind)
        match target:
            case Union():
                branches = [self.reader.resolve(each) for each in target.branches]
                nth = next(
                    nth for nth, each in enumerate(branches) if type(value) in _IN_JSON.get(each.kind, (str,))
                )
                given, member = self._given(branches[nth], value), _members(branches)
                return {f"member{member.index(nth)}": given} if member and nth in member else given
            case Record():
                return {
                    each.name: self._given(each.type, value[each.name])
                    if each.name in value
                    else self._default(each)
                    for each in target.fields
                }
            case Array():
                return [self._given(target.items, each) for each in value]
            case Map():
                return {name: self._given(target.values, each) for name, each in value.items()}
            case Enum() | Primitive(kind="string"):
                return value
            case Fixed() | Primitive(kind="bytes"):
                value = value.encode("iso-8859-1")
            case Primitive(kind="float" | "double"):
                value = float(value)
        return _changed(lambda _: value, target)(ByteCursor(b""))

    # Shapes

    def shape(self, kind: Type) -> Shape:
        """What a value is once it is read."""
        target = self.reader.resolve(kind)
        match target:
            case Union():
                branches = [self.reader.resolve(each) for each in target.branches]
                others = [each for each in branches if each.kind != "null"]
                if {each.kind for each in others} in _WIDER and len(others) == 2:
                    return "bigint" if others[0].kind in ("int", "long") else "double"
                if len(others) == 1:
                    return self.shape(others[0])
                return "struct", {f"member{nth}": self.shape(each) for nth, each in enumerate(others)}
            case Array():
                return "array", {"element": self.shape(target.items)}
            case Map():
                return "map", {"key": "string", "value": self.shape(target.values)}
            case Record():
                return "struct", self._fields_of(target)
        logical = logical_type(target)
        if logical is not None and logical.name == "decimal" and (logical.precision or 0) <= MOST_DIGITS:
            return f"decimal({logical.precision},{logical.scale})"
        if logical is not None and logical.name in _TIMES:
            return _TIMES[logical.name]
        return _PLAIN.get(target.kind, target.kind)

    def _fields_of(self, record: Defined) -> dict[str, Shape]:
        fields = record.fields if isinstance(record, Record) else ()
        return {field.name: self.shape(field.type) for field in fields if field.name != MARK}


def _refused(_: ByteCursor) -> Any:
    raise Damaged


def _too_deep(_: ByteCursor) -> Any:
    raise TooDeep


def _chosen(reads: Sequence[Read]) -> Read:
    def chosen(cursor: ByteCursor) -> Any:
        nth = cursor.read_int()
        if not 0 <= nth < len(reads):
            raise Damaged
        return reads[nth](cursor)

    return chosen


def _members(branches: Sequence[Defined]) -> list[int] | None:
    """The branches of a union that is read as an object with a field for each; None if the value is read as it is."""
    others = [nth for nth, each in enumerate(branches) if each.kind != "null"]
    if len(others) == 1 or (len(others) == 2 and {branches[nth].kind for nth in others} in _WIDER):
        return None
    return others


def _branch(source: Defined, branches: Sequence[Defined]) -> int | None:
    """The branch of a reader's union that a value is read as."""
    alike = [nth for nth, each in enumerate(branches) if each.kind == source.kind]
    if isinstance(source, Named):
        for short in (False, True):
            for nth in alike:
                if _same_name(source, branches[nth], short):
                    return nth
        return None
    if alike:
        return alike[0]
    kinds = [each.kind for each in branches]
    return next((nth for nth, kind in enumerate(kinds) if kind in _PROMOTED.get(source.kind, ())), None)


def _same_name(source: Named, target: Defined, short: bool = True) -> bool:
    """Whether two named types are the same, also by an alias of the reader; if `short`, also without namespaces."""
    if not isinstance(target, Named):
        return False
    if source.name == target.name or source.name in target.aliases:
        return True
    return short and source.name.rpartition(".")[2] == target.name.rpartition(".")[2]


# Plain values


def _text(cursor: ByteCursor) -> str:
    return cursor.sized().decode("utf-8", "surrogateescape")


_OWN: dict[str, Read] = {
    "null": lambda _: None,
    "boolean": lambda cursor: cursor.take(1) == b"\1",
    "int": ByteCursor.read_int,
    "long": ByteCursor.read_long,
    "float": lambda cursor: float(_FLOAT.unpack(cursor.take(4))[0]),
    "double": lambda cursor: float(_DOUBLE.unpack(cursor.take(8))[0]),
    "bytes": ByteCursor.sized,
    "string": _text,
}


def _primitive(source: str, target: str) -> Read:
    own = _OWN[source]
    if source == target or (source, target) == ("int", "long"):
        return own
    if target not in _PROMOTED.get(source, ()):
        return _refused
    if source in ("string", "bytes"):
        return _OWN[target]
    if target == "double" or source == "float":
        return lambda cursor: float(own(cursor))
    return lambda cursor: float(np.float32(np.int64(own(cursor))))


def _enum(source: Enum, target: Enum) -> Read:
    if not _same_name(source, target):
        return _refused
    own_symbols = {*target.symbols}
    symbols = [each if each in own_symbols else target.default for each in source.symbols]

    def symbol(cursor: ByteCursor) -> str:
        nth = cursor.read_int()
        text = symbols[nth] if 0 <= nth < len(symbols) else None
        if text is None:
            raise Damaged
        return text

    return symbol


def _changed(read: Read, target: Defined) -> Read:
    """What reads a value in the unit of its column."""
    logical = logical_type(target)
    if logical is None:
        return read
    if logical.name in ("timestamp-millis", "local-timestamp-millis"):
        return lambda cursor: _in_range(read(cursor) * 1000)
    if logical.name == "decimal" and (digits := logical.precision or 0) <= MOST_DIGITS:
        scale, beyond = -(logical.scale or 0), 10**digits

        def decimal(cursor: ByteCursor) -> Decimal:
            raw = read(cursor)
            number = int.from_bytes(raw, "big", signed=True)
            if not raw or not -beyond < number < beyond:
                raise Damaged
            return Decimal(number).scaleb(scale, _EXACT)

        return decimal
    return read


def _in_range(micros: int) -> int:
    if not holds("bigint", micros):
        raise Damaged
    return micros
