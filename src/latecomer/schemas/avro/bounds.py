"""Records that can hold themselves: how many of them may be in one another.

A reader goes through a value as deep as it is nested, and its stack has an end.
"""

from __future__ import annotations

from latecomer.schemas.avro.types import Named, Record, Reference, Schema, Type, children

DEEPEST_RECORD = 100
"""Records that may be in one another, where one of them can hold itself."""
_MOST_NESTED = 300
"""Types in one another."""


def deepest_of(schema: Schema) -> int | None:
    """How many of these may be in one another; none where there are none."""
    endless = endless_records(schema)
    if not endless:
        return None
    heights = (_height(schema.names[name], endless) for name in _repeated(schema, endless))
    return min(DEEPEST_RECORD, _MOST_NESTED // max(heights))


def endless_records(schema: Schema) -> frozenset[str]:
    """The records that lead to one that leads to itself."""
    records = (each for each in schema.names.values() if isinstance(each, Record))
    left = {each.name: _leads_to(each) for each in records}
    while ending := [name for name, to in left.items() if not to & left.keys()]:
        for name in ending:
            del left[name]
    return frozenset(left)


def _repeated(schema: Schema, endless: frozenset[str]) -> frozenset[str]:
    """Those of them that may be at many depths: without those to which none leads, as an envelope around them."""
    found = endless
    while (led := found & {to for name in found for to in _leads_to(schema.names[name])}) != found:
        found = led
    return found


def _leads_to(record: Named) -> set[str]:
    """The named types that the fields of a record name."""
    return {each.name for each, _ in _within(record) if isinstance(each, Reference | Named)}


def _within(record: Named) -> list[tuple[Type, int]]:
    """The types in a record, up to those that have names, with how many types they are in."""
    found, left = [], [(child, 1) for _, child in children(record)]
    while left:
        each, depth = left.pop()
        found.append((each, depth))
        if not isinstance(each, Named):
            left.extend((child, depth + 1) for _, child in children(each))
    return found


def _height(record: Named, endless: frozenset[str]) -> int:
    """How many types there are from a record to the next that leads to itself, at most."""
    ways = (
        depth
        for each, depth in _within(record)
        if isinstance(each, Reference | Named) and each.name in endless
    )
    return max(ways, default=1)
