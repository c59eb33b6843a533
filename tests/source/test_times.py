"""Event and arrival times: every way of writing one, and what becomes of those that cannot be meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from latecomer.config.sources import Unit
from latecomer.log.moments import micros
from latecomer.model.durations import EARLIEST, LATEST, to_micros
from latecomer.model.zones import to_utc
from latecomer.store.layout import arrow_type
from latecomer.store.store import Store
from source.source_kit import dead_letters, landed, ledger_lines, pipeline_in, rows_of, run_once, write_json
from zone_kit import changes, wall

NOON = datetime(2026, 11, 8, 12, 0, tzinfo=UTC)
INDIA = timedelta(hours=5, minutes=30)
SECOND = 1_000_000
SEEN = int(NOON.timestamp()) * SECOND
FAR = -9_223_372_036_854_775_808

ZONED = {
    "2026-11-08T12:00:00Z": NOON,
    "2026-11-08T12:00:00.123456Z": NOON + timedelta(microseconds=123456),
    "2026-11-08 12:00:00+00:00": NOON,
    "2026-11-08T17:30:00+05:30": NOON,
    "2026-11-08T17:30:00+0530": NOON,
    "2026-11-08T04:00:00-08": NOON,
    "2026-11-08T12:00:00 UTC": NOON,
    "2026-11-08 17:30:00 Asia/Kolkata": NOON,
    "2026-11-08T13:00:00Europe/Berlin": NOON,
}
BARE = {
    "2026-11-08T12:00:00": NOON,
    "2026-11-08 12:00": NOON,
    "2026-11-08 12:00:00.5": NOON + timedelta(milliseconds=500),
    "2026-11-08": NOON - timedelta(hours=12),
}
UNREADABLE = (
    "soon", "12:30", "2026", "2026-11", "", "1794146400", "2026-13-01", "2026-02-30", "2026-11-08T25:00:00",
    "2026-11-08T12:00:00+99:00", "08-11-2026 12:00", "99999-01-01", "0001-01-01T00:00:00Z",
)  # fmt: skip


def store_of(
    spark: SparkSession,
    folder: Path,
    kind: str,
    times: Sequence[Any],
    seen: Sequence[Any] = (),
    watermark: Mapping[str, Any] | None = None,
    zone: str = "UTC",
    unit: str | None = None,
    outputs: Mapping[str, Any] | None = None,
) -> Store:
    """The times as one file of events, the nth with n as its number, all seen at noon unless said."""
    pipeline = pipeline_in(
        folder,
        files={"order_by": "seen", "unit": "us"},
        schema={"at": kind, "seen": "bigint", "n": "bigint"},
        event={"zone": zone, "unit": unit},
        watermark={"max_future": "36500d", **(watermark or {})},
        outputs=outputs,
        ledger=["n"],
    )
    arrivals = [*seen, *[SEEN] * (len(times) - len(seen))]
    rows = [
        {"at": at, "seen": when, "n": n} for n, (at, when) in enumerate(zip(times, arrivals, strict=True))
    ]
    write_json(folder, "a.json", rows)
    return run_once(pipeline, spark)


def event_times(store: Store) -> dict[int, datetime]:
    return {row["n"]: row["event_time"] for row in rows_of(store.events, "select n, event_time from t")}


def reasons(store: Store) -> list[tuple[int, str]]:
    return [(position, reason) for reason, _, _, position in dead_letters(store)]


@pytest.mark.parametrize(("zone", "ahead"), [("UTC", timedelta(0)), ("Asia/Kolkata", INDIA)])
def test_a_written_zone_holds_and_event_zone_fills_in_for_none(
    spark: SparkSession, tmp_path: Path, zone: str, ahead: timedelta
) -> None:
    meant = {**ZONED, **{text: moment - ahead for text, moment in BARE.items()}}
    times = [*meant, *UNREADABLE, None]
    store = store_of(spark, tmp_path, "string", times, zone=zone)
    found = {times[n]: moment for n, moment in event_times(store).items()}
    assert found == {text: moment for text, moment in meant.items() if moment is not None}
    bad = [text for text in times if meant.get(text or "") is None]
    assert [(times[n], reason) for n, reason in reasons(store)] == [
        (text, "no_event_time" if text is None else "unreadable_event_time") for text in bad
    ]
    numbers = sum(times.index(text) for text in bad)
    assert ledger_lines(store, "totals")[0, "n"]["dead_letter"] == numbers


CLOCK_CHANGES = {
    # New York skips 02:00 to 03:00, and shows 01:00 to 02:00 twice.
    ("America/New_York", "2013-03-10 02:30"): "2013-03-10T07:30Z",
    ("America/New_York", "2013-11-03 01:30"): "2013-11-03T05:30Z",
    ("America/New_York", "2013-11-03 02:00"): "2013-11-03T07:00Z",
    # Havana skips midnight; on Lord Howe Island the clock goes by half an hour; Samoa skipped a day.
    ("America/Havana", "2026-03-08"): "2026-03-08T05:00Z",
    ("Australia/Lord_Howe", "2026-10-04 02:10"): "2026-10-03T15:40Z",
    ("Pacific/Apia", "2011-12-30 12:00"): "2011-12-30T22:00Z",
}


def test_a_time_that_is_skipped_or_comes_twice_is_read_as_documented_and_as_the_model_does() -> None:
    """In text and in columns without a zone; the model's reading is the oracle's and the command line's."""
    asked = {zone: [text for where, text in CLOCK_CHANGES if where == zone] for zone, _ in CLOCK_CHANGES}
    for zone, texts in asked.items():
        for change in list(changes(zone, 2009, 2027))[:6]:
            shown = datetime.fromisoformat(f"{wall(change, zone):%Y-%m-%d %H:%M}")
            texts += [f"{shown + timedelta(minutes=step):%Y-%m-%d %H:%M}" for step in range(-130, 131, 10)]
        shown = pa.array([datetime.fromisoformat(text) for text in texts], pa.timestamp("us"))
        found = zip(
            texts,
            micros(pa.array(texts), "string", None, zone).to_pylist(),
            micros(shown, "timestamp_ntz", None, zone).to_pylist(),
            strict=True,
        )
        for text, of_text, of_clock in found:
            meant = to_utc(to_micros(datetime.fromisoformat(text)), zone)
            assert of_text == of_clock == meant, (zone, text)
            if (zone, text) in CLOCK_CHANGES:
                assert meant == to_micros(datetime.fromisoformat(CLOCK_CHANGES[zone, text]))


