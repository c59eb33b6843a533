"""Random Avro schemas for Hypothesis: alone, as pairs of which one was made of the other, and broken ones."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st

from latecomer.schemas.avro import SchemaError, schema_of
from latecomer.schemas.avro.types import PRIMITIVES

SPACES = ("", "", "a", "b.c")
TYPE_NAMES = ("Ride", "Fare", "City", "Stop")
FIELD_NAMES = ("id", "at", "fare", "city", "note", "tip")
SYMBOLS = ("CASH", "CARD", "UPI", "FREE")
LOGICAL = (
    {},
    {},
    {},
    {"logicalType": "date"},
    {"logicalType": "timestamp-millis"},
    {"logicalType": "nonsense"},
)
Json = Any
Draw = st.DrawFn
Change = Callable[[Draw, Json], None]


class _Maker:
    """Makes one schema. Names are defined once and used after."""

    def __init__(self, draw: Draw) -> None:
        self.draw, self.defined, self.open = draw, dict[str, Json](), list[str]()

    def any_type(self, depth: int, space: str, *, in_union: bool = False) -> Json:
        kinds = ["primitive", "primitive", "enum", "fixed", "reference"]
        if depth:
            kinds += ["record", "record", "array", "map"] + ([] if in_union else ["union", "union"])
        match self.draw(st.sampled_from(kinds)):
            case "record":
                return self.record(depth, space)
            case "array":
                return {"type": "array", "items": self.any_type(depth - 1, space)}
            case "map":
                return {"type": "map", "values": self.any_type(depth - 1, space)}
            case "union":
                return self.union(depth - 1, space)
            case "enum":
                symbols = self.draw(st.lists(st.sampled_from(SYMBOLS), min_size=1, max_size=4, unique=True))
                default = {"default": symbols[0]} if self.draw(st.booleans()) else {}
                return self.named({"type": "enum", "symbols": symbols, **default}, space)
            case "fixed":
                return self.named({"type": "fixed", "size": self.draw(st.integers(0, 3))}, space)
            case "reference" if self.known(space):
                return self.draw(st.sampled_from(self.known(space)))
        kind, logical = self.draw(st.sampled_from(PRIMITIVES)), self.draw(st.sampled_from(LOGICAL))
        return {"type": kind, **logical} if logical or self.draw(st.booleans()) else kind

    def known(self, space: str) -> list[str]:
        """The names that can be used within a namespace."""
        names = [name for name in (*self.defined, *self.open) if "." in name or not space]
        near = [name.rpartition(".")[2] for name in names if space and name.rpartition(".")[0] == space]
        return [*names, *near]

    def named(self, body: Json, space: str) -> Json:
        """A definition; where no name is left, a primitive."""
        choices = [
            (name, at)
            for name in TYPE_NAMES
            for at in SPACES
            if _full(name, at) not in self.defined and _full(name, at) not in self.open
        ]
        if not choices:
            return "string"
        name, at = self.draw(st.sampled_from(choices))
        full = _full(name, at)
        if body["type"] == "record":
            self.open.append(full)
            body["fields"] = body["fields"](at)
            self.open.remove(full)
        self.defined[full] = body
        head = {"name": full} if at and self.draw(st.booleans()) else {"name": name, "namespace": at}
        return {"type": body["type"], **head, **self.about(), **body}

    def about(self) -> Json:
        doc = self.draw(
            st.sampled_from([{}, {}, {"doc": 'a "ride"\n€'}, {"x-owner": {"b": [1, 1.0], "a": True}}])
        )
        aliases = self.draw(st.lists(st.sampled_from(("Old", "a.Trip", "b.c.Fare")), max_size=2, unique=True))
        return doc | ({"aliases": aliases} if aliases else {})

    def record(self, depth: int, space: str) -> Json:
        def fields(at: str) -> Json:
            names = self.draw(st.lists(st.sampled_from(FIELD_NAMES), max_size=4, unique=True))
            return [self.field(name, depth - 1, at) for name in names]

        return self.named({"type": "record", "fields": fields}, space)

    def field(self, name: str, depth: int, space: str) -> Json:
        found = {"name": name, "type": self.any_type(depth, space)}
        default = self.default_of(found["type"])
        if default is not None and self.draw(st.booleans()):
            found["default"] = default[0]
        if self.draw(st.integers(0, 4)) == 0:
            found["aliases"] = [self.draw(st.sampled_from(("old", "older", "tip")))]
        if self.draw(st.integers(0, 9)) == 0:
            found["order"] = self.draw(st.sampled_from(("ascending", "descending", "ignore")))
        return found

    def default_of(self, found: Json) -> tuple[Json] | None:
        """A default that fits, where one is easily found; in a union, mostly that of its first branch."""
        if isinstance(found, list):
            fitting = [each for each in map(self.default_of, found) if each is not None]
            return fitting[0] if fitting else None
        kind = found["type"] if isinstance(found, dict) else found
        simple = {
            "null": None, "boolean": True, "int": 7, "long": 2**40, "float": 1.5, "double": 2, "bytes": "ÿ",
            "string": "é", "array": [], "map": {},
        }  # fmt: skip
        if kind in simple:
            return (simple[kind],)
        body = found if isinstance(found, dict) else self.defined.get(found)
        if body is None:
            return None
        if body["type"] == "enum":
            return (body["symbols"][-1],)
        return ("x" * body["size"],) if body["type"] == "fixed" else None

    def union(self, depth: int, space: str) -> Json:
        branches: list[Json] = []
        taken = set[str]()
        for _ in range(self.draw(st.integers(0, 4))):
            branch = self.any_type(depth, space, in_union=True)
            if (key := _branch(branch)) not in taken:
                taken.add(key)
                branches.append(branch)
            elif isinstance(branch, dict):
                for name in list(self.defined):  # what was defined within it is not there
                    if name not in str(branches):
                        self.defined.pop(name)
        return branches


def _full(name: str, space: str) -> str:
    return f"{space}.{name}" if space else name


def _branch(found: Json) -> str:
    if not isinstance(found, dict) or "name" not in found:
        return found["type"] if isinstance(found, dict) else found
    return found["name"] if "." in found["name"] else _full(found["name"], found.get("namespace", ""))


def parses(schema: Json) -> bool:
    try:
        schema_of(schema)
    except SchemaError:
        return False
    return True


@st.composite
def schemas(draw: Draw) -> Json:
    """A schema as JSON, of any kind; records most of all."""
    maker = _Maker(draw)
    if draw(st.integers(0, 5)):
        found = maker.record(draw(st.integers(1, 3)), "")
    else:
        found = maker.any_type(draw(st.integers(0, 3)), "")
    return found if parses(found) else draw(st.sampled_from(PRIMITIVES))


# One schema made of another


def places(schema: Json) -> Iterator[tuple[Json, Any]]:
    """Every place at which a type stands: what holds it, and the key or index there."""
    holder = {"root": schema}
    left: list[tuple[Json, Any]] = [(holder, "root")]
    while left:
        inside, key = left.pop()
        yield inside, key
        found = inside[key]
        if isinstance(found, list):
            left.extend((found, index) for index in range(len(found)))
        elif isinstance(found, dict):
            left.extend((found, name) for name in ("items", "values") if name in found)
            left.extend((each, "type") for each in found.get("fields", []))


def _typed(schema: Json, *kinds: str) -> list[Json]:
    found = [inside[key] for inside, key in places(schema)]
    return [each for each in found if isinstance(each, dict) and each.get("type") in kinds]


def _change_type(draw: Draw, schema: Json) -> None:
    inside, key = draw(st.sampled_from(list(places(schema))[1:]))
    inside[key] = draw(st.sampled_from(PRIMITIVES))


def _promote(draw: Draw, schema: Json) -> None:
    wider = {"int": "long", "long": "float", "float": "double", "string": "bytes", "bytes": "string"}
    inside, key = draw(st.sampled_from([each for each in places(schema) if str(each[0][each[1]]) in wider]))
    inside[key] = wider[inside[key]]


def _wrap(draw: Draw, schema: Json) -> None:
    inside, key = draw(st.sampled_from(list(places(schema))[1:]))
    found = inside[key]
    if isinstance(found, list):
        found.insert(draw(st.integers(0, len(found))), draw(st.sampled_from(PRIMITIVES)))
    else:
        inside[key] = draw(st.sampled_from([["null", found], [found], [found, "null"]]))


def _unwrap(draw: Draw, schema: Json) -> None:
    unions = [each for each in places(schema) if isinstance(each[0][each[1]], list) and each[0][each[1]]]
    inside, key = draw(st.sampled_from(unions))
    if draw(st.booleans()):
        inside[key] = draw(st.sampled_from(inside[key]))
    else:
        inside[key].pop(draw(st.integers(0, len(inside[key]) - 1)))


def _add_field(draw: Draw, schema: Json) -> None:
    record = draw(st.sampled_from(_typed(schema, "record")))
    found = {
        "name": draw(st.sampled_from(("new", *FIELD_NAMES))),
        "type": draw(st.sampled_from(("int", "string"))),
    }
    if draw(st.booleans()):
        found["default"] = 0 if found["type"] == "int" else ""
    record["fields"].insert(draw(st.integers(0, len(record["fields"]))), found)


def _fields(schema: Json) -> list[tuple[Json, Json]]:
    return [(record, each) for record in _typed(schema, "record") for each in record["fields"]]


def _remove_field(draw: Draw, schema: Json) -> None:
    record, field = draw(st.sampled_from(_fields(schema)))
    record["fields"].remove(field)


def _rename_field(draw: Draw, schema: Json) -> None:
    _, field = draw(st.sampled_from(_fields(schema)))
    if draw(st.booleans()):
        field["aliases"] = [*field.get("aliases", []), field["name"]]
    field["name"] = draw(st.sampled_from(("renamed", *FIELD_NAMES)))


def _change_default(draw: Draw, schema: Json) -> None:
    _, field = draw(st.sampled_from(_fields(schema)))
    if "default" in field:
        del field["default"]
    else:
        field["default"] = draw(st.sampled_from((None, 0, "", [], {}, True, 1.5)))


def _change_enum(draw: Draw, schema: Json) -> None:
    enum = draw(st.sampled_from(_typed(schema, "enum")))
    enum["symbols"] = draw(st.lists(st.sampled_from(SYMBOLS), min_size=1, unique=True))
    enum.pop("default", None)
    if draw(st.booleans()):
        enum["default"] = enum["symbols"][0]


def _change_size(draw: Draw, schema: Json) -> None:
    draw(st.sampled_from(_typed(schema, "fixed")))["size"] = draw(st.integers(0, 4))


def _rename_type(draw: Draw, schema: Json) -> None:
    named = draw(st.sampled_from(_typed(schema, "record", "enum", "fixed")))
    before = _branch(named)
    simple = before.rpartition(".")[2]
    after = _full(draw(st.sampled_from((simple, "Trip", "Old"))), draw(st.sampled_from(SPACES)))
    if draw(st.booleans()):
        named["aliases"] = [before]
    named["name"] = after
    if "." in after:
        named.pop("namespace", None)
    else:
        named["namespace"] = ""
    for inside, key in places(schema):
        if inside[key] in (before, simple):
            inside[key] = after


def _reorder(draw: Draw, schema: Json) -> None:
    record = draw(st.sampled_from(_typed(schema, "record")))
    record["fields"] = draw(st.permutations(record["fields"]))


CHANGES: tuple[Change, ...] = (
    _add_field, _change_default, _change_enum, _change_size, _change_type, _promote, _remove_field, _rename_field,
    _rename_type, _rename_type, _reorder, _unwrap, _wrap,
)  # fmt: skip


@st.composite
def changed(draw: Draw, schema: Json) -> Json:
    """A schema after some changes, each of which leaves it a schema."""
    for _ in range(draw(st.integers(1, 4))):
        applicable = [each for each in CHANGES if any(_applies(each, schema))]
        if not applicable:
            break
        tried = copy.deepcopy(schema)
        draw(st.sampled_from(applicable))(draw, tried)
        schema = tried if parses(tried) else schema
    return schema


def _applies(change: Change, schema: Json) -> Iterator[Any]:
    """What a change can be made to."""
    match change.__name__:
        case "_add_field" | "_reorder":
            yield from _typed(schema, "record")
        case "_remove_field" | "_rename_field" | "_change_default":
            yield from _fields(schema)
        case "_change_enum":
            yield from _typed(schema, "enum")
        case "_change_size":
            yield from _typed(schema, "fixed")
        case "_rename_type":
            yield from _typed(schema, "record", "enum", "fixed")
        case "_promote":
            kinds = ("int", "long", "float", "string", "bytes")
            yield from (inside for inside, key in places(schema) if str(inside[key]) in kinds)
        case "_unwrap":
            yield from (
                inside[key] for inside, key in places(schema) if isinstance(inside[key], list) and inside[key]
            )
        case _:
            yield from list(places(schema))[1:]


@st.composite
def pairs(draw: Draw) -> tuple[Json, Json]:
    """Two schemas: most are related, some are not."""
    first = draw(schemas())
    second = draw(changed(first)) if draw(st.integers(0, 9)) else draw(schemas())
    return (first, second) if draw(st.booleans()) else (second, first)


# Broken ones

JUNK = (
    None,
    True,
    0,
    -1,
    1.5,
    2**70,
    "",
    "x y",
    "int",
    "1a",
    "a..b",
    ".A",
    "A.",
    [],
    ["int"],
    {},
    {"type": "int"},
)


@st.composite
def broken(draw: Draw) -> Json:
    """A schema in which something was taken out, put in or replaced, anywhere."""
    holder = {"root": copy.deepcopy(draw(schemas()))}
    for _ in range(draw(st.integers(1, 2))):
        spots = list(_spots(holder))[1:]
        if not spots:
            break
        inside, key = draw(st.sampled_from(spots))
        match draw(st.sampled_from(("replace", "remove", "repeat"))):
            case "remove":
                del inside[key]
            case "repeat" if isinstance(inside, list):
                inside.append(copy.deepcopy(inside[key]))
            case _:
                inside[key] = copy.deepcopy(draw(st.sampled_from(JUNK)))
    return holder["root"]


def _spots(value: Json) -> Iterator[tuple[Json, Any]]:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _spots(value[key])


def _record(name: str, *fields: tuple[str, Json]) -> Json:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": each, "type": found} for each, found in fields],
    }


MISLEADING = (
    _record(
        "Top",
        (
            "x",
            [_record("n.A", ("q", _record("n.Q", ("back", ["null", "n.A"]))), ("n", "int")), _record("m.A")],
        ),
        ("y", "n.Q"),
    ),
    _record("Top", ("x", _record("w.A", ("q", _record("w.Q", ("back", ["null", "w.A"]))))), ("y", "w.Q")),
)
"""A reader and a writer. `n.A` cannot read `w.A`, for want of `n`; for `x` there is another branch, for `y` none."""
