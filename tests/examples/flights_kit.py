"""The flights counted again with Polars, from the files alone, and held against what a store says."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from latecomer.after.reading.reader import Reader
from latecomer.config.models import Pipeline

ZONE = "America/New_York"
TIMES = ("scheduled", "reported")


def read_files(folder: Path, form: str) -> pl.DataFrame:
    """Every flight of the files, with its times by the wall clock, as they are written."""
    readers = {"json": pl.read_ndjson, "csv": pl.read_csv, "parquet": pl.read_parquet}
    flights = pl.concat([readers[form](file) for file in sorted(folder.iterdir())])
    if form == "parquet":
        return flights
    return flights.with_columns(
        pl.col(name).str.to_datetime("%Y-%m-%d %H:%M", time_unit="us") for name in TIMES
    )


def counted(flights: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """What each output of the pipeline counts, by the day and the hour on the wall at which windows begin."""
    day = pl.col("scheduled").dt.date().alias("day")
    delays = {name: pl.col(name).sum().alias(name) for name in ("dep_delay", "arr_delay")}
    six_hours = flights.group_by(day, (pl.col("scheduled").dt.hour() // 6 * 6).alias("hour"), "origin").agg(
        pl.len().alias("flights"), pl.col("dep_delay").count().alias("departed"), delays["dep_delay"]
    )
    days = flights.group_by(day, "carrier").agg(
        pl.len().alias("flights"),
        pl.col("arr_delay").count().alias("arrived"),
        delays["arr_delay"],
        pl.col("arr_delay").max().alias("latest"),
    )
    return {"six_hours": six_hours, "days": days}


def without_side_output(flights: pl.DataFrame, reader: Reader, output: str) -> pl.DataFrame:
    """The flights that were in time for an output; those that were not are in its side output, each once."""
    # `origin` is in the envelope the file that a row came from; the source's own is beside it.
    names = {"event_time": "scheduled", "arrival_time": "reported", "payload_origin": "origin"}
    late = _local(pl.DataFrame(reader.late(output)).drop("origin").rename(names))
    same = [name for name in flights.columns if name in late.columns]
    number = pl.int_range(pl.len()).over(same).alias("nth")
    numbered, aside = flights.with_columns(number), late.select(same).with_columns(number)
    kept = numbered.join(aside, on=[*same, "nth"], how="anti", nulls_equal=True)
    assert kept.height == flights.height - late.height, "what is in the side output was in the files"
    return kept.drop("nth")


def standing(reader: Reader, output: str) -> pl.DataFrame:
    """The numbers that stand, by the wall clock on which their windows begin."""
    rows = _local(pl.DataFrame(reader.results(output)))
    at = [pl.col("window_start").dt.date().alias("day"), pl.col("window_start").dt.hour().alias("hour")]
    return rows.with_columns(at)


def assert_exact(pipeline: Pipeline, flights: pl.DataFrame) -> dict[str, int]:
    """Every result of every output is Polars' to the last digit; how many flights each set aside."""
    reader, aside = Reader(pipeline), {}
    for output in ("six_hours", "days"):
        in_time = without_side_output(flights, reader, output)
        expected, found = counted(in_time)[output], standing(reader, output)
        order = [name for name in ("day", "hour", "origin", "carrier") if name in expected.columns]
        # A sum of nothing but nulls is null in SQL and zero in Polars; the count beside it tells them apart.
        found = found.with_columns(pl.col("^(dep|arr)_delay$").fill_null(0)).select(expected.columns)
        expected = expected.cast(dict(found.schema)).sort(order)
        assert found.sort(order).equals(expected), output
        aside[output] = flights.height - in_time.height
    return aside


def _local(rows: pl.DataFrame) -> pl.DataFrame:
    moments = [name for name, kind in rows.schema.items() if isinstance(kind, pl.Datetime)]
    return rows.with_columns(
        pl.col(name).dt.convert_time_zone(ZONE).dt.replace_time_zone(None).dt.cast_time_unit("us")
        for name in moments
    )
