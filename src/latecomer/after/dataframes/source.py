"""The data source `latecomer` for Spark: the tables of a store, read by Spark's tasks, in a batch or as a stream.

Spark pickles these classes by name to its Python workers: the one that plans a query, and those that read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader

from latecomer.after.dataframes.batch import BatchReader, asked_plan, in_few_words, spark_schema
from latecomer.after.dataframes.stream import ChangeReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

FORMAT = "latecomer"


class LatecomerSource(DataSource):
    """The class behind `spark.read.format("latecomer")`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    @in_few_words
    def schema(self) -> StructType:
        return spark_schema(asked_plan(self.options))

    @in_few_words
    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(dict(self.options), schema)

    @in_few_words
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return ChangeReader(dict(self.options), schema)
