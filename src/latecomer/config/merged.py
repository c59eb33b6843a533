"""The columns of a pipeline: those of its source, or of several, put together.

With several sources there is one column more, which says where a row came from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from latecomer.config.models import Pipeline
from latecomer.config.renames import fix_by_renaming
from latecomer.errors import Problem

SOURCE = "source"
"""The column that says which source a row came from, where there are several."""


class Columns(dict[str, str]):
    """Column → type, under the names that the pipeline has for them."""

    def __init__(
        self,
        columns: Mapping[str, str],
        by_source: Mapping[str, Mapping[str, str]] | None = None,
        schemas: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(columns)
        self.schemas = dict(schemas or {})
        """The Avro schemas that columns follow from, as the store pins them."""
        self.by_source: dict[str, dict[str, str]] = {
            name: dict(each) for name, each in (by_source or {}).items()
        }
        """What each of several sources has, as it is read: without the column that says which it is."""

    @classmethod
    def of(cls, columns: Mapping[str, str]) -> Columns:
        """The columns, which may be those of one source alone."""
        return columns if isinstance(columns, Columns) else cls(columns)

    def of_source(self, name: str) -> dict[str, str]:
        """What the rows of a source have."""
        return {**self.by_source[name], SOURCE: "string"} if self.by_source else dict(self)

    def read_from(self, name: str) -> dict[str, str]:
        """What is to be read from a source."""
        return self.by_source[name] if self.by_source else dict(self)


def merged(by_source: Mapping[str, Mapping[str, str]], schemas: Mapping[str, Any] | None = None) -> Columns:
    """The columns of several sources. Of one that two of them have, the type is that of the first: `differing` says
    where that is wrong."""
    columns = {SOURCE: "string"}
    for each in by_source.values():
        columns.update({name: kind for name, kind in each.items() if name not in columns})
    return Columns(columns, by_source, schemas)


def differing(pipeline: Pipeline, columns: Columns) -> Iterator[Problem]:
    """Columns that cannot be put together: other types under one name, or another meaning."""
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
                continue  # a time is a time, however it is written
            elif columns[column] != kind:
                other = first[column]
                message = f"is {kind} here and {columns[column]} in {other}"
                fix = f"declare one type in sources.{name}.schema and sources.{other}.schema, or {fix}"
                yield Problem(field, message, column, fix)
            first.setdefault(column, name)
