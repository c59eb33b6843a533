"""How records of one schema are read as columns, when they were written with another.

    reading(reader, writer)      the schema that a library of Avro is to read with, and where each column lies in it

Fields of records are columns, `pricing.base`. The columns and their types follow from the reader's schema alone; where
they lie, and in which unit or scale, from both.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from latecomer.model.paths import DEEPEST
from latecomer.model.types import MOST_DIGITS, normal_type
from latecomer.schemas import SchemaError
from latecomer.schemas.avro.logical import Logical, logical_type
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
"""A field that no writer has: true in every record that was read."""
MOST_COLUMNS = 2_000
Given = Literal["plain", "json", "list", "uuid", "nanos", "local_nanos", "millis_of_day", "union"]
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
_TIMES = {
    "date": "date",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "local-timestamp-millis": "timestamp_ntz",
    "local-timestamp-micros": "timestamp_ntz",
}
"""Logical types that Spark knows, and their types as columns."""
_NANOS: dict[str, tuple[str, Given]] = {
    "timestamp-nanos": ("timestamp", "nanos"),
    "local-timestamp-nanos": ("timestamp_ntz", "local_nanos"),
}
_NO_ELEMENTS = {"timestamp-nanos", "time-millis", "time-micros"}
"""What a list is no column of: writers may have another unit, and Spark hands over numbers."""
_FAMILIES = ("local-timestamp-", "timestamp-", "time-")
_WIDER = (("int", "long"), ("float", "double"))


@dataclass(frozen=True)
class Value:
    """A column: its type in the schema that is read with, the way there, and how Spark hands it over."""

    way: tuple[str, ...]
    kind: str
    given: Given = "plain"
    members: tuple[Value, ...] = ()
    """Of a union of several types, each of them; the column is text."""


@dataclass(frozen=True)
class Reading:
    """The schema that is read with, as JSON, and where each column lies in it."""

    schema: Any
    values: Mapping[str, Value]
    left_out: tuple[str, ...] = ()
    """Fields that lead back to their own record, or say nothing."""
    unknown: tuple[str, ...] = ()
    """Fields of the writer's record that the reader's does not have, where they were asked for: they are read too."""

    @property
    def columns(self) -> dict[str, str]:
        return {name: value.kind for name, value in self.values.items()}


class _Clash(Exception):
    """One name would have two definitions."""


def reading(reader: Schema, writer: Schema | None = None, unknown: bool = False) -> Reading:
    """How data of the writer's schema is read as the reader's; without one, as if it were written so. With `unknown`,
    what the reader's schema does not have is read beside it.

    >>> from latecomer.schemas.avro.parsing import schema_of
    >>> fields = [{"name": "id", "type": "long"}, {"name": "at", "type": {"type": "int", "logicalType": "date"}}]
    >>> reading(schema_of({"type": "record", "name": "Order", "fields": fields})).columns
    {'id': 'bigint', 'at': 'date'}
    """
    try:
        return _Maker(reader, writer).made(unknown)
    except _Clash:
        return _Maker(reader, None).made()


class _Maker:
    def __init__(self, reader: Schema, writer: Schema | None) -> None:
        self.reader, self.writer = reader, writer
        self.defined: dict[str, tuple[str, str | None]] = {}
        """The names that were defined: what each is in the reader's schema and in the writer's."""
        self.left_out: list[str] = []
        self.leads_back: dict[tuple[str, str], bool] = {}

    def made(self, unknown: bool = False) -> Reading:
        root = self.reader.resolve(self.reader.root)
        if not isinstance(root, Record):
            kind = f"is {_a(root.kind)}, and only the fields of a record are columns"
            raise SchemaError((), kind, "name the schema of a record")
        source = self._candidates(self.writer.root) if self.writer else ()
        schema = self._type(root, source)
        mark = {"name": MARK, "type": "boolean", "default": True}
        values = dict(islice(self._values(root, source, (), ()), MOST_COLUMNS + 1))
        if not values:
            fix = "name the schema of a record with fields"
            raise SchemaError((), "has no field that could be a column", fix)
        if len(values) > MOST_COLUMNS:
            fix = "name a schema with fewer fields"
            raise SchemaError(
                (), f"has more than {MOST_COLUMNS} fields, those of records within counted", fix
            )
        others = list(self._unknown(root, source)) if unknown else []
        fields = [*schema["fields"], *others, mark]
        names = tuple(field["name"] for field in others)
        return Reading({**schema, "fields": fields}, values, tuple(self.left_out), names)

    def _unknown(self, root: Record, source: Sequence[Defined]) -> Iterator[dict[str, Any]]:
        """The fields of the writer's record that are read as none of the reader's, as they were written. One whose type
        has the name of another in the schema that is read with is left out."""
        partner = self._partner(root, source)
        if self.writer is None or not isinstance(partner, Record):
            return
        read = [each.name for field in root.fields if (each := self._source_of(field, partner))]
        taken = {name.lower() for name in (*read, *(field.name for field in root.fields), MARK)}
        for field in partner.fields:
            own = _Maker(self.writer, self.writer)
            own.defined = dict(self.defined)
            if field.name.lower() in taken or not own._kept(partner, field):
                continue
            try:
                kind = own._type(field.type, self._candidates(field.type))
            except _Clash:
                continue
            self.defined = own.defined
            taken.add(field.name.lower())
            yield {"name": field.name, "type": kind}

    # Pairs of types

    def _candidates(self, found: Type) -> tuple[Defined, ...]:
        """The types that a value may have been written with."""
        assert self.writer is not None  # noqa: S101
        whole = self.writer.resolve(found)
        if isinstance(whole, Union):
            return tuple(self.writer.resolve(branch) for branch in whole.branches)
        return (whole,)

    def _partner(self, found: Defined, sources: Sequence[Defined]) -> Defined | None:
        """The type of the writer's that is read as this one."""
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
        for test in tests:
            for each in named:
                if test(each.name):
                    return each
        return named[0] if len(named) == 1 and isinstance(found, Record) else None

    def _source_of(self, field: Field, partner: Defined | None) -> Field | None:
        """The field of the writer's that is read as this one."""
        if not isinstance(partner, Record):
            return None
        there = {each.name: each for each in partner.fields}
        return next((there[name] for name in (field.name, *field.aliases) if name in there), None)

    # The schema to read with

    def _type(self, found: Type, sources: Sequence[Defined]) -> Any:
        whole = self.reader.resolve(found)
        match whole:
            case Union():
                return [self._type(branch, sources) for branch in whole.branches]
            case Array():
                partner = self._partner(whole, sources)
                inner = self._candidates(partner.items) if isinstance(partner, Array) else ()
                return {"type": "array", "items": self._type(whole.items, inner)}
            case Map():
                partner = self._partner(whole, sources)
                inner = self._candidates(partner.values) if isinstance(partner, Map) else ()
                return {"type": "map", "values": self._type(whole.values, inner)}
            case Record() | Enum() | Fixed():
                return self._named(whole, self._partner(whole, sources))
            case Primitive():
                kind, logical = self._leaf(whole, sources)
                return {"type": kind, **_attributes(logical)} if _attributes(logical) else kind

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
                return {
                    **head,
                    "size": found.size,
                    **_attributes(self._leaf(found, (partner,) if partner else ())[1]),
                }
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
            return {"name": source.name, "type": self._type(field.type, self._candidates(source.type))}
        made: dict[str, Any] = {"name": field.name, "type": self._type(field.type, ())}
        if field.default is not None:
            made["default"] = json.loads(field.default.text)
        if self.writer is None and field.aliases:
            made["aliases"] = list(field.aliases)
        return made

    def _leaf(self, found: Primitive | Fixed, sources: Sequence[Defined]) -> tuple[str, Logical | None]:
        """The type and the logical type with which a value is read: in the unit or scale that it was written in."""
        own = logical_type(found)
        if own is None:
            return found.kind, None
        for each in sources:
            other = None if isinstance(each, Union) else logical_type(each)
            if other is None or _family(other) != _family(own):
                continue
            if each.kind == found.kind or (each.kind == "int" and other.name.startswith("time-")):
                # Of more digits than Spark's decimals have, the bytes are the column: those of its own scale.
                as_bytes = (own.precision or 0) > MOST_DIGITS and own.scale == other.scale
                return each.kind, own if as_bytes else other
        return found.kind, own

    def _kept(self, record: Record, field: Field) -> bool:
        """Whether a field says something, and does not lead back to its own record."""
        place = record.name, field.name
        if place not in self.leads_back:
            self.leads_back[place] = record.name in self._reach(field.type)
        return not self.leads_back[place] and bool(self._branches(field.type))

    def _reach(self, found: Type) -> set[str]:
        """The names of the records that a type leads to."""
        reached: set[str] = set()
        left: list[Type] = [found]
        while left:
            each = left.pop()
            whole = self.reader.resolve(each)
            if isinstance(whole, Record):
                if whole.name in reached:
                    continue
                reached.add(whole.name)
            left.extend(child for _, child in children(whole))
        return reached

    # The columns

    def _values(
        self, record: Record, sources: Sequence[Defined], names: tuple[str, ...], way: tuple[str, ...]
    ) -> Iterator[tuple[str, Value]]:
        partner = self._partner(record, sources)
        for field in record.fields:
            if not self._kept(record, field):
                self.left_out.append(".".join((*names, field.name)))
                continue
            source = self._source_of(field, partner)
            there = (*way, source.name if source else field.name)
            inner = self._candidates(source.type) if source else ()
            name = (*names, field.name)
            branches = self._branches(field.type)
            if len(branches) == 1 and isinstance(branches[0], Record) and len(name) < DEEPEST:
                yield from self._values(branches[0], inner, name, there)
            else:
                yield ".".join(name), self._value(branches, inner, there)

    def _branches(self, found: Type) -> list[Defined]:
        """The types of a value that is not null."""
        whole = self.reader.resolve(found)
        all_of_it = (
            [self.reader.resolve(each) for each in whole.branches] if isinstance(whole, Union) else [whole]
        )
        return [each for each in all_of_it if each.kind != "null"]

    def _value(self, branches: Sequence[Defined], sources: Sequence[Defined], way: tuple[str, ...]) -> Value:
        if len(branches) == 1:
            return self._single(branches[0], sources, way)
        kinds = {each.kind for each in branches}
        for narrow, wide in _WIDER:
            if kinds == {narrow, wide}:
                return Value(way, _PLAIN[wide])
        members = (self._single(each, sources, (*way, f"member{nth}")) for nth, each in enumerate(branches))
        return Value(way, "string", "union", tuple(members))

    def _single(self, found: Defined, sources: Sequence[Defined], way: tuple[str, ...]) -> Value:
        if isinstance(found, Array | Map) and self._list_type(found) is not None:
            return Value(way, self._list_type(found, sources) or "string", "list")
        if isinstance(found, Array | Map | Record | Union):
            return Value(way, "string", "json")
        if isinstance(found, Enum):
            return Value(way, "string")
        kind, logical = self._leaf(found, sources)
        own = logical_type(found)
        if logical is None:
            return Value(way, _PLAIN[kind])
        if logical.name in _NANOS:
            return Value(way, *_NANOS[logical.name])
        if logical.name == "time-millis" and own is not None and own.name == "time-micros":
            return Value(way, "bigint", "millis_of_day")
        if logical.name == "uuid":
            return Value(way, "string", "uuid" if kind == "fixed" else "plain")
        if logical.name == "decimal" and (logical.precision or 0) <= MOST_DIGITS:
            return Value(way, f"decimal({logical.precision},{logical.scale})")
        return Value(way, _TIMES.get(logical.name, _PLAIN[kind]))

    def _list_type(self, found: Array | Map, sources: Sequence[Defined] = ()) -> str | None:
        """The type of a list or a map as it is read; none where it holds what no column can."""
        try:
            return normal_type(self._inner_type([found], sources))
        except ValueError:
            return None

    def _inner_type(self, branches: Sequence[Defined], sources: Sequence[Defined]) -> str:
        kinds = {each.kind for each in branches}
        wider = next((_PLAIN[wide] for narrow, wide in _WIDER if kinds == {narrow, wide}), None)
        if wider is not None:
            return wider
        if len(branches) != 1:
            raise ValueError("a union")
        found = branches[0]
        partner = self._partner(found, sources)
        match found:
            case Array():
                inner = self._candidates(partner.items) if isinstance(partner, Array) else ()
                return f"array<{self._inner_type(self._branches(found.items), inner)}>"
            case Map():
                inner = self._candidates(partner.values) if isinstance(partner, Map) else ()
                return f"map<string,{self._inner_type(self._branches(found.values), inner)}>"
            case Record():
                fields = [
                    self._inner_field(field, self._source_of(field, partner))
                    for field in found.fields
                    if self._kept(found, field)
                ]
                return f"struct<{','.join(fields)}>"
        value = self._single(found, sources, ())
        own = None if isinstance(found, Union | Enum) else logical_type(found)
        if value.given not in ("plain", "nanos") or (own is not None and own.name in _NO_ELEMENTS):
            raise ValueError("a value that has to be computed")
        return "bigint" if value.given == "nanos" else value.kind

    def _inner_field(self, field: Field, source: Field | None) -> str:
        inner = self._candidates(source.type) if source else ()
        return f"`{(source or field).name}`:{self._inner_type(self._branches(field.type), inner)}"


def _family(logical: Logical) -> str:
    """Logical types of one family say the same thing in other units, or with other digits."""
    return next((each for each in _FAMILIES if logical.name.startswith(each)), logical.name)


def _attributes(logical: Logical | None) -> dict[str, Any]:
    """What Spark is given of a logical type: nothing where Spark does not know the type."""
    if logical is None:
        return {}
    if logical.name == "decimal":
        fits = (logical.precision or 0) <= MOST_DIGITS
        return (
            {"logicalType": "decimal", "precision": logical.precision, "scale": logical.scale} if fits else {}
        )
    return {"logicalType": logical.name} if logical.name in _TIMES else {}


def _a(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
