"""How records written with one schema are read as the columns of another.

    reading(reader, writer)      the schema for the Avro library to read with, and where each column is found in it

Fields of nested records are columns, such as `pricing.base`. The reader's schema alone decides the columns and their
types. Where a column is found, and in which unit or scale, depends on both schemas.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from latecomer.model.paths import DEEPEST
from latecomer.model.types import MOST_DIGITS, field_name, normal_type
from latecomer.model.words import with_article
from latecomer.schemas import SchemaError
from latecomer.schemas.avro.compatibility import written_fields
from latecomer.schemas.avro.logical import TIMES, Logical, family, logical_type, spark_attributes
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
    children,
)

MARK = "_lc_decoded"
"""A field that no writer has, with the default true: it marks a record that was decoded."""
MOST_COLUMNS = 2_000
DeliveredAs = Literal["plain", "json", "list", "uuid", "nanos", "local_nanos", "millis_of_day", "union"]
_PLAIN = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
    "fixed": "binary",
    "enum": "string",
}
_NANOS: dict[str, tuple[str, DeliveredAs]] = {
    "timestamp-nanos": ("timestamp", "nanos"),
    "local-timestamp-nanos": ("timestamp_ntz", "local_nanos"),
}
_NO_ELEMENTS = {"timestamp-nanos", "time-millis", "time-micros"}
"""No element types of lists: a writer may have another unit, and Spark returns plain numbers for them."""
_WIDER = (("int", "long"), ("float", "double"))


@dataclass(frozen=True)
class ReadValue:
    """A column: the path to it in the reading schema, its type, and how Spark returns its values."""

    path: tuple[str, ...]
    kind: str
    delivered_as: DeliveredAs = "plain"
    members: tuple[ReadValue, ...] = ()
    """The types of a union of several types, whose column is text."""


@dataclass(frozen=True)
class Reading:
    """The reading schema as JSON, and where each column is found in it."""

    schema: Any
    values: Mapping[str, ReadValue]
    left_out: tuple[str, ...] = ()
    """The fields that lead back to their own record, or are always null: they are no columns."""
    unknown: tuple[str, ...] = ()
    """Fields that only the writer's record has, if they were asked for: they are read too."""

    @property
    def columns(self) -> dict[str, str]:
        return {name: value.kind for name, value in self.values.items()}


class _Clash(Exception):
    """One name would have two definitions."""


def reading(reader: Schema, writer: Schema | None = None, unknown: bool = False) -> Reading:
    """How data of the writer's schema is read as the reader's. Without `writer`, the data has the reader's schema. With
    `unknown`, fields that only the writer has are read too.

    >>> from latecomer.schemas.avro.parsing import schema_of
    >>> fields = [{"name": "id", "type": "long"}, {"name": "at", "type": {"type": "int", "logicalType": "date"}}]
    >>> reading(schema_of({"type": "record", "name": "Order", "fields": fields})).columns
    {'id': 'bigint', 'at': 'date'}
    """
    others = writer if unknown else None
    try:
        return _Maker(reader, writer).made(others)
    except _Clash:
        return _Maker(reader, None).made(others)


