"""JSON → Schema: each keyword by its draft. References lead into this schema or into schemas that are passed in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from latecomer.schemas.json_input import read_json, require_plain
from latecomer.schemas.jsonschema import keywords
from latecomer.schemas.jsonschema.keywords import Draft, draft_of, named_draft
from latecomer.schemas.jsonschema.nodes import Node, normal_text, require_progress
from latecomer.schemas.mistakes import DEEPEST_TYPE, Path, SchemaError, Step, StepLimit, listed, too_deep

_IN_PLACE = (
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "dependentSchemas",
)


@dataclass(frozen=True)
class Schema:
    """A whole schema: its normalized text, and the schemas that it may refer to, by name."""

    text: str
    references: tuple[tuple[str, Schema], ...] = ()
    document: Document = field(compare=False, repr=False, kw_only=True)

    @property
    def root(self) -> Node:
        return self.document.root

    @property
    def draft(self) -> Draft:
        return self.document.draft


def parse_schema(text: str, references: Mapping[str, Schema] | None = None) -> Schema:
    """The schema that a JSON text holds. `references` are the schemas that it may refer to, by name.

    >>> parse_schema('{"type": "strng"}')
    Traceback (most recent call last):
    latecomer.schemas.mistakes.SchemaError: type: is no type (value: "strng"); did you mean string? there are \
