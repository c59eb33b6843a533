"""JSON → Schema, by the Avro specification. ADR 0042 lists what is stricter than in Java."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from latecomer.errors import did_you_mean
from latecomer.schemas.avro.defaults import Defaults
from latecomer.schemas.avro.naming import Space, alias_name, full_name, require_name
from latecomer.schemas.avro.types import (
    PRIMITIVES,
    Array,
    Enum,
    Field,
    Fixed,
    Json,
    Map,
    Named,
    Primitive,
    Properties,
    Record,
    Schema,
    Type,
    TypeReference,
    Union,
    children,
    parts,
)
from latecomer.schemas.json_input import read_json, require_plain
from latecomer.schemas.mistakes import DEEPEST_TYPE, Path, SchemaError, too_deep

_T = TypeVar("_T", Record, Enum, Fixed)
LARGEST_FIXED = 2**31 - 9
"""The longest array of bytes that Java can read."""
_ORDERS = ("ascending", "descending", "ignore")
_ATTRIBUTES = {
    "record": ("type", "name", "namespace", "aliases", "doc", "fields"),
    "error": ("type", "name", "namespace", "aliases", "doc", "fields"),
    "enum": ("type", "name", "namespace", "aliases", "doc", "symbols", "default"),
    "fixed": ("type", "name", "namespace", "aliases", "doc", "size"),
    "array": ("type", "items"),
    "map": ("type", "values"),
    "other": ("type",),
    "field": ("name", "type", "default", "order", "aliases", "doc"),
}
"""Kind → the keys that the specification defines. All other keys are properties."""


def parse_schema(text: str, references: Mapping[str, Schema] | None = None, *, strict: bool = True) -> Schema:
    """The schema that a JSON text holds. `references` are schemas that define names it uses.

    If not `strict`, it may have what other registries accept and readers can handle: names by Java's rule, and defaults
    that do not fit. Such a default is kept as a property, and is not used in reading.

    >>> parse_schema('"string"').root
    Primitive(kind='string', properties=())
    """
    return _parse(read_json(text), references or {}, strict)


def schema_of(value: Any, references: Mapping[str, Schema] | None = None, *, strict: bool = True) -> Schema:
    """The schema that a JSON value holds, such as `{"type": "array", "items": "int"}`."""
    require_plain(value)
    return _parse(value, references or {}, strict)


def _parse(value: Any, references: Mapping[str, Schema], strict: bool) -> Schema:
    known = _known_types(references, strict)
    root = _Parser(known, strict).type_of(value, (), "", 0)
    schema = Schema(root, _within_reach(root, known))
    if schema.external:
        _require_shallow(schema)
    return schema


class _Parser:
    """Reads a schema from start to end. A name is known from the start of its definition."""

    def __init__(self, known: Mapping[str, Named], strict: bool) -> None:
        self.known, self.strict = known, strict
        self.names: dict[str, Named | None] = dict(known)  # None while its definition is read
        self.defaults = Defaults(self.names)

    def type_of(self, value: Any, path: Path, space: Space, depth: int) -> Type:
        if depth > DEEPEST_TYPE:
            raise too_deep(path)
        match value:
            case str():
                return self._named(value, path, space, ())
            case list():
                return self._union(value, path, space, depth)
            case dict():
                return self._object(value, path, space, depth)
        fix = "write the name of a type, an object with a type, or a list for a union"
        raise SchemaError(path, "is no schema", fix, value)

    def _object(self, value: dict[str, Any], path: Path, space: Space, depth: int) -> Type:
        kind = value.get("type")
        match kind:
            case "record" | "error":
                return self._record(value, path, space, depth)
            case "enum":
                return self._enum(value, path, space)
            case "fixed":
                return self._fixed(value, path, space)
            case "array":
                items = self.type_of(_required(value, "items", path), (*path, "items"), space, depth + 1)
                return Array(items, _properties(value, "array", path))
            case "map":
                values = self.type_of(_required(value, "values", path), (*path, "values"), space, depth + 1)
                return Map(values, _properties(value, "map", path))
            case str():
                return self._named(kind, (*path, "type"), space, _properties(value, "other", path))
            case None:
                raise SchemaError(path, "has no type", 'write one, such as "type": "record"', value)
        fix = "write the name of a type; a schema within needs no object around it"
        raise SchemaError((*path, "type"), "is no name", fix, kind)

    def _named(self, name: str, path: Path, space: Space, properties: Properties) -> Type:
        if name in PRIMITIVES:
            return Primitive(name, properties)
        full = self._lookup(name, path, space)
        if full is not None:
            return TypeReference(full, properties)
        fix = f"define it before it is used; {did_you_mean(name[:100], [*PRIMITIVES, *sorted(self.names)[:20]])}"
        raise SchemaError(path, "there is no such type so far", fix, name)

    def _lookup(self, name: str, path: Path, space: Space) -> str | None:
        """The full name of a type that is referred to: in the surrounding namespace, or else without one.

        Java knows a name only once its definition has ended; before that, it takes a type without namespace. The name
        is refused if that is another type than the specification says.
        """
        if "." in name or not space:
            return name if name in self.names else None
        qualified = f"{space}.{name}"
        if qualified not in self.names:
            return name if self.names.get(name) is not None else None
        if self.names[qualified] is None and self.names.get(name) is not None:
            fix = f"write {qualified}, or rename the one without a namespace"
            raise SchemaError(path, f"may be {qualified} or the {name} that has no namespace", fix, name)
        return qualified

    def _union(self, value: list[Any], path: Path, space: Space, depth: int) -> Union:
        branches: list[Type] = []
        first_at: dict[str, int] = {}
        for index, each in enumerate(value):
            if isinstance(each, list):
                fix = "write its branches here"
                raise SchemaError((*path, index), "is a union directly within a union", fix, each)
            branch = self.type_of(each, (*path, index), space, depth + 1)
            key = _branch_name(branch)
            if key in first_at:
                fix = "leave one out; only named types may stand in a union more than once, under different names"
                raise SchemaError(
                    (*path, index), f"is {key} a second time, after branch {first_at[key]}", fix
                )
            first_at[key] = index
            branches.append(branch)
        return Union(tuple(branches))

    def _record(self, value: dict[str, Any], path: Path, space: Space, depth: int) -> Record:
        name = self._begin(value, path, space)
        inner = name.rpartition(".")[0]
        listed = _required(value, "fields", path)
        if not isinstance(listed, list):
            raise SchemaError(
                (*path, "fields"), "is no list", "write a list of fields, which may be empty", listed
            )
        fields: dict[str, Field] = {}
        for index, each in enumerate(listed):
            place = (*path, "fields", index)
            field = self._field(each, place, inner, depth)
            if field.name in fields:
                fix = "give each field a name of its own"
                raise SchemaError((*place, "name"), "is the name of an earlier field", fix, field.name)
            fields[field.name] = field
        kind = value["type"]
        about = self._about(value, path, name, kind)
        return self._end(Record(name, tuple(fields.values()), kind == "error", *about))

    def _field(self, value: Any, path: Path, space: Space, depth: int) -> Field:
        if not isinstance(value, dict):
            raise SchemaError(path, "is no field", 'write an object: {"name": …, "type": …}', value)
        name = require_name(_required(value, "name", path), (*path, "name"), self.strict)
        found = self.type_of(_required(value, "type", path), (*path, "type"), space, depth + 1)
        order = value.get("order", "ascending")
        if order not in _ORDERS:
            raise SchemaError((*path, "order"), "is no order", f"use {', '.join(_ORDERS)}", order)
        aliases = _texts(value, "aliases", path)
        if self.strict:
            for index, alias in enumerate(aliases):
                require_name(alias, (*path, "aliases", index))
        doc, properties = _text(value, "doc", path), _properties(value, "field", path)
        if "default" not in value:
            return Field(name, found, None, order, aliases, doc, properties)
        default = Json.of(value["default"])
        if self._is_usable(self.defaults.problem(value["default"], found, (*path, "default"))):
            return Field(name, found, default, order, aliases, doc, properties)
        return Field(name, found, None, order, aliases, doc, _with_default(properties, default))

    def _is_usable(self, problem: SchemaError | None) -> bool:
        """Whether a default can be used. Raises its problem if `strict`."""
        if problem is not None and self.strict:
            raise problem
        return problem is None

    def _enum(self, value: dict[str, Any], path: Path, space: Space) -> Enum:
        name = self._begin(value, path, space)
        _required(value, "symbols", path)
        symbols = _texts(value, "symbols", path)
        seen = set[str]()
        for index, symbol in enumerate(symbols):
            place = (*path, "symbols", index)
            require_name(symbol, place, self.strict)
            if symbol in seen:
                raise SchemaError(place, "is there already", "write each symbol once", symbol)
            seen.add(symbol)
        aliases, doc, properties = self._about(value, path, name, "enum")
        default = value.get("default")
        if "default" in value and (not isinstance(default, str) or default not in seen):
            fix = did_you_mean(str(default)[:100], symbols[:20])
            self._is_usable(SchemaError((*path, "default"), "is none of the symbols", fix, default))
            default, properties = None, _with_default(properties, Json.of(default))
        return self._end(Enum(name, symbols, default, aliases, doc, properties))

    def _fixed(self, value: dict[str, Any], path: Path, space: Space) -> Fixed:
        name = self._begin(value, path, space)
        size = _required(value, "size", path)
        if type(size) is not int or not 0 <= size <= LARGEST_FIXED:
            fix = f"write a whole number from 0 to {LARGEST_FIXED}"
            raise SchemaError((*path, "size"), "is no number of bytes", fix, size)
        return self._end(Fixed(name, size, *self._about(value, path, name, "fixed")))

    def _begin(self, value: dict[str, Any], path: Path, space: Space) -> str:
        """Start the definition of a named type; its full name."""
        namespace = _text(value, "namespace", path)
        name = full_name(_required(value, "name", path), namespace, space, path, self.strict)
        if name in PRIMITIVES:
            raise SchemaError((*path, "name"), "is the name of a primitive type", "choose another", name)
        if name in self.names:
            whose = "in a schema that this one refers to" if name in self.known else "in this schema"
            fix = "write its name alone here, or choose another"
            raise SchemaError((*path, "name"), f"is defined already {whose}", fix, name)
        self.names[name] = None
        return name

    def _end(self, found: _T) -> _T:
        self.names[found.name] = found
        return found

    def _about(
        self, value: Mapping[str, Any], path: Path, name: str, kind: str
    ) -> tuple[tuple[str, ...], str | None, Properties]:
        """The aliases, the doc and the properties of a named type."""
        space = name.rpartition(".")[0]
        aliases = tuple(
            alias_name(each, space, (*path, "aliases", index), self.strict)
            for index, each in enumerate(_texts(value, "aliases", path))
        )
        return aliases, _text(value, "doc", path), _properties(value, kind, path)


def _branch_name(branch: Type) -> str:
    return branch.name if isinstance(branch, TypeReference | Named) else branch.kind


def _required(value: Mapping[str, Any], key: str, path: Path) -> Any:
    if key not in value:
        raise SchemaError(path, f"has no {key}", f'write "{key}": …', dict(value))
    return value[key]


def _text(value: Mapping[str, Any], key: str, path: Path) -> str | None:
    text = value.get(key)
    if text is not None and not isinstance(text, str):
        raise SchemaError((*path, key), "is no text", "write text in quotes, or leave it out", text)
    return text


def _texts(value: Mapping[str, Any], key: str, path: Path) -> tuple[str, ...]:
    texts = value.get(key, [])
    if not isinstance(texts, list):
        raise SchemaError((*path, key), "is no list", "write a list of texts", texts)
    for index, each in enumerate(texts):
        if not isinstance(each, str):
            raise SchemaError((*path, key, index), "is no text", "write text in quotes", each)
    return tuple(texts)


def _properties(value: Mapping[str, Any], kind: str, path: Path) -> Properties:
    """The keys that are no attributes of the kind, sorted."""
    others = [key for key in value if key not in _ATTRIBUTES[kind]]
    for key in others:
        if _is_beyond_64_bits(value[key]):
            fix = "write it as text: Java can keep none of more than 64 bits"
            raise SchemaError((*path, key), "holds a whole number that is too large", fix, value[key])
    return tuple((key, Json.of(value[key])) for key in sorted(others))


def _with_default(properties: Properties, default: Json) -> Properties:
    """The properties with a default that cannot be used: it is kept, and has no effect."""
    return tuple(sorted((*properties, ("default", default)), key=lambda each: each[0]))


def _is_beyond_64_bits(value: Any) -> bool:
    match value:
        case list():
            return any(map(_is_beyond_64_bits, value))
        case dict():
            return any(map(_is_beyond_64_bits, value.values()))
    return isinstance(value, int) and not -(2**63) <= value < 2**63


# Types that a schema uses from other schemas


def _known_types(references: Mapping[str, Schema], strict: bool = True) -> dict[str, Named]:
    """The named types of other schemas. In Confluent's registry the name of a reference may be any text."""
    types: dict[str, Named] = {}
    for name, schema in references.items():
        if strict and name not in schema.names:
            fix = (
                f"refer to a name that it defines: {', '.join(sorted(schema.names)[:10]) or 'there is none'}"
            )
            raise SchemaError(("references", name), "is not defined in the schema that it refers to", fix)
        for each in schema.names.values():
            if types.setdefault(each.name, each) != each:
                fix = "refer to versions that agree on it"
                raise SchemaError(
                    ("references", name), f"defines {each.name} differently from another reference", fix
                )
    return types


def _within_reach(root: Type, known: Mapping[str, Named]) -> tuple[Named, ...]:
    """The types of other schemas that a tree needs, directly or indirectly, sorted by name."""
    needed: dict[str, Named] = {}
    pending = [root]
    while pending:
        for each in parts(pending.pop()):
            if isinstance(each, TypeReference) and each.name in known and each.name not in needed:
                needed[each.name] = known[each.name]
                pending.append(known[each.name])
    return tuple(needed[name] for name in sorted(needed))


def _require_shallow(schema: Schema) -> None:
    """Refuse a schema that would be too deep if its references were written out."""
    pending: list[tuple[Type, int]] = [(schema.root, 0)]
    seen = set[str]()
    while pending:
        each, depth = pending.pop()
        if depth > DEEPEST_TYPE:
            raise too_deep(())
        if isinstance(each, TypeReference | Named):
            if each.name in seen:
                continue
            seen.add(each.name)
        inner = schema.resolve(each)
        pending.extend((child, depth + 1) for child in reversed(children(inner)))
