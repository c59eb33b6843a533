"""Spark puts every event into the window that the model says: offsets, zones, both clock changes."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from latecomer.config.models import Output
from latecomer.log.columns import TIME
from latecomer.model.durations import to_micros, to_moment
from latecomer.model.interpreter import Arrival
from latecomer.model.strategies import Bounded
from latecomer.model.windows import Calendar, Window
from latecomer.model.zones import day_of, midnight
from latecomer.spark.session import own_session
from latecomer.store.store import open_store
from latecomer.windowing.assign import with_windows
from latecomer.windowing.columns import END, START
from spark_kit import Bench, assert_same, stored_panes

pytestmark = pytest.mark.usefixtures("spark_alone")

SECOND, MINUTE, HOUR = 1_000_000, 60_000_000, 3_600_000_000
WINDOWS: dict[str, dict[str, str]] = {
    "minutes_moved": {"tumbling": "5m", "offset": "70s"},
    "kolkata_days": {"tumbling": "1d", "zone": "Asia/Kolkata"},
    "berlin_days": {"tumbling": "1d", "zone": "Europe/Berlin"},
    "berlin_halves": {"tumbling": "30m", "zone": "Europe/Berlin"},
    "berlin_weeks": {"tumbling": "7d", "zone": "Europe/Berlin", "offset": "-6h"},
    "havana_sixths": {"tumbling": "4h", "zone": "America/Havana"},
}
CHANGES = (
    datetime(2026, 3, 29, 1, tzinfo=UTC),  # Berlin, to summer time
    datetime(2026, 10, 25, 1, tzinfo=UTC),  # and back
    datetime(2026, 3, 8, 5, tzinfo=UTC),  # Havana, at midnight of the wall clock
    datetime(2026, 11, 1, 5, tzinfo=UTC),  # and back: its midnight strikes twice
)


def instants() -> list[int]:
    """Around each change: quarter hours for a day and a half, and the moments next to every hour."""
    found = set()
    for change in map(to_micros, CHANGES):
        found |= {change + step * 15 * MINUTE for step in range(-24, 25)}
        found |= {change + step * HOUR for step in range(-36, 37)}
        found |= {change + step * HOUR + aside for step in range(-3, 4) for aside in (-1, 1, 70 * SECOND)}
        found |= {change + (step * 61 + 7) * MINUTE for step in range(-30, 30)}
    return sorted(found)


def test_events_around_the_clock_changes_land_in_the_models_windows(
    spark: SparkSession, tmp_path: Path
) -> None:
    outputs = {
        name: Output(window=window, aggregates={"n": "count(*)", "first": "min(at)", "last": "max(at)"})
        for name, window in WINDOWS.items()
    }
    moments = instants()
    arrivals = [Arrival(moment, moment) for moment in moments]
    bench = Bench(spark, tmp_path, Bounded("1h"), outputs, {}, measures=(), ids=False)
    store = bench.run([arrivals], drain=True)

    for name, output in outputs.items():
        expected = Counter(output.window.assign(moment) for moment in moments)
        panes = [pane for _, pane in stored_panes(store, name)]
        found = {(pane.window_start, pane.window_end): pane.values["n"] for pane in panes}
        assert found == dict(expected), name
        assert len(panes) == len(expected), name
        for pane in panes:
            first, last = to_micros(pane.values["first"]), to_micros(pane.values["last"])
            assert pane.window_start <= first <= last < pane.window_end

    starts = {name: {pane.window_start for _, pane in stored_panes(store, name)} for name in WINDOWS}
    assert {to_moment(start).strftime("%H:%M") for start in starts["kolkata_days"]} == {"18:30"}
    assert {start % (5 * MINUTE) for start in starts["minutes_moved"]} == {70 * SECOND}
    days = {
        to_moment(pane.window_start): (pane.window_end - pane.window_start) // HOUR
        for _, pane in stored_panes(store, "berlin_days")
    }
    assert days[datetime(2026, 3, 28, 23, tzinfo=UTC)] == 23
    assert days[datetime(2026, 10, 24, 22, tzinfo=UTC)] == 25


CALENDARS = {
    # Midnight strikes twice, and is jumped over.
    "havana_days": (Calendar("day", zone="America/Havana"), ("2026-11-01T05:00", "2026-03-08T05:00")),
    # 2011-12-30 is missing.
    "apia_days": (Calendar("day", zone="Pacific/Apia"), ("2011-12-30T10:00",)),
    "apia_weeks": (Calendar("week", zone="Pacific/Apia"), ("2011-12-30T10:00",)),
    "berlin_months": (Calendar("month", zone="Europe/Berlin"), ("2026-03-29T01:00", "2026-10-25T01:00")),
    "new_york_weeks": (Calendar("week", zone="America/New_York"), ("2026-03-08T07:00", "2026-11-01T06:00")),
    "kolkata_months": (Calendar("month", zone="Asia/Kolkata"), ("2024-02-29T18:30", "2026-12-31T18:30")),
    "kolkata_quarters": (Calendar("quarter", zone="Asia/Kolkata"), ("2024-03-31T18:30",)),
    "lord_howe_years": (Calendar("year", zone="Australia/Lord_Howe"), ("2025-12-31T13:00",)),
    # A minute after midnight the clock goes back to the day, and the month, before.
    "st_johns_days": (Calendar("day", zone="America/St_Johns"), ("2009-11-01T02:31", "2010-11-07T02:31")),
    "st_johns_months": (Calendar("month", zone="America/St_Johns"), ("2009-11-01T02:31",)),
    # From half past eleven the clock goes to half past midnight.
    "toronto_days": (Calendar("day", zone="America/Toronto"), ("1919-03-31T04:30",)),
    "toronto_weeks": (Calendar("week", zone="America/Toronto"), ("1919-03-31T04:30",)),
}
MISLED = {"st_johns_days", "st_johns_months", "toronto_days", "toronto_weeks"}
"""Where the wall clock alone names the wrong window for a while."""


def around(window: Calendar, change: int) -> set[int]:
    """Minutes next to a change, hours for two days, days for two months, and the edges of the windows."""
    found = {change + step * 5 * MINUTE for step in range(-24, 25)}
    found |= {change + step * HOUR + aside for step in range(-48, 49) for aside in (-1, 0, 30 * SECOND)}
    found |= {change + step * 25 * HOUR for step in range(-60, 61)}
    edges = {edge for moment in found for edge in window.assign_all(moment)[0]}
    return found | {edge + aside for edge in edges for aside in (-1, 0, 1)}


def test_calendar_windows_at_clock_changes_are_the_models(spark: SparkSession) -> None:
    changes = {
        name: [to_micros(datetime.fromisoformat(f"{change}Z")) for change in written]
        for name, (_, written) in CALENDARS.items()
    }
    moments = {
        name: sorted(set().union(*(around(window, change) for change in changes[name])))
        for name, (window, _) in CALENDARS.items()
    }
    session = own_session(spark)
    assigned = [
        with_windows(session.createDataFrame(pa.table({TIME: moments[name]})), window).select(
            F.lit(name).alias("name"), TIME, START, END
        )
        for name, (window, _) in CALENDARS.items()
    ]
    rows = reduce(DataFrame.union, assigned).toArrow().to_pylist()
    found = {(row["name"], row[TIME]): Window(row[START], row[END]) for row in rows}
    expected = {
        (name, moment): window.assign_all(moment)[0]
        for name, (window, _) in CALENDARS.items()
        for moment in moments[name]
    }
    assert len(rows) == len(expected)
    assert {place: window for place, window in found.items() if window != expected[place]} == {}
    assert all(held.start <= moment < held.end for (_, moment), held in found.items())
    zones = {name: window.zone for name, (window, _) in CALENDARS.items()}
    misled = {
        name
        for (name, moment), held in found.items()
        if not held.start <= midnight(day_of(moment, zones[name]), zones[name]) < held.end
    }
    assert misled == MISLED


def test_late_events_at_a_clock_change_are_judged_by_their_own_windows_end(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Zoned windows through lateness, against the oracle; then a file after the drain."""
    change = to_micros(CHANGES[1])
    outputs = {
        "days": Output(
            window={"tumbling": "1d", "zone": "Europe/Berlin"},
            aggregates={"n": "count(*)"},
            allowed_lateness="2h",
            late="retract",
        )
    }
    midnight = change + 22 * HOUR  # 23:00Z, when the day of 25 hours ends
    batches = [
        [Arrival(change, change), Arrival(midnight - 1, midnight - 1), Arrival(midnight, midnight)],
        [Arrival(change + HOUR, midnight + HOUR), Arrival(midnight + 2 * HOUR, midnight + 2 * HOUR)],
        [Arrival(change - HOUR, midnight + 3 * HOUR), Arrival(midnight + 3 * HOUR, midnight + 3 * HOUR)],
    ]
    bench = Bench(spark, tmp_path, Bounded("0s", every="event"), outputs, {}, measures=(), ids=False)
    store = bench.run(batches, drain=True)
    assert_same(bench, store, bench.oracle(batches, drain=True), batches)

    engine = bench.engine()
    engine.data(3, bench.write(3, [Arrival(midnight + 4 * HOUR, midnight + 4 * HOUR)]))
    engine.sinks.close()
    ledger = open_store(bench.pipeline).ledger
    (entry,) = ledger.query("select side_output from t where batch = 4 and unit = 'events'").to_pylist()
    assert entry["side_output"] == 1
