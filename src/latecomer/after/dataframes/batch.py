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

    from latecomer.after.dataframes.slices import Slice
    from latecomer.after.dataframes.tables import Plan

_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")


def in_few_words(function: Callable[_Given, _Found]) -> Callable[_Given, _Found]:
    """What latecomer says of a mistake, without the way there: Spark shows the whole trace of an error."""

    @functools.wraps(function)
    def called(*args: _Given.args, **kwargs: _Given.kwargs) -> _Found:
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

    def read(self, partition: Slice | None) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        return iter(()) if partition is None else rows_of(partition)


class InTask(DataSourceStreamReader):
    """A stream as tasks know it: the driver says what to read."""

    def read(self, partition: Slice) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        return rows_of(partition)


def rows_of(part: Slice) -> Iterator[pa.RecordBatch]:
    """What a task reads."""
    try:
        yield from part.batches()
    except LatecomerError as error:
        raise error.with_traceback(None) from None


class _TakesFilters:
    """Takes filters, and leaves all of them to Spark as well.

    Spark refuses a reader that takes filters in a session where `spark.sql.python.filterPushdown.enabled` is off, as it
    is unless somebody turns it on. By this name it looks whether a reader does; then it calls it only where it is on.
    """

    def __init__(self, take: Callable[[Iterable[Any]], None]) -> None:
        self._take = take
        self.__func__ = getattr(DataSourceReader, "pushFilters", None)

    def __call__(self, filters: list[Any]) -> list[Any]:
        self._take(filters)
        return filters


def require_own_schema(plan: Plan, schema: StructType) -> None:
    """Refuse columns that somebody else has given."""
    from latecomer.after.dataframes.options import refused

    ours = spark_schema(plan)
    if [(each.name, each.dataType) for each in schema] != [(each.name, each.dataType) for each in ours]:
        fix = "leave it out: the columns are those of the store"
        raise refused("schema", "is not that of the table", schema.simpleString(), fix)


def asked_plan(options: Mapping[str, str]) -> Plan:
    from latecomer.after.dataframes.options import wanted
    from latecomer.after.dataframes.tables import plan_of
    from latecomer.after.reading.reader import Reader

    found = wanted(options)
    return plan_of(Reader(found.pipeline), found.asked)


def spark_schema(plan: Plan) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(plan.schema)
