"""Recursive records: how deep their values may be nested.

A reader recurses into nested values, and its stack is limited.
"""

from __future__ import annotations

from latecomer.schemas.avro.types import Named, Record, Reference, Schema, Type, children

DEEPEST_RECORD = 100
"""How many records of a recursive schema may be nested."""
_MOST_NESTED = 300
"""How many types may be nested."""


def deepest_of(schema: Schema) -> int | None:
    """How deep the recursive records of a schema may be nested; None if it has none."""
    endless = endless_records(schema)
    if not endless:
        return None
    heights = (_height(schema.names[name], endless) for name in _repeated(schema, endless))
    return min(DEEPEST_RECORD, _MOST_NESTED // max(heights))


def endless_records(schema: Schema) -> frozenset[str]:
    """The names of the records that are recursive, or contain a recursive one."""
    records = (each for each in schema.names.values() if isinstance(each, Record))
    records_left = {each.name: _leads_to(each) for each in records}
    while ending := [name for name, to in records_left.items() if not to & records_left.keys()]:
        for name in ending:
            del records_left[name]
    return frozenset(records_left)


def _repeated(schema: Schema, endless: frozenset[str]) -> frozenset[str]:
    """Those that may occur at several depths. An envelope around them is not one of these: none of them contains it."""
    repeated = endless
    while (led := repeated & {to for name in repeated for to in _leads_to(schema.names[name])}) != repeated:
        repeated = led
    return repeated


def _leads_to(record: Named) -> set[str]:
    """The names of the types that the fields of a record use."""
    return {each.name for each, _ in _within(record) if isinstance(each, Reference | Named)}


def _within(record: Named) -> list[tuple[Type, int]]:
    """The types in a record, each with its depth. Named types are included; what is in them is not."""
    types, pending = [], [(child, 1) for child in children(record)]
    while pending:
        each, depth = pending.pop()
        types.append((each, depth))
        if not isinstance(each, Named):
            pending.extend((child, depth + 1) for child in children(each))
    return types


def _height(record: Named, endless: frozenset[str]) -> int:
    """The largest number of types between a record and the next recursive one."""
    ways = (
        depth
        for each, depth in _within(record)
        if isinstance(each, Reference | Named) and each.name in endless
    )
    return max(ways, default=1)
