"""Two shapes of events in one table, while a migration goes on: a view that has both, and what is done in each phase.

The view is the same for its readers in every phase. It has the columns of both shapes, and where a row lacks one, it is
computed from the other. In the last phase the columns of the old shape are dropped, if no row would lose by that; going
back brings them again, as the store has them, and computed where it has none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from latecomer.store.sql import double_quoted

VIEW = "_both_shapes"
"""What the name of the view ends with, after that of the table."""


@dataclass(frozen=True)
class BothShapes:
    """The columns of both shapes in a table, and what computes each from the other shape, in the table's SQL."""

    old: Mapping[str, str]
    """Column → SQL over the new shape."""
    new: Mapping[str, str | None]
    """Column → SQL over the old shape; None where that does not determine it."""
    quoted: Callable[[str], str] = double_quoted
    """How the table's SQL names a column."""


@dataclass(frozen=True)
class TableSteps:
    """What a table still needs to be as its phase wants it."""

    fills: Mapping[str, str]
    """New columns that get what the old shape says, where they are null."""
    drops: tuple[str, ...]
    brings: Mapping[str, str]
    """Old columns that come again → SQL for the rows that the store has none of."""
    completes: Mapping[str, str]
    """New columns of rows that have come in the old shape alone since that was dropped: the store has it."""
    columns: tuple[str, ...]
    """The columns that the table has after it."""
    view: str
    """The columns of the view after it, in SQL."""
    left_out: tuple[str, ...]
    """All columns of the table that are left out from then on."""

    @property
    def changes_table(self) -> bool:
        return bool(self.drops or self.brings)

    def __str__(self) -> str:
        parts = [f"drop {name}" for name in self.drops]
        parts += [f"bring back {name}" for name in self.brings]
        return ", ".join(parts) or "its columns stay as they are"


def table_steps(
    existing: Collection[str],
    wanted: Mapping[str, str],
    left_out: Collection[str],
    shapes: BothShapes,
    contracted: bool,
) -> TableSteps:
    """What to do with a table that has these columns. `wanted` are all that a table of it has in the phases between the
    first and the last, in their order, and their types."""
    drops = tuple(name for name in shapes.old if contracted and name in existing)
    missing = {name for name in shapes.old if not contracted and (name in left_out or name not in existing)}
    brings = {name: sql for name, sql in shapes.old.items() if name in missing}
    made = {name: sql for name, sql in shapes.new.items() if sql is not None}
    after = [*(name for name in existing if name not in (*drops, *brings)), *brings]
    others = {name for name in left_out if name not in shapes.old}
    return TableSteps(
        made if drops else {},
        drops,
        brings,
        made if contracted and not drops else {},
        tuple(after),
        view_columns(after, wanted, shapes),
        tuple(sorted(others | (set(shapes.old) if contracted else set()))),
    )


def view_columns(existing: Collection[str], wanted: Mapping[str, str], shapes: BothShapes) -> str:
    """Each column as it is, and those of both shapes complete: an old one that is gone is computed alone. Order and
    types are the same in every phase.

    >>> both = BothShapes({"cents": '"base" + "tax"'}, {"base": None, "tax": None})
    >>> view_columns(["id", "base", "tax"], {"id": "", "cents": "bigint", "base": "", "tax": ""}, both)
    '"id", CAST("base" + "tax" AS bigint) AS "cents", "base", "tax"'
    """
    # Without the old columns there is nothing to compute the new ones from: they were filled before.
    made = {**(shapes.new if set(shapes.old) <= set(existing) else {}), **shapes.old}
    parts = []
    for name, kind in wanted.items():
        column, sql = shapes.quoted(name), made.get(name)
        if name not in existing and name not in shapes.old:
            continue
        if sql is None:
            parts.append(column)
            continue
        value = f"coalesce({column}, {sql})" if name in existing else sql
        parts.append(f"{f'CAST({value} AS {kind})' if kind else value} AS {column}")
    return ", ".join(parts)


def would_lose(name: str, sql: str) -> str:
    """The condition of a row whose old column nothing could bring back in the table."""
    return f"{double_quoted(name)} IS NOT NULL AND ({sql}) IS NULL"


def complete(table: str, staged: str, made: Mapping[str, str], place: Collection[str]) -> str:
    """The statement that computes new columns from the old ones, which only the staged rows have."""
    same = " AND ".join(f"stored.{each} = staged.{each}" for each in map(double_quoted, place))
    values = ", ".join(f"{double_quoted(name)} = {_filled(name, sql)}" for name, sql in made.items())
    return f"UPDATE {table} AS stored SET {values} FROM {staged} AS staged WHERE {same}"


def refill(table: str, staged: str, name: str, place: Collection[str]) -> str:
    """The statement that gives the rows of a table what is staged of a column."""
    same = " AND ".join(f"stored.{each} = staged.{each}" for each in map(double_quoted, place))
    column = double_quoted(name)
    return f"UPDATE {table} AS stored SET {column} = staged.{column} FROM {staged} AS staged WHERE {same}"


def fill(table: str, made: Mapping[str, str]) -> str:
    """The statement that gives the rows that have none what is computed of columns: of all at once, as in the view."""
    values = ", ".join(f"{double_quoted(name)} = {_filled(name, sql)}" for name, sql in made.items())
    return f"UPDATE {table} SET {values}"


def filled_columns(names: Collection[str], made: Mapping[str, str]) -> str:
    """The same as columns of a SELECT."""
    return ", ".join(
        f"{_filled(name, made[name])} AS {double_quoted(name)}" if name in made else double_quoted(name)
        for name in names
    )


def _filled(name: str, sql: str) -> str:
    return f"coalesce({double_quoted(name)}, {sql})"
