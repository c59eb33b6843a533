"""Names and namespaces. No namespace is the empty text."""

from __future__ import annotations

import re

from latecomer.schemas.mistakes import Path, SchemaError

Space = str
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ANY_LETTERS = re.compile(r"[^\W\d]\w*")
"""A name by Java's rule: letters of any script."""
_NAME_FIX = "use letters from A to Z, digits and underscores, and no digit at the beginning"
_DOTTED_FIX = f"{_NAME_FIX}, in each part between dots"
LONGEST_NAME = 1000


def require_name(name: object, path: Path, strict: bool = True) -> str:
    """Refuse what is not a name without namespace, as fields and symbols have it."""
    if not isinstance(name, str) or not _is_name(name, strict):
        raise SchemaError(path, "is no name", _NAME_FIX, name)
    return name


def full_name(name: object, namespace: str | None, around: Space, path: Path, strict: bool = True) -> str:
    """The full name of a definition.

    >>> full_name("Ride", None, "city", ()), full_name("Ride", "", "city", ()), full_name("a.Ride", "b", "city", ())
    ('city.Ride', 'Ride', 'a.Ride')
    """
    place = (*path, "name")
    if isinstance(name, str) and "." in name:
        return _require_dotted(name, place, strict)
    simple = require_name(name, place, strict)
    space = around if namespace is None else namespace
    if namespace and not _is_space(namespace, strict):
        raise SchemaError((*path, "namespace"), "is no name", _DOTTED_FIX, namespace)
    return f"{space}.{simple}" if space else simple


def alias_name(alias: str, space: Space, path: Path, strict: bool = True) -> str:
    """The full name of an alias, which is in the namespace of its type."""
    return _require_dotted(alias if "." in alias or not space else f"{space}.{alias}", path, strict)


def simple_name(name: str) -> str:
    return name.rpartition(".")[2]


def _is_name(name: str, strict: bool) -> bool:
    return len(name) <= LONGEST_NAME and (_NAME if strict else _ANY_LETTERS).fullmatch(name) is not None


def _is_space(space: Space, strict: bool) -> bool:
    """Whether a text may be a namespace. Java takes anything between the dots, such as my-shop."""
    parts = space.split(".")
    return len(space) <= LONGEST_NAME and all(_is_name(each, True) if strict else each for each in parts)


def _require_dotted(name: str, path: Path, strict: bool) -> str:
    space, dot, simple = name.rpartition(".")
    if len(name) > LONGEST_NAME or not _is_name(simple, strict) or (dot and not _is_space(space, strict)):
        raise SchemaError(path, "is no name", _DOTTED_FIX, name)
    return name
