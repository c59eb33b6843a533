"""Random JSON Schemas, changes to them, and values for them, all from a small vocabulary so that near misses are many.

Everything comes from a `random.Random`, so a seed says which schemas and values were meant. The `jsonschema` library is
the judge.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from jsonschema import (
    Draft4Validator,
    Draft6Validator,
    Draft7Validator,
    Draft201909Validator,
    Draft202012Validator,
)

from latecomer.schemas.jsonschema import SchemaError, schema_of

Json = Any
NAMES = ("a", "b", "c", "x1")
TEXTS = ("", "a", "b", "ab", "abc", "x1", "é")
NUMBERS = (-2, -1, 0, 1, 2, 3, 1.0, 2.5, 0.5, 10)
COUNTS = (0, 1, 2, 3)
PATTERNS = ("^a", "b$", "^x[0-9]$", "^[ab]*$")
FORMATS = ("date", "email")
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
DRAFTS = {
    "http://json-schema.org/draft-04/schema#": Draft4Validator,
    "http://json-schema.org/draft-06/schema#": Draft6Validator,
    "http://json-schema.org/draft-07/schema#": Draft7Validator,
    "https://json-schema.org/draft/2019-09/schema": Draft201909Validator,
    "https://json-schema.org/draft/2020-12/schema": Draft202012Validator,
}
D4, D6, D7, D2019, D2020 = DRAFTS


def judge(schema: Json) -> Any:
    """The library's validator of a schema."""
    draft = schema.get("$schema", D7) if isinstance(schema, dict) else D7
    return DRAFTS[draft](schema)


# Schemas


def whole_schema(rng: Random, draft: str = D7) -> Json:
    """A schema that may refer to a definition, which may refer to itself."""
    found = schema(rng, 3, draft)
    found = found if isinstance(found, dict) else {}
    inner = schema(rng, 2, draft, may_refer=False)
    if rng.random() < 0.5:
        inner = {"type": "object", "properties": {"a": schema(rng, 1, draft, may_refer=False)}}
        inner["properties"]["b"] = {"$ref": "#/definitions/d"}
    return {**found, "$schema": draft, "definitions": {"d": inner if inner is not True else {}}}


def schema(rng: Random, depth: int, draft: str, *, may_refer: bool = True) -> Json:
    makers: list[Callable[..., Json]] = [_scalar, _scalar, _values, _soup]
    if depth > 0:
        makers += [_object, _object, _object, _array, _array, _combination, _combination]
    if may_refer and rng.random() < 0.1:
        return {"$ref": "#/definitions/d"}
    if rng.random() < 0.04:
        return {} if draft == D4 else rng.choice((True, False, {}))
    return rng.choice(makers)(rng, depth - 1, draft, may_refer)


def _scalar(rng: Random, depth: int, draft: str, may_refer: bool) -> Json:
    kind = rng.choice(TYPES[:5])
    found: Json = {"type": kind}
    if rng.random() < 0.15:
        found["type"] = rng.sample(TYPES, 2)
    if kind in ("integer", "number"):
        _add(rng, found, _NUMBERS, draft)
    if kind == "string":
        _add(rng, found, _TEXTS, draft)
    return found


def _values(rng: Random, depth: int, draft: str, may_refer: bool) -> Json:
    pool = (*TEXTS, *NUMBERS, None, True, False, [], [1], {"a": 1})
    return {"enum": _distinct([rng.choice(pool) for _ in range(rng.randint(1, 4))])}


def _distinct(values: list[Json]) -> list[Json]:
    """The library's own schema of schemas wants them so."""
    return [each for index, each in enumerate(values) if repr(each) not in map(repr, values[:index])]


def _soup(rng: Random, depth: int, draft: str, may_refer: bool) -> Json:
    """Keywords of any type, without one."""
    found: Json = {}
    for pool in (_NUMBERS, _TEXTS, _ARRAYS, _OBJECTS):
        if rng.random() < 0.4:
            _add(rng, found, pool, draft)
    return found


_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_TEXTS = ("minLength", "maxLength", "pattern", "format")
_ARRAYS = ("minItems", "maxItems", "uniqueItems")
_OBJECTS = ("minProperties", "maxProperties", "required")