class _Maker:
    def __init__(self, reader: Schema, writer: Schema | None) -> None:
        self.reader, self.writer = reader, writer
        self.defined: dict[str, tuple[str, str | None]] = {}
        """Name in the reading schema → the names of the type in the reader's schema and in the writer's."""
        self.left_out: list[str] = []
        self.leads_back: dict[tuple[str, str], bool] = {}

    def made(self, others: Schema | None = None) -> Reading:
        """How the reader's fields are read, and those that only the schema `others` has."""
        root = self.reader.resolve(self.reader.root)
        if not isinstance(root, Record):
            kind = f"is {with_article(root.kind)}, and only the fields of a record are columns"
            raise SchemaError((), kind, "name the schema of a record")
        source = _types_within(self.writer, self.writer.root) if self.writer else ()
        schema = self._type(root, source)
        mark = {"name": MARK, "type": "boolean", "default": True}
        values = dict(islice(self._values(root, source, (), ()), MOST_COLUMNS + 1))
        if not values:
            fix = "name the schema of a record with fields"
            raise SchemaError((), "has no field that could be a column", fix)
        if len(values) > MOST_COLUMNS:
            fix = "name a schema with fewer fields"
            raise SchemaError((), f"has more than {MOST_COLUMNS} fields, nested ones included", fix)
        unknown = [] if others is None else list(self._unknown(root, others))
        fields = [*schema["fields"], *unknown, mark]
        names = tuple(field["name"] for field in unknown)
        return Reading({**schema, "fields": fields}, values, tuple(self.left_out), names)

    def _unknown(self, root: Record, writer: Schema) -> Iterator[dict[str, Any]]:
        """The fields that only the writer's record has, as they were written. A field is left out if its type has the
        name of another type in the reading schema."""
        partner = self._partner(root, _types_within(writer, writer.root))
        if not isinstance(partner, Record):
            return
        read = [each.name for field in root.fields if (each := self._source_of(field, partner))]
        taken = {name.lower() for name in (*read, *(field.name for field in root.fields), MARK)}
        for field in partner.fields:
            own = _Maker(writer, writer)
            own.defined = dict(self.defined)
            if field.name.lower() in taken or not own._kept(partner, field):
                continue
            try:
                kind = own._type(field.type, own._candidates(field))
            except _Clash:
                continue
            self.defined = own.defined
            taken.add(field.name.lower())
            yield {"name": field.name, "type": kind}

    # Pairs of types

    def _candidates(self, source: Field | None) -> tuple[Defined, ...]:
        """The types that the writer's field may have; none without such a field."""
        return () if self.writer is None or source is None else _types_within(self.writer, source.type)

    def _inside(self, found: Array | Map, sources: Sequence[Defined]) -> tuple[Defined, ...]:
        """The writer's types for the items of a list, or for the values of a map."""
        partner = self._partner(found, sources)
        if self.writer is None or not isinstance(partner, Array | Map):
            return ()
        return _types_within(self.writer, partner.items if isinstance(partner, Array) else partner.values)

    def _partner(self, found: Defined, sources: Sequence[Defined]) -> Defined | None:
        """The writer's type that is read as this one."""
        alike = [each for each in sources if each.kind == found.kind]
        if not isinstance(found, Named):
            return alike[0] if alike else None
        named = [each for each in alike if isinstance(each, Named)]
        own = found.name
        tests = (
            lambda name: name == own,
            lambda name: name in found.aliases,
            lambda name: name.rpartition(".")[2] == own.rpartition(".")[2],
        )
        alone = named[0] if len(named) == 1 and isinstance(found, Record) else None
        return next((each for test in tests for each in named if test(each.name)), alone)

    def _source_of(self, field: Field, partner: Defined | None) -> Field | None:
        """The writer's field that is read as this one."""
        if not isinstance(partner, Record):
            return None
        return next(iter(written_fields(field, {each.name: each for each in partner.fields})), None)

    # The schema to read with

    def _type(self, found: Type, sources: Sequence[Defined]) -> Any:
        whole = self.reader.resolve(found)
        match whole:
            case Union():
                return [self._type(branch, sources) for branch in whole.branches]
            case Array():
                return {"type": "array", "items": self._type(whole.items, self._inside(whole, sources))}
            case Map():
                return {"type": "map", "values": self._type(whole.values, self._inside(whole, sources))}
            case Record() | Enum() | Fixed():
                return self._named(whole, self._partner(whole, sources))
            case Primitive():
                kind, logical = self._leaf(whole, sources)
                return {"type": kind, **spark_attributes(logical)} if spark_attributes(logical) else kind

    def _named(self, found: Named, partner: Defined | None) -> Any:
        name = partner.name if isinstance(partner, Named) else found.name
        pair = found.name, partner.name if isinstance(partner, Named) else None
        if name not in self.defined:
            self.defined[name] = pair
            return self._definition(found, partner, name)
        if self.defined[name] != pair:
            raise _Clash
        return name

    def _definition(self, found: Named, partner: Defined | None, name: str) -> dict[str, Any]:
        head: dict[str, Any] = {"type": found.kind, "name": name}
        if "." not in name:
            head["namespace"] = ""
        if partner is None and found.aliases:
            head["aliases"] = list(found.aliases)
        match found:
            case Fixed():
                _, logical = self._leaf(found, (partner,) if partner else ())
                return {**head, "size": found.size, **spark_attributes(logical)}
            case Enum():
                default = {} if found.default is None else {"default": found.default}
                return {**head, "symbols": list(found.symbols), **default}
            case Record():
                fields = [
                    self._field(field, self._source_of(field, partner))
                    for field in found.fields
                    if self._kept(found, field)
                ]
                return {**head, "fields": fields}

    def _field(self, field: Field, source: Field | None) -> dict[str, Any]:
        if source is not None:
            return {"name": source.name, "type": self._type(field.type, self._candidates(source))}
        written: dict[str, Any] = {"name": field.name, "type": self._type(field.type, ())}
        if field.default is not None:
            written["default"] = json.loads(field.default.text)
        if self.writer is None and field.aliases:
            written["aliases"] = list(field.aliases)
        return written

    def _leaf(self, found: Primitive | Fixed, sources: Sequence[Defined]) -> tuple[str, Logical | None]:
        """The type and the logical type to read a value with: in the unit or scale of the writer."""
        own = logical_type(found)
        if own is None:
            return found.kind, None
        for each in sources:
            other = None if isinstance(each, Union) else logical_type(each)
            if other is None or family(other) != family(own):
                continue
            if each.kind == found.kind or (each.kind == "int" and other.name.startswith("time-")):
                # A decimal with more digits than Spark's is a column of bytes, which have the reader's scale.
                as_bytes = (own.precision or 0) > MOST_DIGITS and own.scale == other.scale
                return each.kind, own if as_bytes else other
        return found.kind, own

    def _kept(self, record: Record, field: Field) -> bool:
        """Whether a field is a column: it is not always null, and not recursive."""
        place = record.name, field.name
        if place not in self.leads_back:
            self.leads_back[place] = record.name in self._reach(field.type)
        return not self.leads_back[place] and bool(self._branches(field.type))

    def _reach(self, found: Type) -> set[str]:
        """The names of the records that are reached from a type."""
        reached: set[str] = set()
        pending: list[Type] = [found]
        while pending:
            each = pending.pop()
            whole = self.reader.resolve(each)
            if isinstance(whole, Record):
                if whole.name in reached:
                    continue
                reached.add(whole.name)
            pending.extend(children(whole))
        return reached

    # The columns

    def _values(
        self, record: Record, sources: Sequence[Defined], names: tuple[str, ...], path: tuple[str, ...]
    ) -> Iterator[tuple[str, ReadValue]]:
        partner = self._partner(record, sources)
        for field in record.fields:
            if not self._kept(record, field):
                self.left_out.append(".".join((*names, field.name)))
                continue
            source = self._source_of(field, partner)
            field_path = (*path, source.name if source else field.name)
            inner = self._candidates(source)
            name = (*names, field.name)
            branches = self._branches(field.type)
            if len(branches) == 1 and isinstance(branches[0], Record) and len(name) < DEEPEST:
                yield from self._values(branches[0], inner, name, field_path)
            else:
                yield ".".join(name), self._value(branches, inner, field_path)

    def _branches(self, found: Type) -> list[Defined]:
        """The types of a value, without null."""
        return [each for each in _types_within(self.reader, found) if each.kind != "null"]

    def _value(
        self, branches: Sequence[Defined], sources: Sequence[Defined], path: tuple[str, ...]
    ) -> ReadValue:
        if len(branches) == 1:
            return self._single(branches[0], sources, path)
        if (wider := _wider(branches)) is not None:
            return ReadValue(path, wider)
        members = (self._single(each, sources, (*path, f"member{nth}")) for nth, each in enumerate(branches))
        return ReadValue(path, "string", "union", tuple(members))

    def _single(self, found: Defined, sources: Sequence[Defined], path: tuple[str, ...]) -> ReadValue:
        if isinstance(found, Array | Map) and self._list_type(found) is not None:
            return ReadValue(path, self._list_type(found, sources) or "string", "list")
        if isinstance(found, Array | Map | Record | Union):
            return ReadValue(path, "string", "json")
        if isinstance(found, Enum):
            return ReadValue(path, "string")
        kind, logical = self._leaf(found, sources)
        own = logical_type(found)
        if logical is None:
            return ReadValue(path, _PLAIN[kind])
        if logical.name in _NANOS:
            return ReadValue(path, *_NANOS[logical.name])
        if logical.name == "time-millis" and own is not None and own.name == "time-micros":
            return ReadValue(path, "bigint", "millis_of_day")
        if logical.name == "uuid":
            return ReadValue(path, "string", "uuid" if kind == "fixed" else "plain")
        if logical.name == "decimal" and (logical.precision or 0) <= MOST_DIGITS:
            return ReadValue(path, f"decimal({logical.precision},{logical.scale})")
        return ReadValue(path, TIMES.get(logical.name, _PLAIN[kind]))

    def _list_type(self, found: Array | Map, sources: Sequence[Defined] = ()) -> str | None:
        """The column type of a list or a map; None if no column type can hold its values."""
        try:
            return normal_type(self._inner_type([found], sources))
        except ValueError:
            return None

    def _inner_type(self, branches: Sequence[Defined], sources: Sequence[Defined]) -> str:
        if (wider := _wider(branches)) is not None:
            return wider
        if len(branches) != 1:
            raise ValueError("a union")
        found = branches[0]
        match found:
            case Array():
                inner = self._inside(found, sources)
                return f"array<{self._inner_type(self._branches(found.items), inner)}>"
            case Map():
                inner = self._inside(found, sources)
                return f"map<string,{self._inner_type(self._branches(found.values), inner)}>"
            case Record():
                partner = self._partner(found, sources)
                fields = [
                    self._inner_field(field, self._source_of(field, partner))
                    for field in found.fields
                    if self._kept(found, field)
                ]
                return f"struct<{','.join(fields)}>"
        value = self._single(found, sources, ())
        own = None if isinstance(found, Union | Enum) else logical_type(found)
        if value.delivered_as not in ("plain", "nanos") or (own is not None and own.name in _NO_ELEMENTS):
            raise ValueError("a value that has to be computed")
        return "bigint" if value.delivered_as == "nanos" else value.kind

    def _inner_field(self, field: Field, source: Field | None) -> str:
        kind = self._inner_type(self._branches(field.type), self._candidates(source))
        return f"{field_name((source or field).name)}:{kind}"


def _types_within(schema: Schema, found: Type) -> tuple[Defined, ...]:
    """The branches of a union, or else the type itself."""
    whole = schema.resolve(found)
    return tuple(map(schema.resolve, whole.branches)) if isinstance(whole, Union) else (whole,)


def _wider(branches: Sequence[Defined]) -> str | None:
    """The column type of two types of numbers, if one holds the values of the other."""
    kinds = {each.kind for each in branches}
    return next((_PLAIN[wide] for narrow, wide in _WIDER if kinds == {narrow, wide}), None)
