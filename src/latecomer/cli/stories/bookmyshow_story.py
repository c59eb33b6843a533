"""The story of `bookmyshow`: run, correct, run again, rebuild; and the numbers at each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa
from pyspark.sql import SparkSession

from latecomer.after.reading.reader import Reader
from latecomer.after.rebuild import rebuilding
from latecomer.after.serving.correcting import correct
from latecomer.after.serving.served import serving
from latecomer.cli.stories.bookmyshow import OUTPUT, START, Place, Scenario
from latecomer.config.load import load_pipeline
from latecomer.config.models import Pipeline
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.ledger.report import BatchReport
from latecomer.engine.running import run
from latecomer.model.durations import to_micros
from latecomer.spark.base import Work
from latecomer.store.store import open_store

RANGE = START, START + timedelta(hours=1)

Views = Mapping[Place, int]


@dataclass(frozen=True)
class Moment:
    """What could be read at one time of the story."""

    name: str
    views: Views


@dataclass(frozen=True)
class Account:
    """The story in figures, all of them read from the store."""

    moments: tuple[Moment, ...]
    log: Views
    """A plain count over the log, when everything has arrived."""
    set_aside: tuple[int, int]
    """How many events were in the side output in the evening, and the next morning."""
    behind: int
    """How many windows and keys had another number in the evening than the log had at that time."""
    rebuilt: rebuilding.Applied
    again: rebuilding.Applied
    differences: list[str]
    """Where the ledger and the tables differ."""
    work: Work
    """What Spark did for both runs."""


def live_through(
    scenario: Scenario,
    *,
    spark: SparkSession | None = None,
    watch: Callable[[BatchReport], None] = lambda _: None,
    doing: Callable[[str], None] = lambda _: None,
) -> Account:
    """Run the evening, correct it, run the next morning, rebuild the hour, and rebuild it once more."""
    pipeline = load_pipeline(scenario.file)
    in_the_evening = run(pipeline, once=True, spark=spark, watch=watch, file=scenario.file)
    reader = Reader(pipeline)
    first, flushed = _first_published(reader), _views(reader.results(OUTPUT))
    doing("correcting …")
    correct(reader, OUTPUT)
    served, then = _views(serving(reader, OUTPUT)), logged(pipeline)
    evening = reader.late(OUTPUT).num_rows
    scenario.let_morning_come()
    doing("the next morning …")
    next_morning = run(pipeline, drain=True, spark=spark, watch=watch, file=scenario.file)
    morning = reader.late(OUTPUT).num_rows
    doing("rebuilding …")
    since, until = map(to_micros, RANGE)
    rebuilt = rebuilding.apply(pipeline, OUTPUT, since, until, spark=spark)
    moments = (
        Moment("first published", first),
        Moment("after the flush", flushed),
        Moment("served with corrections", served),
        Moment("after the rebuild", _views(reader.results(OUTPUT))),
    )
    doing("rebuilding once more …")
    again = rebuilding.apply(pipeline, OUTPUT, since, until, spark=spark)
    doing("checking the ledger …")
    return Account(
        moments,
        logged(pipeline),
        (evening, morning),
        sum(views != then.get(place) for place, views in served.items()),
        rebuilt,
        again,
        check_ledger(pipeline, spark),
        in_the_evening.work + next_morning.work,
    )


def logged(pipeline: Pipeline) -> Views:
    """The views of each minute and city by a plain count over the log."""
    sql = "select date_trunc('minute', event_time) as window_start, city, count(*) as views from t group by 1, 2"
    return _views(open_store(pipeline).events.query(sql))


def _first_published(reader: Reader) -> Views:
    panes = reader.panes(OUTPUT)
    return _views(pa.Table.from_pylist([row for row in panes.to_pylist() if row["timing"] == "ON_TIME"]))


def _views(rows: pa.Table) -> Views:
    return {(row["window_start"], row["city"]): row["views"] for row in rows.to_pylist()}