def _add(rng: Random, found: Json, pool: tuple[str, ...], draft: str) -> None:
    for key in rng.sample(pool, rng.choice((0, 1, 1, 2))):
        if draft == D4 and key.startswith("exclusive"):
            base = key.removeprefix("exclusive").lower()
            found.setdefault(base, rng.choice(NUMBERS))
            found[key] = True
        else:
            found[key] = keyword_value(rng, key)


def keyword_value(rng: Random, key: str) -> Json:
    match key:
        case "multipleOf":
            return rng.choice((1, 2, 3, 0.5))
        case "pattern":
            return rng.choice(PATTERNS)
        case "format":
            return rng.choice(FORMATS)
        case "uniqueItems":
            return True
        case "required":
            return sorted(rng.sample(NAMES, rng.randint(1, 2)))
        case _:
            return rng.choice(COUNTS if key.startswith(("min", "max")) and key[3].isupper() else NUMBERS)


def _object(rng: Random, depth: int, draft: str, may_refer: bool) -> Json:
    def inner() -> Json:
        return schema(rng, depth, draft, may_refer=may_refer)

    found: Json = {"type": "object"} if rng.random() < 0.8 else {}
    found["properties"] = {name: inner() for name in rng.sample(NAMES, rng.randint(0, 3))}
    _add(rng, found, ("required", "minProperties", "maxProperties"), draft)
    if rng.random() < 0.4:
        found["additionalProperties"] = rng.choice((True, False, False, inner()))
    if rng.random() < 0.15:
        found["patternProperties"] = {rng.choice(PATTERNS): inner()}
    if draft != D4 and rng.random() < 0.1:
        found["propertyNames"] = rng.choice(
            ({"pattern": rng.choice(PATTERNS)}, {"enum": ["a", "b"]}, {"maxLength": 1})
        )
    if rng.random() < 0.15:
        array, other = (
            ("dependencies", "dependencies")
            if draft in (D4, D6, D7)
            else ("dependentRequired", "dependentSchemas")
        )
        name = rng.choice(NAMES)
        if rng.random() < 0.5:
            found[array] = {name: [rng.choice(NAMES)]}
        else:
            found[other] = {name: inner()}
    if draft in (D2019, D2020) and rng.random() < 0.1:
        found["unevaluatedProperties"] = rng.choice((False, inner()))
    return found


def _array(rng: Random, depth: int, draft: str, may_refer: bool) -> Json:
    def inner() -> Json:
        return schema(rng, depth, draft, may_refer=may_refer)

    found: Json = {"type": "array"} if rng.random() < 0.8 else {}
    _add(rng, found, _ARRAYS, draft)
    prefix, rest = ("prefixItems", "items") if draft == D2020 else ("items", "additionalItems")
    if rng.random() < 0.3:
        found[prefix] = [inner() for _ in range(rng.randint(1, 2))]
        if rng.random() < 0.5:
            found[rest] = rng.choice((False, inner()))
    elif rng.random() < 0.8:
        found["items"] = inner()
    if draft != D4 and rng.random() < 0.15:
        found["contains"] = inner()
        if draft in (D2019, D2020) and rng.random() < 0.5:
            found[rng.choice(("minContains", "maxContains"))] = rng.choice(COUNTS)
    if draft in (D2019, D2020) and rng.random() < 0.1:
        found["unevaluatedItems"] = rng.choice((False, inner()))
    if draft == D4 and found.get(rest) is True:
        del found[rest]
    return found


def _combination(rng: Random, depth: int, draft: str, may_refer: bool) -> Json:
    def inner() -> Json:
        return schema(rng, depth, draft, may_refer=may_refer)

    found = _scalar(rng, depth, draft, may_refer) if rng.random() < 0.2 else {}
    found = _object(rng, depth, draft, may_refer) if rng.random() < 0.2 else found
    kinds = ["allOf", "anyOf", "anyOf", "oneOf", "oneOf", "not"] + (["if"] if draft not in (D4, D6) else [])
    kind = rng.choice(kinds)
    if kind == "not":
        found["not"] = inner()
    elif kind == "if":
        found |= {"if": inner(), "then": inner()} if rng.random() < 0.7 else {"if": inner(), "else": inner()}
    else:
        found[kind] = [inner() for _ in range(rng.randint(1, 3))]
    return found


# Places and changes

