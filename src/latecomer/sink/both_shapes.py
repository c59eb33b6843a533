"""Two shapes of events in one table, while a migration goes on: a view with both, and the steps of each phase.

Readers see the same view in every phase. It has the columns of both shapes. Where a row lacks a column of one shape, it
is computed from the other. The last phase drops the columns of the old shape, unless a value would be lost. Going back
adds them again, with the values in the store; values that the store does not have are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from latecomer.store.sql import double_quoted

VIEW = "_both_shapes"
"""The end of the view's name, after the table's name."""


@dataclass(frozen=True)
class BothShapes:
    """The columns of both shapes in a table, and the SQL that computes each from the other shape."""

    old: Mapping[str, str]
    """Column → SQL over the new shape."""
    new: Mapping[str, str | None]
    """Column → SQL over the old shape; None where the old shape does not determine it."""
    quoted: Callable[[str], str] = double_quoted
    """How the table's SQL names a column."""


@dataclass(frozen=True)
class TableSteps:
    """The steps that a table still needs for its phase."""

    fills: Mapping[str, str]
    """New columns to compute from the old shape where they are null → SQL."""
    drops: tuple[str, ...]
    brings: Mapping[str, str]
    """Old columns to add again → SQL for rows whose value the store does not have."""
    completes: Mapping[str, str]
    """New columns to compute for rows that came in the old shape after its columns were dropped. The store has the old
    shape."""
    columns: tuple[str, ...]
    """The columns of the table after these steps."""
    view: str
    """The columns of the view after these steps, in SQL."""
    left_out: tuple[str, ...]
    """All columns that batches leave out from then on."""

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
    """The steps for a table with these columns. `wanted` are all columns of both shapes, in order, with their types."""
    drops = tuple(name for name in shapes.old if contracted and name in existing)
    missing = {name for name in shapes.old if not contracted and (name in left_out or name not in existing)}
    brings = {name: sql for name, sql in shapes.old.items() if name in missing}
    computed = {name: sql for name, sql in shapes.new.items() if sql is not None}
    after = [*(name for name in existing if name not in (*drops, *brings)), *brings]
    others = {name for name in left_out if name not in shapes.old}
    return TableSteps(
        computed if drops else {},
        drops,
        brings,
        computed if contracted and not drops else {},
        tuple(after),
        view_columns(after, wanted, shapes),
        tuple(sorted(others | (set(shapes.old) if contracted else set()))),
    )


def view_columns(existing: Collection[str], wanted: Mapping[str, str], shapes: BothShapes) -> str:
    """The columns of the view in SQL: where a column of one shape is null, it is computed from the other; an old column
    that was dropped is always computed. Order and types are the same in every phase.

    >>> both = BothShapes({"cents": '"base" + "tax"'}, {"base": None, "tax": None})
    >>> view_columns(["id", "base", "tax"], {"id": "", "cents": "bigint", "base": "", "tax": ""}, both)
    '"id", CAST("base" + "tax" AS bigint) AS "cents", "base", "tax"'
    """
    # Without the old columns, the new ones cannot be computed: they were filled before.
    computed = {**(shapes.new if set(shapes.old) <= set(existing) else {}), **shapes.old}
    parts = []
    for name, kind in wanted.items():
        column, sql = shapes.quoted(name), computed.get(name)
        if name not in existing and name not in shapes.old:
            continue
        if sql is None:
            parts.append(column)
            continue
        value = f"coalesce({column}, {sql})" if name in existing else sql
        parts.append(f"{f'CAST({value} AS {kind})' if kind else value} AS {column}")
    return ", ".join(parts)


def would_lose(name: str, sql: str) -> str:
    """The condition of a row whose old value could not be computed again from the new shape."""
    return f"{double_quoted(name)} IS NOT NULL AND ({sql}) IS NULL"


def update_from(table: str, staged: str, values: str, place: Collection[str]) -> str:
    """The statement that gives the rows of a table values that are computed from the staged ones."""
    same = " AND ".join(f"stored.{each} = staged.{each}" for each in map(double_quoted, place))
    return f"UPDATE {table} AS stored SET {values} FROM {staged} AS staged WHERE {same}"


def filled_values(computed: Mapping[str, str]) -> str:
    """Columns that are computed where they are null, for an UPDATE: all at once, as in the view."""
    return ", ".join(f"{double_quoted(name)} = {_filled(name, sql)}" for name, sql in computed.items())


def filled_columns(names: Collection[str], computed: Mapping[str, str]) -> str:
    """The same as columns of a SELECT."""
    return ", ".join(
        f"{_filled(name, computed[name])} AS {double_quoted(name)}"
        if name in computed
        else double_quoted(name)
        for name in names
    )


def _filled(name: str, sql: str) -> str:
    return f"coalesce({double_quoted(name)}, {sql})"
