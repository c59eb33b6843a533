"""A table of a store as a batch of rows: planned on the driver, read in tasks.

Tasks load no more than `slices.py`; the rest is loaded where a query is planned.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from latecomer.errors import LatecomerError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from latecomer.after.dataframes.slices import TableSlice
    from latecomer.after.dataframes.tables import TableScan

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


def in_few_words(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """A function whose errors have no traceback: Spark would show all of it."""

    @functools.wraps(function)
    def called(*args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
        try:
            return function(*args, **kwargs)
        except LatecomerError as error:
            raise error.with_traceback(None) from None

    return called


class BatchReader(DataSourceReader):
    """The rows of a table as it is when the query is planned."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options, self._filters = options, list[Any]()
        require_own_schema(asked_plan(options), schema)

    @property
    def pushFilters(self) -> _TakesFilters:  # noqa: N802 - Spark's name
        return _TakesFilters(self._filters.extend)

    @in_few_words
    def partitions(self) -> Sequence[InputPartition]:
        from latecomer.after.dataframes.filters import conditions

        plan = asked_plan(self._options)
        return list(plan.slices(conditions(self._filters, plan.columns)))

    def read(self, partition: TableSlice | None) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        return iter(()) if partition is None else rows_of(partition)


class InTask(DataSourceStreamReader):
    """The stream as tasks have it: the driver tells them what to read."""

    def read(self, partition: TableSlice) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        return rows_of(partition)


def rows_of(part: TableSlice) -> Iterator[pa.RecordBatch]:
    """The rows of a slice, in a task."""
    try:
        yield from part.batches()
    except LatecomerError as error:
        raise error.with_traceback(None) from None


class _TakesFilters:
    """Takes filters, and returns all of them: Spark applies them as well.

    By default `spark.sql.python.filterPushdown.enabled` is off, and Spark then refuses a reader whose `pushFilters` is
    not that of `DataSourceReader`. It compares `__func__`, so this has the one of the base class. Spark calls it only
    where the setting is on.
    """

    def __init__(self, take: Callable[[Iterable[Any]], None]) -> None:
        self._take = take
        self.__func__ = getattr(DataSourceReader, "pushFilters", None)

    def __call__(self, filters: list[Any]) -> list[Any]:
        self._take(filters)
        return filters


def require_own_schema(plan: TableScan, schema: StructType) -> None:
    """Refuse a schema that is not the table's own."""
    from latecomer.after.dataframes.options import refused

    ours = spark_schema(plan)
    if [(each.name, each.dataType) for each in schema] != [(each.name, each.dataType) for each in ours]:
        fix = "leave it out: the columns are those of the store"
        raise refused("schema", "is not that of the table", schema.simpleString(), fix)


def asked_plan(options: Mapping[str, str]) -> TableScan:
    from latecomer.after.dataframes.options import wanted
    from latecomer.after.dataframes.tables import plan_of
    from latecomer.after.reading.reader import Reader

    request = wanted(options)
    return plan_of(Reader(request.pipeline), request.asked)


def spark_schema(plan: TableScan) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(plan.schema)