array, boolean, integer, null, object, string, number
    """
    return _schema(read_json(text), references or {})


def schema_of(value: Any, references: Mapping[str, Schema] | None = None) -> Schema:
    """The schema that a JSON value stands for."""
    require_plain(value)
    return _schema(value, references or {})


def _schema(value: Any, references: Mapping[str, Schema]) -> Schema:
    known = tuple(sorted(references.items(), key=lambda each: each[0]))
    try:
        return Schema(normal_text(value), known, document=Document(value, dict(known)))
    except RecursionError:  # the caller has used up much of the stack
        raise too_deep(()) from None


@dataclass
class _Pending:
    """A reference that is not resolved yet."""

    holder: Node
    name: str
    base: str
    path: Path


class Document:
    """The JSON of a schema, and its nodes by their places."""

    def __init__(self, value: Any, references: Mapping[str, Schema]) -> None:
        self.value, self.references, self.draft = value, references, draft_of(value)
        self.places: dict[Path, Node] = {}
        self.resources: dict[str, Path] = {"": ()}
        """Address → the place of the schema with that `$id`."""
        self.anchors: dict[tuple[str, str], Path] = {}
        self.addresses: dict[str, Document] = {}
        """Address → the other schema that it refers to."""
        self.pending: list[_Pending] = []
        self.base = ""
        self.work = StepLimit("read")
        self.root = self.node(value, (), (), "", 0)
        self._finish()

    def place_at(self, base: str, fragment: str) -> Path | None:
        """The place that a reference into this document names; None if there is none."""
        around = self.resources.get(base)
        if around is None:
            return None
        if fragment and not fragment.startswith("/"):
            return self.anchors.get((base, fragment))
        return place_of(fragment, self.value, around)

    def _finish(self) -> None:
        while self.pending:
            each = self.pending.pop()
            each.holder.ref = self._target(each)
        require_progress(self.places)

    # References

    def _target(self, pending: _Pending) -> Node:
        name, fragment = _parted(pending.name, pending.path)
        address, fragment = _joined(pending.base, name, pending.path), unquote(fragment)
        node = self._own_node(address, fragment)
        if node is None and (other := self._reference(name, address)) is not None:
            place = other.place_at(other.base, fragment)
            node = None if place is None else other.places.get(place)
            self.addresses[address] = other
        if node is None:
            known = listed([name[:80] for name in self.references])
            fix = (
                "refer to a place in this schema, as in #/definitions/Name, or to a schema that is "
                f"registered as a reference (there: {known}); nothing is fetched"
            )
            raise SchemaError(pending.path, "leads nowhere", fix, pending.name)
        return node

    def _own_node(self, address: str, fragment: str) -> Node | None:
        """A node of this document. Any place that is referred to is read as a schema."""
        place = self.place_at(address, fragment)
        if place is not None and place not in self.places:
            value = self.value
            for step in place:
                value = value[step]
            self.node(value, place, (), address, 0)
        return None if place is None else self.places[place]

    def _reference(self, name: str, address: str) -> Document | None:
        for each in (name, address):
            if each and each in self.references:
                return self.references[each].document
        others = (each.document for each in self.references.values())
        return next((each for each in others if address and each.base == address), None)

    # Nodes

    def node(
        self, value: Any, path: Path, step: Path, base: str, depth: int, *, bool_allowed: bool = False
    ) -> Node:
        self.work.spend()
        if depth > DEEPEST_TYPE:
            raise too_deep(path)
        recent = self.draft >= Draft.V2019_09
        word = "dependentRequired" if recent else "dependencies"
        node = self.places[path] = Node(step, source=value, dependencies=word)
        if isinstance(value, bool):
            if self.draft < Draft.DRAFT_06 and not bool_allowed:
                fix = 'write {} for true and {"not": {}} for false, or use a later draft'
                raise SchemaError(path, "is no schema in draft-04", fix, value)
            node.types = node.types if value else frozenset()
        elif isinstance(value, dict):
            self._keywords(node, value, path, base, depth)
        else:
            raise SchemaError(path, "is no schema", "write an object, or true or false", value)
        return node

    def _keywords(self, node: Node, value: dict[str, Any], path: Path, base: str, depth: int) -> None:
        if path and "$schema" in value and named_draft(value["$schema"], (*path, "$schema")) != self.draft:
            fix = "write all of it in one draft"
            raise SchemaError((*path, "$schema"), "differs from that of the whole", fix, value["$schema"])
        alone = self.draft <= Draft.DRAFT_07 and "$ref" in value
        inside = _Inside(self, value, path, base if alone else self._identified(value, path, base), depth + 1)
        for key in ("definitions", "$defs") if self.draft >= Draft.V2019_09 else ("definitions",):
            inside.mapping(key)
        if "$ref" in value:
            inside.reference(node, "$ref")
        if alone:
            return
        self._dynamic_references(node, inside)
        node.types = keywords.types_of(value, path)
        node.values = keywords.values_of(value, path, self.draft)
        self._scalars(node, value, path)
        self._arrays(node, inside)
        self._objects(node, inside)
        self._combinations(node, inside)
        self._unevaluated(node, inside)

    def _identified(self, value: dict[str, Any], path: Path, base: str) -> str:
        """The address that references within a schema are relative to."""
        key = "$id" if self.draft >= Draft.DRAFT_06 else "id"
        name, fragment = _parted(keywords.text(value, key, path) or "", (*path, key))
        if self.draft <= Draft.DRAFT_07 and fragment and not name:
            self._anchor(base, fragment, path)
        elif fragment:
            raise SchemaError((*path, key), "has a fragment", "leave # and what follows out", value[key])
        if name:
            base = _joined(base, name, (*path, key))
            if self.resources.setdefault(base, path) != path:
                raise SchemaError(
                    (*path, key), "is the address of another schema here", "choose another", name
                )
        if not path:
            self.base = base
        if self.draft >= Draft.V2019_09 and (anchor := keywords.text(value, "$anchor", path)):
            self._anchor(base, anchor, path)
        if self.draft == Draft.V2020_12 and (anchor := keywords.text(value, "$dynamicAnchor", path)):
            self._anchor(base, anchor, path)
        if self.draft == Draft.V2019_09:
            keywords.flag(value, "$recursiveAnchor", path)
        return base

    def _anchor(self, base: str, name: str, path: Path) -> None:
        if self.anchors.setdefault((base, name), path) != path:
            raise SchemaError(path, f"has the anchor {name[:80]}, which is there already", "choose another")

    def _dynamic_references(self, node: Node, inside: _Inside) -> None:
        """Columns and comparisons take them for plain references; the validator resolves them dynamically."""
        key = {Draft.V2019_09: "$recursiveRef", Draft.V2020_12: "$dynamicRef"}.get(self.draft)
        if key is None or key not in inside.value:
            return
        holder = Node((key,))
        inside.reference(holder, key)
        node.all_of = (holder,)

    def _scalars(self, node: Node, value: dict[str, Any], path: Path) -> None:
        node.lower, node.upper = keywords.bounds_of(value, path, self.draft)
        node.multiples = keywords.multiples_of(value, path)
        node.min_length = keywords.count(value, "minLength", path) or 0
        node.max_length = keywords.count(value, "maxLength", path)
        node.pattern = keywords.text(value, "pattern", path)
        if node.pattern is not None:
            keywords.require_pattern(node.pattern, (*path, "pattern"))
        node.format = keywords.text(value, "format", path)

    def _arrays(self, node: Node, inside: _Inside) -> None:
        value, path = inside.value, inside.path
        node.min_items = keywords.count(value, "minItems", path) or 0
        node.max_items = keywords.count(value, "maxItems", path)
        node.unique = keywords.flag(value, "uniqueItems", path)
        if self.draft == Draft.V2020_12:
            if isinstance(value.get("items"), list):
                fix = "write prefixItems: so it is in 2020-12"
                raise SchemaError((*path, "items"), "is a list", fix, value["items"])
            node.prefix = inside.sequence("prefixItems")
            node.rest = inside.single("items")
        else:
            node.additional_items = inside.single("additionalItems", bool_allowed=True)
            if isinstance(value.get("items"), list):
                node.prefix = inside.sequence("items") if value["items"] else ()
                node.rest = node.additional_items
            else:
                node.rest = inside.single("items")
        if self.draft >= Draft.DRAFT_06:
            node.contains = inside.single("contains")
        if self.draft >= Draft.V2019_09 and node.contains is not None:
            keywords.count(value, "minContains", path)
            keywords.count(value, "maxContains", path)

    def _objects(self, node: Node, inside: _Inside) -> None:
        value, path = inside.value, inside.path
        node.min_properties = keywords.count(value, "minProperties", path) or 0
        node.max_properties = keywords.count(value, "maxProperties", path)
        if "required" in value:
            node.required = keywords.names(value["required"], (*path, "required"))
        node.properties = inside.mapping("properties")
        node.pattern_properties = inside.mapping("patternProperties")
        for pattern in node.pattern_properties:
            keywords.require_pattern(pattern, (*path, "patternProperties", pattern))
        node.additional = inside.single("additionalProperties", bool_allowed=True)
        if self.draft >= Draft.DRAFT_06:
            node.names = inside.single("propertyNames")
        if self.draft >= Draft.V2019_09:
            for name, each in keywords.mapping(value, "dependentRequired", path).items():
                node.dependent_required[name] = keywords.names(each, (*path, "dependentRequired", name))
            node.dependent = inside.mapping("dependentSchemas")
            return
        for name, each in keywords.mapping(value, "dependencies", path).items():
            place = ("dependencies", name)
            if isinstance(each, list):
                node.dependent_required[name] = keywords.names(each, (*path, *place))
            else:
                node.dependent[name] = inside.at(each, place)

    def _combinations(self, node: Node, inside: _Inside) -> None:
        node.all_of += inside.sequence("allOf")
        node.any_of = inside.sequence("anyOf")
        node.one_of = inside.sequence("oneOf")
        node.negated = inside.single("not")
        if self.draft >= Draft.DRAFT_07 and "if" in inside.value:
            then, otherwise = inside.single("then"), inside.single("else")
            # Alone, `if` only marks what it has checked, and only later drafts use that.
            if self.draft >= Draft.V2019_09 or then is not None or otherwise is not None:
                node.condition, node.then, node.otherwise = inside.single("if"), then, otherwise

    def _unevaluated(self, node: Node, inside: _Inside) -> None:
        """Without keywords that check the same value, `unevaluated…` means the same as `additional…`."""
        if self.draft < Draft.V2019_09:
            return
        items, properties = inside.single("unevaluatedItems"), inside.single("unevaluatedProperties")
        contains = self.draft == Draft.V2020_12 and node.contains is not None
        if contains or any(key in inside.value for key in _IN_PLACE):
            node.unevaluated_items, node.unevaluated_properties = items, properties
        else:
            node.rest = items if node.rest is None else node.rest
            node.additional = properties if node.additional is None else node.additional


def place_of(fragment: str, document: Any, around: Path) -> Path | None:
    """The place that a JSON pointer names, relative to the schema at `around`; None if there is no such place.

    >>> place_of("/definitions/a~1b/0", {"definitions": {"a/b": [True]}}, ())
    ('definitions', 'a/b', 0)
    """
    value = document
    for step in around:
        value = value[step]
    place: list[Step] = list(around)
    for part in fragment.split("/")[1:]:
        name: Step = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list):
            is_index = part.isascii() and part.isdigit() and len(part) < 7
            if not is_index or int(part) >= len(value):
                return None
            name = int(part)
        elif not isinstance(value, dict) or name not in value:
            return None
        value = value[name]
        place.append(name)
    return tuple(place)


def _parted(address: str, path: Path) -> tuple[str, str]:
    """An address without fragment, and the fragment."""
    try:
        name, fragment = urldefrag(address)
    except ValueError:
        raise _no_address(address, path) from None
    return name, fragment


def _joined(base: str, name: str, path: Path) -> str:
    try:
        return urljoin(base, name) if name else base
    except ValueError:
        raise _no_address(name, path) from None


def _no_address(address: str, path: Path) -> SchemaError:
    return SchemaError(
        path, "is no address", "write one as in https://example.com/ride.json, or a name", address
    )


@dataclass
class _Inside:
    """The schemas directly within one."""

    document: Document
    value: dict[str, Any]
    path: Path
    base: str
    depth: int

    def at(self, value: Any, step: Path, *, bool_allowed: bool = False) -> Node:
        place = (*self.path, *step)
        return self.document.node(value, place, step, self.base, self.depth, bool_allowed=bool_allowed)

    def single(self, key: str, *, bool_allowed: bool = False) -> Node | None:
        return self.at(self.value[key], (key,), bool_allowed=bool_allowed) if key in self.value else None

    def sequence(self, key: str) -> tuple[Node, ...]:
        found = keywords.sequence(self.value, key, self.path) if key in self.value else []
        return tuple(self.at(each, (key, index)) for index, each in enumerate(found))

    def mapping(self, key: str) -> dict[str, Node]:
        found = keywords.mapping(self.value, key, self.path)
        return {name: self.at(each, (key, name)) for name, each in found.items()}

    def reference(self, holder: Node, key: str) -> None:
        name = keywords.text(self.value, key, self.path)
        if name is not None:
            self.document.pending.append(_Pending(holder, name, self.base, (*self.path, key)))
