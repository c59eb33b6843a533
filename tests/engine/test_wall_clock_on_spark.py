"""Spark puts every event of a zone into the model's window, around every kind of clock change."""

from __future__ import annotations

import random
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from latecomer.log.columns import TIME
from latecomer.model.windows import Tumbling, Window
from latecomer.spark.session import own_session
from latecomer.windowing.assign import with_windows
from latecomer.windowing.columns import END, START
from zone_kit import HOUR, MINUTE, changes

WINDOWS = [
    Tumbling(size, zone=zone, offset=offset)
    for size, zone, offset in (
        ("6h", "America/New_York", "0s"),
        ("1h", "America/New_York", "0s"),
        ("20m", "America/New_York", "10m"),
        ("12h", "America/New_York", "2h30m"),
        ("90m", "Europe/Berlin", "0s"),
        ("30m", "Europe/Berlin", "0s"),
        ("1h", "America/Havana", "30m"),
        ("6h", "America/Havana", "0s"),
        ("2h", "America/Santiago", "0s"),
        ("6h", "Australia/Lord_Howe", "0s"),
        ("1h", "Australia/Lord_Howe", "0s"),
        ("20m", "Australia/Lord_Howe", "0s"),
        ("6h", "Pacific/Apia", "0s"),
        ("1h", "Pacific/Apia", "0s"),
        ("8h", "America/St_Johns", "-1h"),
        ("1h", "America/St_Johns", "0s"),
        ("1h", "Antarctica/Casey", "0s"),
        ("2h", "Antarctica/Troll", "0s"),
        ("4h", "Africa/Casablanca", "0s"),
        ("15m", "Asia/Kathmandu", "0s"),
    )
]


def moments(window: Tumbling) -> list[int]:
    """Next to some of the zone's changes: every half hour, moments drawn, and the edges of the windows."""
    rng = random.Random(f"{window}")
    known = list(changes(window.zone, 1971, 2030))
    found = set()
    for change in rng.sample(known, min(8, len(known))):
        found |= {change + step * 30 * MINUTE for step in range(-30, 31)}
        found |= {change + rng.randrange(-30 * HOUR, 30 * HOUR) for _ in range(20)}
    edges = {edge for moment in found for edge in window.assign(moment)}
    return sorted(found | edges | {edge - 1 for edge in edges})


def test_windows_within_days_are_the_models_in_many_zones(spark: SparkSession) -> None:
    session = own_session(spark)
    asked = [moments(window) for window in WINDOWS]
    assigned = [
        with_windows(session.createDataFrame(pa.table({TIME: listed})), window).select(
            F.lit(number).alias("window"), TIME, START, END
        )
        for number, (window, listed) in enumerate(zip(WINDOWS, asked, strict=True))
    ]
    rows = reduce(DataFrame.union, assigned).toArrow().to_pylist()
    assert len(rows) == sum(map(len, asked)) > 10_000
    wrong = [
        (WINDOWS[row["window"]], row)
        for row in rows
        if WINDOWS[row["window"]].assign(row[TIME]) != Window(row[START], row[END])
    ]
    assert wrong == []
    lengths = {row[END] - row[START] for row in rows if row["window"] == 0}
    assert lengths == {5 * HOUR, 6 * HOUR, 7 * HOUR}