SINGLE = (
    "items", "additionalItems", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else",
    "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
LISTS = ("items", "prefixItems", "allOf", "anyOf", "oneOf")
MAPPINGS = ("properties", "patternProperties", "definitions", "$defs", "dependencies", "dependentSchemas")


def places(holder: Json, key: Any) -> Iterator[tuple[Json, Any]]:
    """Every schema within one, itself included, as what holds it and by which key."""
    yield holder, key
    found = holder[key]
    if not isinstance(found, dict):
        return
    for word in SINGLE:
        if isinstance(found.get(word), dict | bool):
            yield from places(found, word)
    for word in LISTS:
        for index in range(len(found[word])) if isinstance(found.get(word), list) else ():
            yield from places(found[word], index)
    for word in MAPPINGS:
        for name in found.get(word, {}):
            if isinstance(found[word][name], dict | bool):
                yield from places(found[word], name)


def changed(rng: Random, whole: Json) -> Json:
    """A schema after one to three changes."""
    draft = whole["$schema"]
    for _ in range(5):
        found = _changed(rng, whole, draft)
        if found != whole and _parses(found):
            return found
    return copy.deepcopy(whole)


def _parses(found: Json) -> bool:
    try:
        schema_of(found)
    except SchemaError:  # a definition that leads back to itself
        return False
    return True


def _changed(rng: Random, whole: Json, draft: str) -> Json:
    holder = {"root": copy.deepcopy(whole)}
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        used = "$ref" in repr({key: each for key, each in holder["root"].items() if key != "definitions"})
        spots = [
            each
            for each in places(holder, "root")
            if used or each[0] is not holder["root"].get("definitions")
        ]
        inside, key = rng.choice(spots)
        found = inside[key]
        if not isinstance(found, dict) or (rng.random() < 0.05 and inside is not holder):
            inside[key] = schema(rng, 1, draft) if inside is not holder else found
            continue
        change = rng.choice(
            (_drop, _drop, _tweak, _tweak, _tweak, _add_keyword, _wrap, _property, _close, _swap)
        )
        changed_one = change(rng, found, draft)
        if inside is holder:
            changed_one = {**changed_one, "$schema": draft, "definitions": found["definitions"]}
        inside[key] = changed_one
    return holder["root"]


def _drop(rng: Random, found: Json, draft: str) -> Json:
    keys = [key for key in found if key not in ("$schema", "definitions")]
    gone = rng.choice(keys) if keys else None
    if draft == D4 and gone in ("minimum", "maximum"):
        return found
    return {key: each for key, each in found.items() if key != gone}


def _tweak(rng: Random, found: Json, draft: str) -> Json:
    """Another value for a keyword that is there."""
    keys = [key for key in found if key in (*_NUMBERS, *_TEXTS, *_ARRAYS, *_OBJECTS, "type", "enum")]
    if not keys:
        return found
    key = rng.choice(keys)
    value = found[key]
    if key == "type":
        kinds = value if isinstance(value, list) else [value]
        more = sorted({*kinds, rng.choice(TYPES)})
        return {**found, key: rng.choice((more, kinds[0], "number" if "integer" in kinds else kinds))}
    if key == "enum":
        fewer = value[:-1] or value
        return {**found, key: rng.choice((fewer, _distinct([*value, rng.choice(TEXTS)])))}
    if isinstance(value, bool):
        return {**found, key: not value}
    if isinstance(value, int | float) and key != "multipleOf":
        return {**found, key: max(0, value + rng.choice((-1, 1)))}
    return {**found, key: keyword_value(rng, key)}


def _add_keyword(rng: Random, found: Json, draft: str) -> Json:
    found = dict(found)
    _add(rng, found, rng.choice((_NUMBERS, _TEXTS, _ARRAYS, _OBJECTS)), draft)
    return found


def _wrap(rng: Random, found: Json, draft: str) -> Json:
    bare = {key: each for key, each in found.items() if key not in ("$schema", "definitions")}
    word = rng.choice(("anyOf", "allOf", "oneOf"))
    if isinstance(found.get(word), list) and rng.random() < 0.7:
        branches = list(found[word])
        if rng.random() < 0.5 and len(branches) > 1:
            branches.pop(rng.randrange(len(branches)))
        else:
            branches.insert(rng.randint(0, len(branches)), schema(rng, 1, draft))
        return {**found, word: branches}
    branches = [bare] if rng.random() < 0.4 else [bare, schema(rng, 1, draft)]
    rng.shuffle(branches)
    return {word: branches}


def _property(rng: Random, found: Json, draft: str) -> Json:
    known = dict(found.get("properties", {}))
    name = rng.choice(NAMES)
    if name in known and rng.random() < 0.6:
        del known[name]
    else:
        known[name] = schema(rng, 1, draft)
    return {**found, "properties": known}


def _close(rng: Random, found: Json, draft: str) -> Json:
    return {**found, "additionalProperties": rng.choice((True, False, False, schema(rng, 0, draft)))}


def _swap(rng: Random, found: Json, draft: str) -> Json:
    """The same in other words, or nearly."""
    if isinstance(found.get("type"), list):
        kinds = [{"type": each} for each in found["type"]]
        rest = {key: each for key, each in found.items() if key != "type"}
        return {**rest, rng.choice(("anyOf", "oneOf")): kinds}
    if "oneOf" in found and "anyOf" not in found:
        return {"anyOf" if key == "oneOf" else key: each for key, each in found.items()}
    return {"allOf": [{key: each for key, each in found.items() if key not in ("$schema", "definitions")}]}


# Values


def value_for(rng: Random, found: Json, whole: Json, depth: int = 5) -> Json:
    """A value that may well be valid, and need not be."""
    if depth <= 0 or rng.random() < 0.08 or not isinstance(found, dict):
        return anything(rng, min(depth, 2))
    if "$ref" in found:
        return value_for(rng, whole["definitions"]["d"], whole, depth - 1)
    if "enum" in found or "const" in found:
        return rng.choice(found["enum"]) if "enum" in found else found["const"]
    made = [value_for(rng, each, whole, depth - 1) for each in found.get("allOf", ())]
    for word in ("anyOf", "oneOf"):
        if word in found:
            made.append(value_for(rng, rng.choice(found[word]), whole, depth - 1))
    for word in ("if", "then", "else"):
        if word in found and rng.random() < 0.5:
            made.append(value_for(rng, found[word], whole, depth - 1))
    own = set(found) - {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "$schema", "definitions"}
    if own or not made:
        made.append(_own_value(rng, found, whole, depth))
    objects = [each for each in made if isinstance(each, dict)]
    if len(objects) == len(made):
        return {name: each for one in objects for name, each in one.items()}
    return rng.choice(made)


def _own_value(rng: Random, found: Json, whole: Json, depth: int) -> Json:
    kinds = found.get("type", TYPES)
    match rng.choice([kinds] if isinstance(kinds, str) else list(kinds)):
        case "null":
            return None
        case "boolean":
            return rng.random() < 0.5
        case "integer":
            return rng.choice([each for each in NUMBERS if each == int(each)])
        case "number":
            return rng.choice(NUMBERS)
        case "string":
            return rng.choice(TEXTS)
        case "array":
            return _array_value(rng, found, whole, depth)
    return _object_value(rng, found, whole, depth)


def _array_value(rng: Random, found: Json, whole: Json, depth: int) -> Json:
    prefix = found.get("prefixItems", found["items"] if isinstance(found.get("items"), list) else [])
    rest = found.get("items") if isinstance(found.get("items"), dict | bool) else found.get("additionalItems")
    made = []
    for index in range(rng.randint(min(found.get("minItems", 0), 3), 3)):
        inner = prefix[index] if index < len(prefix) else rest
        if "contains" in found and rng.random() < 0.4:
            inner = found["contains"]
        made.append(value_for(rng, inner, whole, depth - 1))
    return made


def _object_value(rng: Random, found: Json, whole: Json, depth: int) -> Json:
    known = found.get("properties", {})
    names = {*found.get("required", ()), *(name for name in known if rng.random() < 0.6)}
    names |= {name for name in NAMES if rng.random() < 0.15}
    additional = found.get("additionalProperties")
    return {name: value_for(rng, known.get(name, additional), whole, depth - 1) for name in sorted(names)}


def anything(rng: Random, depth: int = 2) -> Json:
    pool = [None, True, False, *NUMBERS, *TEXTS]
    kind = rng.randrange(6) if depth > 0 else 0
    if kind == 1:
        return [anything(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    if kind == 2:
        return {name: anything(rng, depth - 1) for name in NAMES if rng.random() < 0.4}
    return rng.choice(pool)
