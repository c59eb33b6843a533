"""The types of states that keep values, as Spark and as Arrow call them."""

from __future__ import annotations

from latecomer.config import columns as types

_EVENT = "t: bigint, a: bigint, o: string, p: bigint"
"""Event time, arrival time, origin and position: the order of events."""


def held_type(kind: str) -> str:
    """The type in which values of a column are kept."""
    if kind in types.INTEGERS:
        return "bigint"
    return "double" if kind in types.FLOATS else kind


def tally_type(kind: str) -> str:
    """Each value of a column, and how often it was there.

    >>> tally_type("int")
    'array<struct<v: bigint, n: bigint>>'
    """
    return f"array<struct<v: {held_type(kind)}, n: bigint>>"


def event_type(kind: str) -> str:
    """An event by its place in the order of events, and its value."""
    return f"struct<{_EVENT}, v: {held_type(kind)}>"


def fields_of(struct: str) -> list[tuple[str, str]]:
    """The fields of a struct and their types; none of these is a struct itself.

    >>> fields_of("struct<v: decimal(9,2), n: bigint>")
    [('v', 'decimal(9,2)'), ('n', 'bigint')]
    """
    inside = struct.removeprefix("struct<").removesuffix(">")
    return [(name, kind) for name, _, kind in (each.partition(": ") for each in inside.split(", "))]
