"""The columns of a pipeline: those of its source, or of all its sources together.

With several sources there is one more column, which names the source of each row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from latecomer.config.models import Pipeline
from latecomer.config.renames import fix_by_renaming
from latecomer.errors import Problem

SOURCE = "source"
"""The column that names the source of a row, where there are several sources."""


class Columns(dict[str, str]):
    """Column → type, under the names that the pipeline uses."""

    def __init__(
        self,
        columns: Mapping[str, str],
        by_source: Mapping[str, Mapping[str, str]] | None = None,
        schemas: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(columns)
        self.schemas = dict(schemas or {})
        """The Avro schemas that give the columns, as the store pins them."""
        self.by_source: dict[str, dict[str, str]] = {
            name: dict(each) for name, each in (by_source or {}).items()
        }
        """The columns that are read from each of several sources: without the column that names the source."""

    @classmethod
    def of(cls, columns: Mapping[str, str]) -> Columns:
        """The columns as an instance of this class; a plain mapping has those of a single source."""
        return columns if isinstance(columns, Columns) else cls(columns)

    def of_source(self, name: str) -> dict[str, str]:
        """The columns in the rows of a source."""
        return {**self.by_source[name], SOURCE: "string"} if self.by_source else dict(self)

    def read_from(self, name: str) -> dict[str, str]:
        """The columns to read from a source."""
        return self.by_source[name] if self.by_source else dict(self)


def merged(by_source: Mapping[str, Mapping[str, str]], schemas: Mapping[str, Any] | None = None) -> Columns:
    """The columns of several sources. A column that two of them have gets the type in the first one; `differing` finds
    other types."""
    columns = {SOURCE: "string"}
    for each in by_source.values():
        columns.update({name: kind for name, kind in each.items() if name not in columns})
    return Columns(columns, by_source, schemas)


def differing(pipeline: Pipeline, columns: Columns) -> Iterator[Problem]:
    """Problems with columns of several sources that have the same name and differ in type or meaning."""
    views = pipeline.views
    arrivals = {view.order_by for view in views.values()}
    first: dict[str, str] = {}
    for name, each in columns.by_source.items():
        view = views[name]
        for column, kind in each.items():
            field, source_name = f"sources.{name}.schema", view.source_name(column)
            fix = fix_by_renaming(source_name, columns).replace("columns:", f"sources.{name}.columns:")
            if column == SOURCE:
                yield Problem(
                    field, "every row has a column of this name: the source it came from", column, fix
                )
            elif column in arrivals and column != view.order_by:
                message = "is the arrival time of another source, and a column like any other here"
                yield Problem(field, message, column, fix)
            elif column in (view.order_by, view.event.time):
                continue  # times of all types become timestamps
            elif columns[column] != kind:
                other = first[column]
                message = f"is {kind} here and {columns[column]} in {other}"
                fix = f"declare one type in sources.{name}.schema and sources.{other}.schema, or {fix}"
                yield Problem(field, message, column, fix)
            first.setdefault(column, name)
