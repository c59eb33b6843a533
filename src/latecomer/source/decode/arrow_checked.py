"""Checks many JSON records at once against the schema of their writer: all are certainly valid, or `NotPlain`.

Records are read as columns (`json_rows.py`), and the columns are checked by the rules. This works for objects of plain
values. Records with nested values, patterns or combined schemas are checked one by one (`checked_messages.py`), and so
are records that break a rule, or may break one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.sources import UnknownFields
from latecomer.model import types
from latecomer.model.paths import paths_of
from latecomer.schemas.jsonschema import Schema
from latecomer.schemas.jsonschema.nodes import NUMBERS, Bound, Node, number_of, type_of
from latecomer.source.decode.json_rows import JsonLines
from latecomer.source.decode.private_columns import KEPT
from latecomer.source.decode.text_lines import Lines
from latecomer.source.decode.typed_columns import NotPlain, column_type

_INVALID = "a record that its schema may not allow"
_TIMES = ("date", "timestamp", "timestamp_ntz")
"""Columns that are text in JSON, of limited lengths."""
_SHORTEST_TIME, _LONGEST_TIME = len("2026-01-05"), len("2026-01-05T14:00:00.123456789+05:30")
_KINDS = {
    frozenset(("string",)): "string",
    frozenset(("boolean",)): "boolean",
    frozenset(("integer",)): "bigint",
}
_NULL = b"null"
_LARGEST = 10**300
"""The largest bound that doubles are compared with."""


@dataclass(frozen=True)
class RecordRules:
    """The rules of a schema for records that are read as columns."""

    node: Node
    properties: Mapping[str, Node]
    columns: Mapping[str, str]
    extra: Mapping[str, str]
    """Properties that are no columns, and the types that they are read as."""
    others: bool
    """Whether records may have still other properties."""
    kept: bool
    """Whether properties that are no columns are kept."""

    @classmethod
    def of(cls, schema: Schema, columns: Mapping[str, str], unknown: UnknownFields) -> RecordRules:
        """`NotPlain` if a schema has rules that are not checked here. Fields that are no columns are allowed unless
        they make a record a dead letter."""
        for kind in columns.values():
            column_type(kind)
        if paths_of(columns):
            raise NotPlain("columns within objects")
        root = schema.root.behind_refs()
        _require_plain_object(root)
        nodes = {name: node.behind_refs() for name, node in root.properties.items()}
        extra = {name: _kind(node) for name, node in nodes.items() if name not in columns}
        for name, kind in columns.items():
            if name in nodes:
                _require_plain_value(nodes[name], kind)
        unknown_too = unknown != "dead_letter"
        plain = {name: kind for name, kind in extra.items() if kind is not None and unknown_too}
        any_others = root.additional is None and unknown_too
        if unknown_too and len(plain) < len(extra) and not any_others:
            raise NotPlain("a schema with properties of any type")
        if not root.required <= {*plain, *(columns.keys() & nodes.keys())}:
            raise NotPlain("a schema that requires what is not read")
        return cls(root, nodes, columns, plain, any_others, unknown == "keep")

    def read(self, records: Sequence[bytes]) -> pa.Table:
        """The columns of records, all of which are valid."""
        lines = Lines.of_records(records)
        if lines.records:
            raise NotPlain("records of several lines")
        reader = JsonLines({**self.columns, **self.extra}, "ignore" if self.others else "dead_letter")
        rows = reader.read_plain(lines)
        for name in rows.column_names:
            self._check(name, rows.column(name), lines.body)
        read = rows.select(list(self.columns))
        if not self.kept:
            return read
        keeper = JsonLines(self.columns, "keep")
        return read.append_column(
            KEPT, pa.array([keeper.kept_of(each.decode()) for each in records], pa.string())
        )

    def _check(self, name: str, column: pa.ChunkedArray, text: bytes) -> None:
        node = self.properties.get(name)
        if node is None:
            if self.node.additional is not None:
                _check_absent(name, column, text)
            return
        if column.null_count:
            _check_nulls(node, name in self.node.required, text)
        kind = {**self.columns, **self.extra}[name]
        values = column.drop_null()
        if not len(values):
            return
        if node.values is not None:
            _check_listed(node, kind, values)
        if kind == "string":
            _check_lengths(node, values)
        elif kind not in ("boolean", *_TIMES):
            _check_numbers(node, kind, values)


def _require_plain_object(node: Node) -> None:
    allowed = ("types", "properties", "required", "additional", "format")
    if "object" not in node.types or not node.says_only(*allowed):
        raise NotPlain("a schema that is more than an object of plain values")
    if node.additional is not None and not node.additional.is_false:
        raise NotPlain("a schema for any other property")


_VALUE_RULES = ("types", "values", "lower", "upper", "multiples", "min_length", "max_length", "format")


def _kind(node: Node) -> str | None:
    """The type that a property that is no column is read as; None if the schema allows any value."""
    if node.says_only():
        return None
    json_types = node.own_types - {"null"}
    kind = "double" if json_types == NUMBERS else _KINDS.get(json_types)
    if kind is None:
        raise NotPlain("a property of several types")
    _require_plain_value(node, kind)
    return kind


def _require_plain_value(node: Node, kind: str) -> None:
    """Decline rules that are not checked here for values of this type."""
    if not node.says_only(*_VALUE_RULES):
        raise NotPlain("a schema that is more than an object of plain values")
    if kind in types.INTEGERS:
        needed = {"integer"}
    elif kind == "double" or types.is_decimal(kind):
        needed = {*NUMBERS}
    else:
        needed = {"boolean"} if kind == "boolean" else {"string"}
    if not needed <= node.types:
        raise NotPlain(f"a schema that does not allow what a {kind} column takes")
    if kind == "double" and (node.multiples or node.values is not None):
        raise NotPlain("a rule for numbers that are not exact")
    if kind == "double" and any(
        each is not None and abs(each.number) > _LARGEST for each in (node.lower, node.upper)
    ):
        raise NotPlain("a bound that is no double")
    if node.values is not None and (types.is_decimal(kind) or kind in _TIMES):
        raise NotPlain("times or decimals that are listed")
    longest = _LONGEST_TIME if node.max_length is None else node.max_length
    if kind in _TIMES and (node.min_length > _SHORTEST_TIME or longest < _LONGEST_TIME):
        raise NotPlain("a rule for the length of a time")


# The rules: `NotPlain` where values do not keep to them


def _check_absent(name: str, column: pa.ChunkedArray, text: bytes) -> None:
    """A property that is not allowed, under its name or with escapes in its name."""
    if column.null_count < len(column) or f'"{name}"'.encode() in text or b"\\" in text:
        raise NotPlain(_INVALID)


def _check_nulls(node: Node, required: bool, text: bytes) -> None:
    """A null in a column may be a null in the record, or a missing field."""
    if required or ("null" not in node.own_types and _NULL in text):
        raise NotPlain(_INVALID)


def _check_listed(node: Node, kind: str, chunks: pa.ChunkedArray) -> None:
    values = [each.value for each in node.values or ()]
    if kind in types.INTEGERS:
        numbers = [number_of(each) for each in values if type_of(each) in NUMBERS]
        allowed: Iterable[Any] = [
            int(each) for each in numbers if each.denominator == 1 and abs(each) < 1 << 63
        ]
    else:
        allowed = [each for each in values if isinstance(each, bool if kind == "boolean" else str)]
    listed = pa.array(list(allowed), pa.int64() if kind in types.INTEGERS else chunks.type)
    column = chunks.cast(pa.int64()) if kind in types.INTEGERS else chunks
    if not pc.all(pc.is_in(column, listed)).as_py():
        raise NotPlain(_INVALID)


def _check_lengths(node: Node, texts: pa.ChunkedArray) -> None:
    if not node.min_length and node.max_length is None:
        return
    sizes = pc.min_max(pc.utf8_length(texts)).as_py()
    if sizes["min"] < node.min_length or (node.max_length is not None and sizes["max"] > node.max_length):
        raise NotPlain(_INVALID)


def _check_numbers(node: Node, kind: str, numbers: pa.ChunkedArray) -> None:
    ends = pc.min_max(numbers).as_py() if node.lower or node.upper else {}
    for bound, end, sign in ((node.lower, "min", 1), (node.upper, "max", -1)):
        if bound is not None and not _is_within(ends[end], bound, sign):
            raise NotPlain(_INVALID)
    for divisor in node.multiples:
        if kind in types.INTEGERS and divisor.denominator == 1 and divisor < 1 << 63:
            if (np.asarray(numbers.cast(pa.int64())) % int(divisor)).any():
                raise NotPlain(_INVALID)
        elif (
            Fraction(1, 10 ** types.scale_of(kind) if types.is_decimal(kind) else 1) / divisor
        ).denominator != 1:
            raise NotPlain("a rule that not every number of its type keeps to")


def _is_within(value: int | float | Decimal, bound: Bound, sign: int) -> bool:
    """Whether a number is certainly within a bound: above it with `sign` 1, below it with -1. A double that equals the
    bound may have been rounded to it."""
    if not isinstance(value, float):
        beyond = (Fraction(value) - bound.number) * sign
        return beyond > 0 or (beyond == 0 and not bound.exclusive)
    if not value and not bound.number:
        return not bound.exclusive
    return (value - float(bound.number)) * sign > 0
