"""Why Confluent's registry would refuse a change to a JSON Schema.

Confluent compares two schemas part by part, names each difference, and has a list of names that are compatible. So it
refuses changes that break nobody, and allows some that do. This module reports the differences that its policy STRICT
refuses, by their names there. LENIENT allows some of them.

A pair of schemas is compared as if all pairs within it were compatible. If one of them turns out not to be, the pairs
that contain it are compared again. So recursive schemas need no special rule and no deep stack.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from latecomer.schemas.jsonschema.kinds import (
    COMBINED,
    Content,
    Shape,
    Shapes,
    every_item,
    is_false,
    other_items,
    other_properties,
)
from latecomer.schemas.jsonschema.nodes import Node, normal_text
from latecomer.schemas.jsonschema.parsing import Schema
from latecomer.schemas.jsonschema.patterns import matches
from latecomer.schemas.jsonschema.rules import changed_keywords, changed_type, problem
from latecomer.schemas.mistakes import Incompatibility, Path, StepLimit, listed

LENIENT = frozenset(
    (
        "ADDITIONAL_PROPERTIES_NARROWED",
        "ADDITIONAL_PROPERTIES_REMOVED",
        "UNEVALUATED_PROPERTIES_NARROWED",
        "UNEVALUATED_PROPERTIES_REMOVED",
        "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL",
        "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
        "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    )
)
"""The differences that LENIENT allows: it assumes that readers ignore properties that they do not know."""
_Pair = tuple[Shape, Shape]
"""The writer's part and the reader's."""


def changes(reader: Schema, writer: Schema, *, lenient: bool = False) -> list[Incompatibility]:
    """Why Confluent's registry would refuse to read the writer's data with the reader's schema; empty if it would not.

    >>> from latecomer.schemas.jsonschema.parsing import parse_schema
    >>> for each in changes(parse_schema('{"type": "integer"}'), parse_schema('{"type": "number"}')):
    ...     print(each)
    the schema: number is written, and integer is read (TYPE_NARROWED); read number
    """
    return _Changes(LENIENT if lenient else frozenset()).between(reader.root, writer.root)


@dataclass(frozen=True)
class _Needed:
    """A pair that another pair needs, and the path to it."""

    path: Path
    pair: _Pair


_Parts = Iterator[Incompatibility | _Needed]


@dataclass
class _Result:
    """The result for a pair so far."""

    parts: list[Incompatibility | _Needed] = field(default_factory=list)
    is_refuted: bool = False
    needed_by: dict[_Pair, None] = field(default_factory=dict)


class _Changes:
    def __init__(self, taken: frozenset[str]) -> None:
        self.taken = taken
        self.work = StepLimit("compare with another schema")
        self.shapes = Shapes()
        self.results: dict[_Pair, _Result] = {}
        self.queue: deque[_Pair] = deque()
        self.waiting: set[_Pair] = set()
        self.current: _Pair | None = None
        self.unlike: dict[Shape, list[Node | Shape]] = {}

    def between(self, reader: Node, writer: Node) -> list[Incompatibility]:
        root = self._pair(writer, reader)
        self._need(root)
        while self.queue:
            pair = self.queue.popleft()
            self.waiting.remove(pair)
            self._compare(pair)
        return list(dict.fromkeys(self._reported(root)))

    # Pairs

    def _pair(self, writer: Node | Shape, reader: Node | Shape) -> _Pair:
        return self.shapes.of(writer), self.shapes.of(reader)

    def _need(self, pair: _Pair) -> _Result:
        self.work.spend()
        if pair not in self.results:
            self.work.spend(5)
            self.results[pair] = _Result()
            self._queue(pair)
        if self.current is not None:
            self.results[pair].needed_by[self.current] = None
        return self.results[pair]

    def _queue(self, pair: _Pair) -> None:
        """Queue a pair at the end: after the pairs within it, so that it is compared again only once."""
        if pair not in self.waiting:
            self.waiting.add(pair)
            self.queue.append(pair)

    def _fits(self, writer: Node | Shape, reader: Node | Shape) -> bool:
        return not self._need(self._pair(writer, reader)).is_refuted

    def _compare(self, pair: _Pair) -> None:
        result = self.results[pair]
        if result.is_refuted:
            return
        self.current = pair
        result.parts = [each for each in self._differences(*pair) if self._counts(each)]
        if any(
            isinstance(each, Incompatibility) or self.results[each.pair].is_refuted for each in result.parts
        ):
            result.is_refuted = True
            for each in result.needed_by:
                self._queue(each)

    def _counts(self, part: Incompatibility | _Needed) -> bool:
        if isinstance(part, Incompatibility):
            return part.rule not in self.taken
        self._need(part.pair)
        return True

    def _reported(self, root: _Pair) -> Iterator[Incompatibility]:
        """The problems of a pair and of all pairs that it needs, each once."""
        pending, seen = [_Needed((), root)], {root}
        while pending:
            needed = pending.pop()
            result, inner = self.results[needed.pair], []
            for part in result.parts if result.is_refuted else ():
                path = (*needed.path, *part.path)
                if isinstance(part, Incompatibility):
                    yield replace(part, path=path)
                elif part.pair not in seen:
                    seen.add(part.pair)
                    inner.append(_Needed(path, part.pair))
            pending.extend(reversed(inner))

    def _needed(self, path: Path, writer: Node, reader: Node) -> _Needed:
        return _Needed(path, self._pair(writer, reader))

    # What is compared

    def _differences(self, writer: Shape, reader: Shape) -> _Parts:
        if self._is_covered(writer, reader):
            return
        if writer.kind != reader.kind and not {writer.kind, reader.kind} <= set(COMBINED):
            connect = writer.words.get("connect.type"), reader.words.get("connect.type")
            if writer.kind != "nothing" and reader.kind != "anything" and connect != ("bytes", "bytes"):
                yield changed_type("TYPE_CHANGED", writer, reader)
            return
        yield from changed_keywords(writer, reader)
        match writer.kind:
            case "not":
                yield from self._negated(writer.node, reader.node)
            case "array":
                yield from self._arrays(writer.node, reader.node)
            case "object":
                yield from self._objects(writer.node, reader.node)
            case kind if kind in COMBINED:
                yield from self._combined(writer, reader)

    def _is_covered(self, writer: Shape, reader: Shape) -> bool:
        """Whether only one is a combination, and a part of it is compatible with the other."""
        if (writer.kind in COMBINED) == (reader.kind in COMBINED):
            return False
        fitting: list[bool] = []
        if reader.kind in COMBINED:
            if len(reader.parts) == 1 or reader.kind != "allOf":
                fitting = [self._fits(writer, each) for each in reader.parts]
        elif len(writer.parts) == 1 or writer.kind == "allOf":
            fitting = [self._fits(each, reader) for each in writer.parts]
        return any(fitting)

    def _negated(self, writer: Node, reader: Node) -> _Parts:
        if writer.negated and reader.negated and not self._fits(reader.negated, writer.negated):
            yield problem(("not",), "NOT_TYPE_EXTENDED")

    # Objects

    def _objects(self, writer: Node, reader: Node) -> _Parts:
        for name, read in reader.properties.items():
            newly = name in writer.properties and name in reader.required - writer.required
            if newly and not _has_default(read):
                yield problem(("required", name), "REQUIRED_ATTRIBUTE_ADDED", what=name)
        for name in dict.fromkeys((*writer.properties, *reader.properties)):
            yield from self._property(name, writer, reader)
        yield from self._dependencies(writer, reader)
        old, new = other_properties(writer), other_properties(reader)
        yield from self._additional("additionalProperties", "ADDITIONAL_PROPERTIES", old, new)
        yield from self._unevaluated("unevaluatedProperties", "UNEVALUATED_PROPERTIES", old, new)

    def _property(self, name: str, writer: Node, reader: Node) -> _Parts:
        path = ("properties", name)
        written, read = writer.properties.get(name), reader.properties.get(name)
        if written is not None and read is not None:
            yield self._needed(path, written, read)
        elif written is not None:
            if reader.pattern_properties or not other_properties(reader).is_open:
                yield from self._removed("PROPERTY", path, written, self._other_property(name, reader))
        elif read is not None:
            lacks_default = name in reader.required and not _has_default(read)
            if writer.pattern_properties or not other_properties(writer).is_open:
                yield from self._covered("PROPERTY", path, self._other_property(name, writer), read)
                if lacks_default:
                    yield problem(path, "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", what=name)
            elif not self._is_anything(read):
                stem = "REQUIRED_PROPERTY" if name in reader.required else "OPTIONAL_PROPERTY"
                with_default = "_WITH_DEFAULT" if name in reader.required and not lacks_default else ""
                yield problem(path, f"{stem}{with_default}_ADDED_TO_OPEN_CONTENT_MODEL", what=name)

    def _other_property(self, name: str, node: Node) -> Node | None:
        """The schema of a property that a schema does not name, if it has one."""
        for pattern, inner in node.pattern_properties.items():
            if matches(pattern, name):
                return inner
        return other_properties(node).other

    def _dependencies(self, writer: Node, reader: Node) -> _Parts:
        for name, needed in reader.dependent_required.items():
            before = writer.dependent_required.get(name) or frozenset()
            if more := sorted(needed - before):
                change = "ADDED" if not before else "EXTENDED" if before <= needed else "CHANGED"
                path = ("dependencies", name)
                yield problem(path, f"DEPENDENCY_ARRAY_{change}", more=listed(more), what=name)
        for name, read in reader.dependent.items():
            written = writer.dependent.get(name)
            if written is None:
                yield problem(("dependencies", name), "DEPENDENCY_SCHEMA_ADDED", what=name)
            else:
                yield self._needed(("dependencies", name), written, read)

    # Arrays

    def _arrays(self, writer: Node, reader: Node) -> _Parts:
        every, every_read = every_item(writer), every_item(reader)
        if every is not None and every_read is not None:
            yield self._needed(("items",), every, every_read)
        elif every_read is not None:
            yield problem(("items",), "SCHEMA_ADDED", word="items")
        old, new = other_items(writer), other_items(reader)
        for index in range(max(len(writer.prefix), len(reader.prefix))):
            path: Path = ("items", index)
            if index >= len(reader.prefix):
                if not new.is_open:
                    yield from self._removed("ITEM", path, writer.prefix[index], new.other)
            elif index < len(writer.prefix):
                yield self._needed(path, writer.prefix[index], reader.prefix[index])
            elif not old.is_open:
                yield from self._covered("ITEM", path, old.other, reader.prefix[index])
            elif not self._is_anything(reader.prefix[index]):
                yield problem(path, "ITEM_ADDED_TO_OPEN_CONTENT_MODEL", what=f"item {index}")
        yield from self._additional("additionalItems", "ADDITIONAL_ITEMS", old, new)
        yield from self._unevaluated("unevaluatedItems", "UNEVALUATED_ITEMS", old, new)
        if reader.unique and not writer.unique:
            yield problem(("uniqueItems",), "UNIQUE_ITEMS_ADDED", word="uniqueItems")

    # Properties and items that only one schema describes

    def _removed(self, stem: str, path: Path, written: Node, other: Node | None) -> _Parts:
        what = path[-1]
        if other is not None:
            yield self._needed(path, written, other)
            if not self._fits(written, other):
                yield problem(path, f"{stem}_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", what=what)
        elif not is_false(written):
            yield problem(path, f"{stem}_REMOVED_FROM_CLOSED_CONTENT_MODEL", what=what)

    def _covered(self, stem: str, path: Path, other: Node | None, read: Node) -> _Parts:
        if other is not None:
            yield self._needed(path, other, read)
            if not self._fits(other, read):
                rule = f"{stem}_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
                yield problem(path, rule, what=path[-1])

    def _additional(self, keyword: str, stem: str, writer: Content, reader: Content) -> _Parts:
        if writer.is_closed:
            return
        if reader.is_closed:
            yield problem((keyword,), f"{stem}_REMOVED", word=keyword)
        elif writer.schema is not None and reader.schema is not None:
            yield self._needed((keyword,), writer.schema, reader.schema)
        elif reader.schema is not None:
            yield problem((keyword,), f"{stem}_NARROWED", word=keyword)

    def _unevaluated(self, keyword: str, stem: str, writer: Content, reader: Content) -> _Parts:
        written, read = writer.unevaluated, reader.unevaluated
        if read is None or is_false(written):
            return
        if is_false(read):
            yield problem((keyword,), f"{stem}_REMOVED", word=keyword)
        elif written is None or (self._is_anything(written) and not self._is_anything(read)):
            yield problem((keyword,), f"{stem}_NARROWED", word=keyword)
        elif not self._is_anything(read):
            yield self._needed((keyword,), written, read)

    def _is_anything(self, node: Node) -> bool:
        return self.shapes.of(node).kind == "anything"

    # Combinations

    def _combined(self, writer: Shape, reader: Shape) -> _Parts:
        alone, alone_read = len(writer.parts) == 1, len(reader.parts) == 1
        allowed = (
            writer.kind == reader.kind
            or reader.kind == "anyOf"
            or (alone and (alone_read or reader.kind == "oneOf"))
            or (alone_read and writer.kind == "allOf")
        )
        if not allowed:
            yield problem((), "COMBINED_TYPE_CHANGED", written=writer.kind, read=reader.kind)
            return
        written, read = self._unlike(writer), self._unlike(reader)
        counts = {"written": len(written), "read": len(read)}
        if len(written) < len(read) and reader.kind == "allOf":
            yield problem((), "PRODUCT_TYPE_EXTENDED", **counts)
        if len(written) > len(read) and writer.kind != "allOf":
            yield problem((), "SUM_TYPE_NARROWED", **counts)
        if self._matched(written, read) < min(counts.values()):
            yield problem((), "COMBINED_TYPE_SUBSCHEMAS_CHANGED")

    def _unlike(self, shape: Shape) -> list[Node | Shape]:
        """The different parts of a combination, by their text."""
        if shape not in self.unlike:
            parts = shape.parts
            texts = [normal_text(each.source) if isinstance(each, Node) else each.name for each in parts]
            self.unlike[shape] = list(dict(zip(texts, parts, strict=True)).values())
        return self.unlike[shape]

    def _matched(self, written: Sequence[Node | Shape], read: Sequence[Node | Shape]) -> int:
        """The largest number of pairs of a writer and a reader that fit, each used once."""
        fits = [[index for index, other in enumerate(read) if self._fits(each, other)] for each in written]
        writer_of: dict[int, int] = {}
        for start in range(len(written)):
            came_from, pending = dict[int, int](), [start]
            while pending:
                self.work.spend()
                writer = pending.pop(0)
                new = [index for index in fits[writer] if index not in came_from]
                came_from |= dict.fromkeys(new, writer)
                free = next((index for index in new if index not in writer_of), None)
                if free is not None:
                    _move_up(writer_of, came_from, free)
                    break
                pending += [writer_of[index] for index in new]
        return len(writer_of)


def _move_up(writer_of: dict[int, int], came_from: Mapping[int, int], free: int) -> None:
    """Give the free reader to the writer that found it, and the former reader of this writer to the one before it …"""
    reader_of = {writer: reader for reader, writer in writer_of.items()}
    taken: int | None = free
    while taken is not None:
        writer = writer_of[taken] = came_from[taken]
        taken = reader_of.get(writer)


def _has_default(node: Node) -> bool:
    return isinstance(node.source, dict) and node.source.get("default") is not None
