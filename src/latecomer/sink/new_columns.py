"""How the table of a sink follows a pipeline whose columns are new or have wider types.

A new column is null in past rows. A column of the source that is declared later is a column of the side output, too.
Any other difference is refused, as is the table of somebody else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from latecomer.config.contract import PaneShape, Shape
from latecomer.model.types import widened_type

_BY_WIDTH = (
    ("smallint", "integer", "bigint"),  # Postgres
    ("real", "double precision"),
    ("byte", "short", "integer", "long"),  # Delta
    ("int8", "int16", "int32", "int64"),  # Arrow
    ("float", "double"),
)
_ARROW_LIST = re.compile(r"\blist<\w+: ")
_DECIMAL = re.compile(r"(?:numeric|decimal|decimal128)\((\d+), ?(\d+)\)")


@dataclass(frozen=True)
class Steps:
    """The changes that give a table the wanted columns."""

    added: Mapping[str, str]
    """Column → its type, as the database writes it."""
    widened: Mapping[str, str]

    def __bool__(self) -> bool:
        return bool(self.added or self.widened)

    def __str__(self) -> str:
        parts = [f"{name} is new" for name in self.added]
        return ", ".join([*parts, *(f"{name} is {kind} now" for name, kind in self.widened.items())])


def steps_to(found: Mapping[str, str], wanted: Mapping[str, str], shape: Shape) -> Steps | None:
    """The changes from the columns that exist to the wanted ones; None where there is no way.

    A column that identifies a row cannot be added: it would be null in all existing rows. A column that is no longer
    wanted stays in a table of rows, and is null in new rows. In a table of the panes that stand it would keep values of
    panes that were replaced long ago: it is refused.
    """
    added = {name: kind for name, kind in wanted.items() if name not in found}
    changed = {name: kind for name, kind in wanted.items() if found.get(name, kind) != kind}
    unwanted = [name for name in found if name not in wanted]
    addable = set(shape.schema.names).difference(shape.place)
    if isinstance(shape, PaneShape):
        addable = set(shape.values)
    if not set(added) <= addable or (unwanted and not shape.appends):
        return None
    if not all(is_wider(kind, found[name]) for name, kind in changed.items()):
        return None
    return Steps(added, changed)


def is_wider(kind: str, than: str) -> bool:
    """Whether a type of a database holds every value of another type, and more.

    >>> is_wider("bigint", "integer"), is_wider("long", "integer"), is_wider("integer", "bigint")
    (True, True, False)
    >>> is_wider("numeric(20,2)", "numeric(10,2)"), is_wider("numeric(20,3)", "numeric(10,2)")
    (True, False)
    >>> is_wider("array<struct<n:long,t:string>>", "array<struct<n:integer>>")
    True
    >>> is_wider("map<string, list<element: int64>>", "map<string, list<element: int32>>")
    True
    """
    new, old = (_ARROW_LIST.sub("array<", each) for each in (kind, than))
    try:
        return widened_type(old, new, _is_wider_plain) not in (None, old)
    except ValueError:  # a file with type names that are not ours
        return False


def _is_wider_plain(kind: str, than: str) -> bool:
    if any(
        kind in family and than in family and family.index(kind) > family.index(than) for family in _BY_WIDTH
    ):
        return True
    if (kind, than) == ("", "INTEGER"):  # SQLite: whole numbers beyond 64 bits are kept as they are bound
        return True
    new, old = _DECIMAL.fullmatch(kind), _DECIMAL.fullmatch(than)
    return bool(new and old and new[2] == old[2] and int(new[1]) > int(old[1]))
