"""Spark puts every event into the window that the model says: offsets, zones, both clock changes."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from latecomer.config.outputs import Output
from latecomer.model.durations import to_micros, to_moment
from latecomer.model.oracle.interpreter import Arrival
from latecomer.model.strategies import Bounded
from latecomer.store.store import open_store
from spark_kit import Bench, assert_same, stored_panes

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
