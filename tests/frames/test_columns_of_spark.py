"""Conditions and derived columns of a pipeline, written as Columns of Spark."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

import latecomer
from frames.frames_kit import PIPELINE, write_pipeline
from latecomer.config.spark_columns import as_sql

ROWS = """
select * from values
  (1L, 'OK', cast(1.5 as double), decimal('1.20'), timestamp'2026-11-08 14:00:00Z', array(1, 2), map('k', 'v'),
   named_struct('x', 5), 7, date'2026-01-01', true),
  (2L, "it's \\\\ no", cast('NaN' as double), decimal('-3.00'), null, array(5), map(), null, null, null, null)
as (n, s, d, e, t, l, m, o, `odd name`, day, flag)
"""


def expressions() -> list[Column]:
    return [
        F.col("s") == "OK",
        F.col("s") != "it's \\ no",
        ~F.col("flag") | (F.col("n") > 1) & F.col("t").isNotNull(),
        F.col("n").between(1, 2) & F.col("t").isNull(),
        F.col("n").isin(1, 3),
        F.col("s").like("O%") & F.col("s").rlike("^O\\w$"),
        F.col("s").startswith("O"),
        F.col("odd name") % 3 == F.lit(1),
        F.col("o.x") + 1,
        F.col("l")[0],
        F.col("m")["k"],
        -F.col("n") * 2 - F.col("n") / 4,
        F.col("n").cast("decimal(10,2)"),
        F.col("e") + F.lit(Decimal("0.10")),
        F.col("d") > 0.5,
        F.col("d") == F.lit(float("nan")),
        F.col("n") < 2**40,
        F.col("day") >= F.lit(date(2025, 12, 31)),
        F.when(F.col("n") > 1, "x").when(F.col("flag"), "y").otherwise(F.upper("s")),
        F.when(F.col("n") > 1, None),
        F.coalesce(F.col("odd name"), F.lit(-1)),
        F.date_trunc("hour", "t"),
        F.expr("n + 1 between 2 and 3"),
        F.concat(F.trim("s"), F.lit("é\n")),
        (F.col("n") + 1).alias("more"),
        F.col("n").eqNullSafe(F.col("odd name")),
        F.col("n").bitwiseAND(1),
    ]


def test_the_text_is_the_column(spark: SparkSession) -> None:
    """One query for all of them."""
    columns = expressions()
    texts = [str(as_sql(column)) for column in columns]
    frame = spark.sql(ROWS)
    both = frame.select(
        *(column.alias(f"column{nth}") for nth, column in enumerate(columns)),
        *(F.expr(text).alias(f"text{nth}") for nth, text in enumerate(texts)),
    )
    kinds = [field.dataType for field in both.schema]
    rows = both.collect()
    assert rows
    for nth, text in enumerate(texts):
        assert kinds[nth] == kinds[nth + len(texts)], text
        for row in rows:
            assert repr(row[nth]) == repr(row[nth + len(texts)]), text  # NaN is not itself


def test_what_no_text_says(spark: SparkSession) -> None:
    own = F.udf(lambda n: n + 1, LongType())
    for column in (own("n") > 1, F.lit(datetime(2026, 1, 1)) > F.col("t"), F.lit(b"ab")):
        with pytest.raises(ValueError, match="no SQL text says"):
            as_sql(column)


def test_a_pipeline_with_columns_of_spark(tmp_path: Path, spark: SparkSession) -> None:
    """It is the pipeline that a file with the same SQL makes, and computes the same."""
    text = PIPELINE.replace("by: [shop]", 'by: [named]\n    where: "(paise > 5)"').replace(
        "outputs:", 'columns:\n  named: "upper(shop)"\noutputs:'
    )
    by_file = latecomer.load_pipeline(write_pipeline(tmp_path, text))
    made = latecomer.Pipeline(
        name="taps",
        store="./store",
        base=tmp_path,
        source=latecomer.Source(dataframe=latecomer.Frames(order_by="came")),
        event=latecomer.Event(time="at", id="id"),
        watermark=latecomer.Bounded(delay="10s"),
        ledger=("paise",),
        columns={"named": F.upper("shop")},
        outputs={
            "minutes": latecomer.Output(
                window=latecomer.Tumbling(tumbling="1m"),
                by=("named",),
                where=F.col("paise") > 5,
                aggregates={"taps": "count(*)", "paise": "sum(paise)"},
                allowed_lateness="2m",
                late="retract",
            )
        },
    )
    assert made.outputs == by_file.outputs
    frame = spark.sql(
        "select id, timestamp'2026-11-08 14:00:00Z' at, timestamp'2026-11-08 14:00:01Z' came, 'a' shop, id * 2 paise "
        "from range(6)"
    )
    latecomer.append(made, frame, drain=True)
    (row,) = latecomer.Reader(made).results("minutes").to_pylist()
    assert (row["named"], row["taps"], row["paise"]) == ("A", 3, 24)


def test_a_mistake_names_the_field(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match="no SQL text says"):
        latecomer.Output(
            window=latecomer.Tumbling(tumbling="1m"),
            where=F.udf(lambda n: n, LongType())("n") > 1,
            aggregates={"taps": "count(*)"},
        )
