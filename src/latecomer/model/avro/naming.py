"""Names and namespaces. The namespace of nothing is the empty text."""

from __future__ import annotations

import re

from latecomer.model.schemas.mistakes import Path, SchemaError

Space = str
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME_FIX = "use letters from A to Z, digits and underscores, and no digit at the beginning"
LONGEST_NAME = 1000


def require_name(name: object, path: Path) -> str:
    """A name without namespace: of a field, a symbol."""
    if not isinstance(name, str) or len(name) > LONGEST_NAME or not _NAME.fullmatch(name):
        raise SchemaError(path, "is no name", _NAME_FIX, name)
    return name


def full_name(name: object, namespace: str | None, around: Space, path: Path) -> str:
    """The full name of a definition.

    >>> full_name("Ride", None, "city", ()), full_name("Ride", "", "city", ()), full_name("a.Ride", "b", "city", ())
    ('city.Ride', 'Ride', 'a.Ride')
    """
    place = (*path, "name")
    if isinstance(name, str) and "." in name:
        return _require_dotted(name, place)
    simple = require_name(name, place)
    space = around if namespace is None else namespace
    if namespace:
        _require_dotted(namespace, (*path, "namespace"))
    return f"{space}.{simple}" if space else simple


def alias_name(alias: str, space: Space, path: Path) -> str:
    """The full name of an alias: like a name, it is in the namespace of its type."""
    return _require_dotted(alias if "." in alias or not space else f"{space}.{alias}", path)


def simple_name(name: str) -> str:
    """A name without its namespace."""
    return name.rpartition(".")[2]


def _require_dotted(name: str, path: Path) -> str:
    if len(name) > LONGEST_NAME or not all(_NAME.fullmatch(each) for each in name.split(".")):
        raise SchemaError(path, "is no name", f"{_NAME_FIX}, in each part between dots", name)
    return name
