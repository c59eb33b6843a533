"""Column names with dots: which of them may be paths to fields in the objects of a row."""

from __future__ import annotations

from collections.abc import Iterable

DEEPEST = 20
"""The most names in such a path."""


def ways_of(columns: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The columns that may be fields of objects, and the path to each.

    A field that is read as a value cannot be an object, too: where `a` and `a.b` are columns, both are plain names.

    >>> ways_of(["id", "pricing.base", "pricing.tax.rate"])
    {'pricing.base': ('pricing', 'base'), 'pricing.tax.rate': ('pricing', 'tax', 'rate')}
    >>> ways_of(["a", "a.b", "c..d", "e."])
    {}
    """
    names = list(columns)
    parts = {name: tuple(name.split(".")) for name in names if "." in name}
    ways = {name: way for name, way in parts.items() if all(way) and len(way) <= DEEPEST}
    values = {tuple(name.split(".")) for name in names}
    return {
        name: way
        for name, way in ways.items()
        if not any(way[:length] in values for length in range(1, len(way)))
        and not any(other[: len(way)] == way for other in values if len(other) > len(way))
    }