EPOCHS: dict[tuple[str, Unit], dict[Any, int | None]] = {
    ("int", "s"): {1_794_139_200: 0},
    ("bigint", "s"): {1_794_139_200: 0, FAR: None, 253_402_300_800: None},
    ("bigint", "ms"): {1_794_139_200_123: 123_000, FAR: None},
    ("bigint", "us"): {1_794_139_200_123_456: 123_456, FAR: None, -FAR - 1: None},
    ("bigint", "ns"): {1_794_139_200_123_456_999: 123_456, FAR: None},
    ("double", "s"): {1_794_139_200.25: 250_000, 1e300: None, float("nan"): None, float("-inf"): None},
    ("double", "ms"): {1_794_139_200_123.0: 123_000, -1e300: None},
    ("double", "ns"): {1_794_139_200_123_456_000.0: 123_456, 1e300: None},
    ("decimal(38,0)", "ns"): {Decimal(1_794_139_200_123_456_999): 123_456, Decimal(10**38 - 1): None},
    ("decimal(38,0)", "s"): {Decimal(1_794_139_200): 0, Decimal(1 - 10**38): None},
    ("decimal(38,3)", "s"): {Decimal("1794139200.500"): 500_000, Decimal(10**34): None},
}


def test_a_number_counts_from_the_epoch_in_its_unit() -> None:
    """Every kind and unit at once."""
    found: dict[tuple[str, str], list[int | None]] = {}
    for (kind, unit), cases in EPOCHS.items():
        read = micros(pa.array(list(cases), arrow_type(kind)), kind, unit, "UTC").to_pylist()
        found[kind, unit] = [
            moment if moment is not None and EARLIEST <= moment <= LATEST else None for moment in read
        ]
    assert found == {
        place: [None if micros is None else SEEN + micros for micros in cases.values()]
        for place, cases in EPOCHS.items()
    }


def test_a_time_before_the_epoch_is_rounded_down_like_any_other() -> None:
    times = pa.array([-1, -1000, -1001], pa.int64())
    assert micros(times, "bigint", "ns", "UTC").to_pylist() == [-1, -1, -2]


