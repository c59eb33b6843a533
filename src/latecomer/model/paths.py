"""Column names with dots: which of them may be paths to fields in the objects of a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

DEEPEST = 20
"""The most names in such a path."""


def paths_of(columns: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The columns that may be fields of objects, and the path to each.

    A field that is read as a value cannot be an object, too: where `a` and `a.b` are columns, both are plain names.

    >>> paths_of(["id", "pricing.base", "pricing.tax.rate"])
    {'pricing.base': ('pricing', 'base'), 'pricing.tax.rate': ('pricing', 'tax', 'rate')}
    >>> paths_of(["a", "a.b", "c..d", "e."])
    {}
    """
    names = list(columns)
    parts = {name: tuple(name.split(".")) for name in names if "." in name}
    paths = {name: path for name, path in parts.items() if all(path) and len(path) <= DEEPEST}
    values = {tuple(name.split(".")) for name in names}
    return {
        name: path
        for name, path in paths.items()
        if not any(path[:length] in values for length in range(1, len(path)))
        and not any(other[: len(path)] == path for other in values if len(other) > len(path))
    }


def as_objects(columns: Mapping[str, Any]) -> dict[str, Any]:
    """What belongs to the columns that may be fields of objects, nested as these objects are.

    >>> as_objects({"id": 1, "pricing.base": 2, "pricing.tax.rate": 3})
    {'pricing': {'base': 2, 'tax': {'rate': 3}}}
    """
    tree: dict[str, Any] = {}
    for name, path in paths_of(columns).items():
        inner = tree
        for part in path[:-1]:
            inner = inner.setdefault(part, {})
        inner[path[-1]] = columns[name]
    return tree


def value_at(row: Mapping[str, Any], path: Iterable[str]) -> Any:
    """The value at the end of a path; None where there is none.

    >>> value_at({"pricing": {"base": 2}}, ("pricing", "base")), value_at({"pricing": 2}, ("pricing", "base"))
    (2, None)
    """
    found: Any = row
    for part in path:
        found = found.get(part) if isinstance(found, Mapping) else None
    return found
