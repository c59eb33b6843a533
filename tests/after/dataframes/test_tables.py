"""Every table as a DataFrame: what the reader says, in exact types, read by tasks."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import latecomer
from after.dataframes.dataframes_kit import loaded, read_by, same_rows
from cli.cli_kit import Lake
from latecomer.after.dataframes.tables import OF_OUTPUT, Table
from latecomer.store.layout import LEDGER


@pytest.mark.parametrize("table", Table)
def test_a_dataframe_is_what_the_reader_says(spark: SparkSession, lake: Lake, table: Table) -> None:
    latecomer.correct(lake.pipeline, "minutes")
    options = {"output": "minutes"} if table in OF_OUTPUT else {}
    found = loaded(spark, lake, table=table, **options).toArrow()
    expected = read_by(lake, table)
    assert expected.num_rows
    if table is Table.LEDGER:  # as many digits as are stored, whatever the measures are
        expected = expected.cast(LEDGER)
    same_rows(found, expected)
    kinds = {field.name: field.type for field in expected.schema if not pa.types.is_nested(field.type)}
    assert {name: found.schema.field(name).type for name in kinds} == kinds