def test_parquet_timestamps_with_and_without_zone(spark: SparkSession, tmp_path: Path) -> None:
    bare = NOON.replace(tzinfo=None)
    table = pa.table(
        {"at": pa.array([bare], pa.timestamp("ms")), "seen": pa.array([NOON], pa.timestamp("us", "UTC"))}
    )
    pipeline = pipeline_in(
        tmp_path,
        files={"format": "parquet", "order_by": "seen"},
        event={"zone": "Asia/Kolkata"},
    )
    pq.write_table(table, tmp_path / "in" / "a.parquet")
    landed(tmp_path / "in" / "a.parquet")
    store = run_once(pipeline, spark)
    (row,) = rows_of(store.events, "select event_time, arrival_time from t")
    assert row == {"event_time": NOON - INDIA, "arrival_time": NOON}


DAYS = {"daily": {"window": {"tumbling": "1d", "zone": "Asia/Kolkata"}, "aggregates": {"n": "count(*)"}}}


def test_no_time_that_cannot_be_meant_moves_the_watermark(spark: SparkSession, tmp_path: Path) -> None:
    good = [SEEN + step * SECOND for step in range(4)]
    bad = [
        (SEEN + 300 * SECOND + 1, SEEN, "too_far_ahead"),
        (SEEN + 10**15, SEEN, "too_far_ahead"),
        (253_402_300_799_000_000, SEEN, "unreadable_event_time"),
        (9_223_372_036_854_775_807, SEEN, "unreadable_event_time"),
        (FAR, SEEN, "unreadable_event_time"),
        (-62_135_596_800_000_000, SEEN, "unreadable_event_time"),
        (None, SEEN, "no_event_time"),
        (SEEN, None, "no_arrival_time"),
        (SEEN, FAR, "unreadable_arrival_time"),
        (SEEN, 9_223_372_036_854_775_807, "unreadable_arrival_time"),
        (None, None, "no_event_time"),
    ]
    edge = SEEN + 300 * SECOND
    known: list[list[dict[str, Any]]] = []
    for name, extra in (("with", bad), ("without", [])):
        pairs = [
            (good[0], SEEN),
            *((at, seen) for at, seen, _ in extra),
            *((at, at) for at in good),
            (edge, SEEN),
        ]
        store = store_of(
            spark,
            tmp_path / name,
            "bigint",
            [at for at, _ in pairs],
            [seen for _, seen in pairs],
            {"max_future": "5m"},
            unit="us",
            outputs=DAYS,
        )
        known.append(rows_of(store.watermarks, "select * from t order by batch, tick"))
        assert reasons(store) == [(n, reason) for n, (_, _, reason) in enumerate(extra, 1)]
        assert max(event_times(store).values()) == NOON + timedelta(minutes=5)
    assert known[0] == known[1]


def test_without_max_future_the_far_future_is_let_through(spark: SparkSession, tmp_path: Path) -> None:
    ahead = SEEN + 10 * 365 * 86_400 * SECOND
    times, seen = [SEEN, ahead, SEEN, LATEST], [SEEN, SEEN + SECOND, SEEN + 5 * SECOND, SEEN + 9 * SECOND]
    store = store_of(spark, tmp_path, "bigint", times, seen, {"max_future": "off"}, unit="us", outputs=DAYS)
    assert dead_letters(store) == []
    lines = ledger_lines(store, "daily")[0, "events"]
    assert lines == {"received": 4, "on_time": 3, "side_output": 1, "late_at_source": 1}
    marks = [row["watermark"] for row in rows_of(store.watermarks, "select watermark from t order by tick")]
    assert NOON + timedelta(days=3650, seconds=-10) in marks


def test_a_dead_letter_may_have_times_that_python_does_not_count(spark: SparkSession, tmp_path: Path) -> None:
    schema = {"at": "string", "day": "date", "clock": "timestamp_ntz", "times": "array<timestamp>"}
    far = {"day": "99999-01-02", "clock": "99999-01-02 00:00:00.5", "times": ["99999-01-02T00:00:00Z", None]}
    write_json(tmp_path, "a.json", [far, {"at": "2026-11-08T12:00:00Z", **far}])
    pipeline = pipeline_in(tmp_path, schema=schema, event={"id": "clock"})
    store = run_once(pipeline, spark)
    ((reason, raw, *_),) = dead_letters(store)
    assert reason == "no_event_time"
    assert raw == (
        '{"at":null,"day":"+99999-01-02","clock":"+99999-01-02T00:00:00.500",'
        '"times":["+99999-01-02T00:00:00.000Z",null]}'
    )
    (event,) = rows_of(store.events, "select event_id from t")
    assert event["event_id"] == "+99999-01-02 00:00:00.5"
