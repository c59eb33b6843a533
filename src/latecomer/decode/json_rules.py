"""A JSON Schema as a condition in Spark SQL, over a variant (ADR 0059).

Every condition here is true or false of a value that is there, and never null, so that they can be negated and counted.
What it says is what `model/jsonschema/validation.py` says; what cannot be said so is refused by `checkable.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, reduce
from operator import add, and_, or_

from pyspark.sql import Column
from pyspark.sql import functions as F

from latecomer.model.jsonschema import Schema
from latecomer.model.jsonschema.checkable import decimal_parts, require_checkable
from latecomer.model.jsonschema.nodes import Bound, Node
from latecomer.model.jsonschema.plain_patterns import plain_pattern
from latecomer.model.jsonschema.records import HALF
from latecomer.model.jsonschema.values import ALL_TYPES, EXACT_WHOLE, NUMBERS, number_of, type_of

SETTINGS = {"spark.sql.variant.allowDuplicateKeys": "true"}
"""What the session that reads needs: of fields that come twice the last counts."""
_LONGEST, _LARGEST = 38, 2**63 - 1
_TRUE, _FALSE = True, False


def parsed(text: Column) -> Column:
    """A text as a variant, for what follows; null where it is no JSON. It is used often: make it a column."""
    return F.try_parse_json(F.concat(F.lit("["), text, F.lit("]")))


def is_json(text: Column, variant: Column) -> Column:
    """Whether a text, which was `parsed`, is one JSON value.

    Spark does not look at what follows a value. Within [ ] it must end there, or a ] follows it; and that it cannot
    within { }.
    """
    first, second = (F.try_variant_get(variant, f"$[{index}]", "variant") for index in (0, 1))
    within = F.json_object_keys(F.concat(F.lit('{"a":'), text, F.lit("}")))
    escapes = F.contains(text, F.lit("\\ud")) | F.contains(text, F.lit("\\uD"))
    whole = F.when(escapes, ~text.rlike(HALF)).otherwise(_TRUE)
    alone = first.isNotNull() & second.isNull() & (F.size(within) == 1)
    return F.coalesce(alone & whole, F.lit(_FALSE))


@dataclass(frozen=True)
class Condition:
    """Whether a text that was `parsed` and is JSON is valid."""

    facts: dict[str, Column]
    """What the condition is about, by name: columns to be made first, for most are used several times."""
    holds: Column
    """The condition, over these columns."""


def valid(variant: Column, schema: Schema, prefix: str) -> Condition:
    """The condition of a schema; a `SchemaError` if there is none that is exact. Its columns have this prefix."""
    require_checkable(schema)
    facts = _Facts(prefix, {})
    return Condition(facts.found, _valid(schema.root, _Here(variant, "$[0]", facts)))


@dataclass(frozen=True)
class _Facts:
    """What is asked of places, as columns."""

    prefix: str
    found: dict[str, Column]
    names: dict[tuple[str, str], str] = field(default_factory=dict)

    def named(self, path: str, what: str, column: Column) -> Column:
        name = self.names.setdefault((path, what), f"{self.prefix}{len(self.names)}")
        self.found.setdefault(name, column)
        return F.col(name)


@dataclass(frozen=True)
class _Here:
    """A place in a variant."""

    root: Column
    path: str = "$"
    facts: _Facts | None = None

    def _fact(self, what: str, column: Column) -> Column:
        return column if self.facts is None else self.facts.named(self.path, what, column)

    def as_(self, kind: str) -> Column:
        return self._fact(kind, F.try_variant_get(self.root, self.path, kind))

    @cached_property
    def value(self) -> Column:
        return self.root if self.path == "$" else F.try_variant_get(self.root, self.path, "variant")

    @cached_property
    def is_there(self) -> Column:
        return self._fact("there", self.value.isNotNull())

    @cached_property
    def is_null(self) -> Column:
        return self._fact("null", F.is_variant_null(self.value))

    @cached_property
    def kind(self) -> Column:
        """BIGINT, DECIMAL(3,2), DOUBLE, STRING, BOOLEAN or VOID; of lists and objects more."""
        return self._fact("kind", F.schema_of_variant(self.value))

    @cached_property
    def text(self) -> Column:
        return self.as_("string")

    @cached_property
    def items(self) -> Column:
        """Null of what is no list."""
        return self.as_("array<variant>")

    @cached_property
    def fields(self) -> Column:
        """Null of what is no object."""
        return self.as_("map<string,variant>")

    @cached_property
    def is_whole(self) -> Column:
        return self.kind == "BIGINT"

    @cached_property
    def is_decimal(self) -> Column:
        return F.startswith(self.kind, F.lit("DECIMAL"))

    @cached_property
    def is_double(self) -> Column:
        return self.kind == "DOUBLE"

    @cached_property
    def is_number(self) -> Column:
        return self.is_whole | self.is_decimal | self.is_double

    @cached_property
    def is_text(self) -> Column:
        return self.kind == "STRING"

    def field(self, name: str) -> _Here:
        for quote in ('"', "'"):
            if name and quote not in name and "?" not in name:
                return _Here(self.root, f"{self.path}[{quote}{name}{quote}]", self.facts)
        return _Here(F.try_element_at(self.fields, F.lit(name)))

    def item(self, index: int) -> _Here:
        return _Here(self.root, f"{self.path}[{index}]", self.facts)


def _valid(node: Node, here: _Here) -> Column:
    """Whether a value that is there is valid."""
    found = [
        *_types(node, here),
        *_values(node, here),
        *_numbers(node, here),
        *_texts(node, here),
        *_arrays(node, here),
        *_objects(node, here),
        *_combined(node, here),
    ]
    return reduce(and_, found) if found else F.lit(_TRUE)


def _implies(when: Column, then: Column) -> Column:
    """True where the first is not; the second is looked at only where it is."""
    return F.coalesce(F.when(when, then).otherwise(_TRUE), F.lit(_FALSE))


def _some(found: Sequence[Column]) -> Column:
    return F.coalesce(reduce(or_, found), F.lit(_FALSE)) if found else F.lit(_FALSE)


# Types and values


def _types(node: Node, here: _Here) -> list[Column]:
    if node.types == ALL_TYPES:
        return []
    ways: dict[str, Callable[[], Column]] = {
        "null": lambda: here.is_null,
        "boolean": lambda: here.kind == "BOOLEAN",
        "string": lambda: here.is_text,
        "array": lambda: here.items.isNotNull(),
        "object": lambda: here.fields.isNotNull(),
    }
    found = [ways[each]() for each in sorted(node.types - NUMBERS)]
    numbers = node.types & NUMBERS
    if numbers == NUMBERS:
        found.append(here.is_number)
    elif numbers:
        whole = _is_integer(here)
        found.append(here.is_number & (whole if "integer" in numbers else ~whole))
    return [_some(found)]


def _is_integer(here: _Here) -> Column:
    """Of a number, whether it has nothing behind the point. Variants drop zeros there."""
    double = here.as_("double")
    return (
        F.when(here.is_whole, _TRUE)
        .when(here.is_decimal, ~F.contains(here.text, F.lit(".")))
        .otherwise(F.coalesce((F.rint(double) == double) & (F.abs(double) < math.inf), F.lit(_FALSE)))
    )


def _values(node: Node, here: _Here) -> list[Column]:
    if node.values is None:
        return []
    by_type: dict[str, list[object]] = {}
    for each in node.values:
        by_type.setdefault(type_of(each.value), []).append(each.value)
    found = [here.is_null] if "null" in by_type else []
    if "boolean" in by_type:
        found.append((here.kind == "BOOLEAN") & here.as_("boolean").isin(by_type["boolean"]))
    if "string" in by_type:
        found.append(here.is_text & here.text.isin(by_type["string"]))
    numbers = [number_of(each) for kind in sorted(NUMBERS) for each in by_type.get(kind, ())]  # type: ignore[arg-type]
    if numbers:
        found.append(_equals_one_of(numbers, here))
    return [_some(found)]


def _equals_one_of(numbers: Sequence[Fraction], here: _Here) -> Column:
    whole = [int(each) for each in numbers if each.denominator == 1 and -_LARGEST - 1 <= each <= _LARGEST]
    doubles = [float(each) for each in numbers if _of_double(float(each)) == each]
    return (
        F.when(here.is_whole, here.as_("bigint").isin(whole) if whole else F.lit(_FALSE))
        .when(here.is_decimal, here.text.isin([_plain(each) for each in numbers]))
        .when(here.is_double, here.as_("double").isin(doubles) if doubles else F.lit(_FALSE))
        .otherwise(_FALSE)
    )


def _of_double(double: float) -> Fraction:
    return Fraction(Decimal(repr(double)))


def _plain(number: Fraction) -> str:
    """As a variant writes it.

    >>> _plain(Fraction(-3, 40)), _plain(Fraction(10**20))
    ('-0.075', '100000000000000000000')
    """
    whole, digits = decimal_parts(abs(number))
    text = str(whole).rjust(digits + 1, "0")
    sign = "-" if number < 0 else ""
    return f"{sign}{text[: len(text) - digits]}" + (f".{text[-digits:]}" if digits else "")


# Numbers


def _numbers(node: Node, here: _Here) -> list[Column]:
    rules = []
    if node.lower is not None:
        rules.append(_at_least(node.lower, here))
    if node.upper is not None:
        rules.append(_at_most(node.upper, here))
    rules += [_multiple(each, here) for each in node.multiples]
    return [_implies(here.is_number, reduce(and_, rules))] if rules else []


def _at_least(bound: Bound, here: _Here) -> Column:
    least = math.floor(bound.number) + 1 if bound.exclusive else math.ceil(bound.number)
    nearest = float(bound.number)
    at_nearest = _of_double(nearest) > bound.number or (
        not bound.exclusive and _of_double(nearest) == bound.number
    )
    double = here.as_("double")
    decimal = _Parts(here.text)
    beyond = decimal.above(bound.number)
    return _by_kind(
        here,
        _whole_from(here, least),
        beyond if bound.exclusive else beyond | decimal.equals(bound.number),
        double >= nearest if at_nearest else double > nearest,
    )


def _at_most(bound: Bound, here: _Here) -> Column:
    most = math.ceil(bound.number) - 1 if bound.exclusive else math.floor(bound.number)
    nearest = float(bound.number)
    at_nearest = _of_double(nearest) < bound.number or (
        not bound.exclusive and _of_double(nearest) == bound.number
    )
    double = here.as_("double")
    decimal = _Parts(here.text)
    not_above = ~decimal.above(bound.number)
    return _by_kind(
        here,
        ~_whole_from(here, most + 1),
        not_above & ~decimal.equals(bound.number) if bound.exclusive else not_above,
        double <= nearest if at_nearest else double < nearest,
    )


def _by_kind(here: _Here, whole: Column, decimal: Column, double: Column) -> Column:
    return F.when(here.is_whole, whole).when(here.is_decimal, decimal).otherwise(double)


def _whole_from(here: _Here, least: int) -> Column:
    if least > _LARGEST:
        return F.lit(_FALSE)
    return F.lit(_TRUE) if least < -_LARGEST - 1 else here.as_("bigint") >= least


class _Parts:
    """A decimal of at most 38 digits, which may all be before or all behind the point: its sign and both parts."""

    def __init__(self, text: Column) -> None:
        digits = F.ltrim(text, F.lit("-"))
        self.negative = F.startswith(text, F.lit("-"))
        self.whole = F.split_part(digits, F.lit("."), F.lit(1)).try_cast(f"decimal({_LONGEST},0)")
        self.behind = F.split_part(digits, F.lit("."), F.lit(2))
        self.fraction = F.when(self.behind == "", _fraction("0")).otherwise(
            F.concat(F.lit("0."), self.behind).try_cast(f"decimal({_LONGEST},{_LONGEST})")
        )

    def equals(self, number: Fraction) -> Column:
        whole, fraction = _literals(number)
        same = (self.whole == whole) & (self.fraction == fraction)
        return same & (self.negative if number < 0 else ~self.negative)

    def above(self, number: Fraction) -> Column:
        whole, fraction = _literals(number)
        larger = (self.whole > whole) | ((self.whole == whole) & (self.fraction > fraction))
        if number >= 0:
            return ~self.negative & larger
        same = (self.whole == whole) & (self.fraction == fraction)
        return ~self.negative | ~(larger | same)


def _literals(number: Fraction) -> tuple[Column, Column]:
    """Both parts of a number, without its sign."""
    whole, _, behind = _plain(abs(number)).partition(".")
    return F.lit(whole).cast(f"decimal({_LONGEST},0)"), _fraction(behind or "0")


def _fraction(digits: str) -> Column:
    return F.lit(f"0.{digits}").cast(f"decimal({_LONGEST},{_LONGEST})")


def _multiple(divisor: Fraction, here: _Here) -> Column:
    whole, digits = decimal_parts(divisor)
    of_whole = whole // math.gcd(whole, 10**digits)
    double = here.as_("double")
    small = (F.rint(double) == double) & (F.abs(double) < EXACT_WHOLE)
    return _by_kind(
        here,
        here.as_("bigint") % F.lit(of_whole) == 0,
        _decimal_multiple(_Parts(here.text), whole, digits),
        F.when(small, double.try_cast("bigint") % F.lit(of_whole) == 0).otherwise(_FALSE),
    )


def _decimal_multiple(decimal: _Parts, divisor: int, digits: int) -> Column:
    """Whether a decimal with its point moved is a multiple. Remainders are small enough to be multiplied."""
    by = F.lit(divisor).cast("decimal(18,0)")
    rest = (decimal.whole % by).cast("decimal(18,0)")
    moved = (rest * F.lit(10**digits % divisor).cast("decimal(18,0)")).cast("decimal(37,0)")
    behind = F.rpad(decimal.behind, digits, "0").try_cast("decimal(18,0)") if digits else F.lit(0)
    return (F.length(decimal.behind) <= digits) & ((moved + behind) % by == 0)


# Texts, lists and objects


def _texts(node: Node, here: _Here) -> list[Column]:
    length, rules = F.char_length(here.text), []
    if node.min_length:
        rules.append(length >= node.min_length)
    if node.max_length is not None:
        rules.append(length <= node.max_length)
    if node.pattern is not None:
        rules.append(here.text.rlike(plain_pattern(node.pattern)))
    return [_implies(here.is_text, reduce(and_, rules))] if rules else []


def _arrays(node: Node, here: _Here) -> list[Column]:
    size, rules = F.size(here.items), []
    if node.min_items:
        rules.append(size >= node.min_items)
    if node.max_items is not None:
        rules.append(size <= node.max_items)
    for index, each in enumerate(node.prefix):
        place = here.item(index)
        rules.append(_implies(place.is_there, _valid(each, place)))
    if node.rest is not None and (rest := node.rest) and not rest.takes_everything:
        items = here.items
        if node.prefix:
            items = F.slice(items, len(node.prefix) + 1, F.greatest(size, F.lit(1)))
        rules.append(F.forall(items, lambda each: _valid(rest, _Here(each))))
    if node.unique:
        texts = F.transform(here.items, lambda each: _Here(each).text)
        rules.append(F.size(F.array_distinct(texts)) == size)
    if (contains := node.contains) is not None:
        fitting = F.size(F.filter(here.items, lambda each: _valid(contains.node, _Here(each))))
        rules.append(fitting >= contains.least)
        if contains.most is not None:
            rules.append(fitting <= contains.most)
    return [_implies(here.items.isNotNull(), reduce(and_, rules))] if rules else []


def _objects(node: Node, here: _Here) -> list[Column]:
    fields, rules = here.fields, []
    size = F.size(fields)
    if node.min_properties:
        rules.append(size >= node.min_properties)
    if node.max_properties is not None:
        rules.append(size <= node.max_properties)
    rules += [_has(here, name) for name in sorted(node.required)]
    for name, needed in node.dependent_required.items():
        if needed:
            rules.append(
                _implies(_has(here, name), reduce(and_, (_has(here, each) for each in sorted(needed))))
            )
    for name, each in node.properties.items():
        if not each.takes_everything:
            rules.append(_implies(_has(here, name), _valid(each, here.field(name))))
    if node.additional is not None and not node.additional.takes_everything:
        rules.append(_no_others(node, fields, node.additional))
    for name, each in node.dependent.items():
        rules.append(_implies(_has(here, name), _valid(each, here)))
    return [_implies(fields.isNotNull(), reduce(and_, rules))] if rules else []


def _has(here: _Here, name: str) -> Column:
    return here.field(name).is_there


def _no_others(node: Node, fields: Column, additional: Node) -> Column:
    """Whether fields without a schema of their own fit what is said of these."""
    known = sorted(node.properties)
    if additional.is_false:
        names = F.array(*map(F.lit, known)).cast("array<string>")
        return F.size(F.array_except(F.map_keys(fields), names)) == 0
    others = F.map_filter(fields, lambda name, _: ~name.isin(known)) if known else fields
    return F.forall(F.map_values(others), lambda each: _valid(additional, _Here(each)))


# Combinations


def _combined(node: Node, here: _Here) -> list[Column]:
    found = [_valid(each, here) for each in (node.ref, *node.all_of) if each is not None]
    if node.any_of:
        found.append(reduce(or_, (_valid(each, here) for each in node.any_of)))
    if node.one_of:
        fitting = (_valid(each, here).cast("int") for each in node.one_of)
        found.append(reduce(add, fitting) == 1)
    if node.negated is not None:
        found.append(~_valid(node.negated, here))
    if node.condition is not None:
        then, otherwise = (
            F.lit(_TRUE) if each is None else _valid(each, here) for each in (node.then, node.otherwise)
        )
        found.append(F.when(_valid(node.condition, here), then).otherwise(otherwise))
    return found
