"""Drift in the log: how much, whose, since when; the same without Spark and with it."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from after.migrate.rides_kit import MIXED, NOON, log, ride, rides
from latecomer.after.migrate import drift as measuring
from latecomer.after.migrate.drift import Drift, measure_drift
from latecomer.errors import LatecomerError
from latecomer.schemas.migrations import Migration, checks_of
from schemas.migrations.migration_kit import made, pricing, rename

SECOND = 1_000_000


def account(drift: Drift) -> dict[Any, Any]:
    return {whose: (each.events, dict(each.kinds), each.first, each.last) for whose, each in drift.by.items()}


def test_who_drifts_since_when_and_how(tmp_path: Path) -> None:
    store = rides(tmp_path)
    log(store, 0, MIXED[:3])
    log(store, 1, MIXED[3:])
    drift = measure_drift(store, made(pricing()))
    assert (drift.events, drift.drifted, drift.share) == (6, 3, 0.5)
    assert drift.first == NOON + 2 * SECOND
    assert account(drift) == {
        ("android", 1): (1, {}, None, None),
        ("ios", 1): (
            3,
            {"fare_cents differs": 1, "the new shape is missing": 1},
            NOON + 2 * SECOND,
            NOON + 3 * SECOND,
        ),
        ("web", 1): (2, {"the old shape is missing": 1}, NOON + 4 * SECOND, NOON + 4 * SECOND),
    }
    first, *_ = drift.examples
    assert (first.event_id, first.kind, first.origin, first.position) == (
        "ios-2",
        "fare_cents differs",
        "in/0.json",
        2,
    )
    assert first.values == {
        "fare_cents": 1250,
        "pricing.base": 1000,
        "pricing.surge": 150,
        "pricing.tax": 99,
    }
    assert first.expected == {"fare_cents": 1249}


def test_only_what_arrived_since(tmp_path: Path) -> None:
    store = rides(tmp_path)
    log(store, 0, MIXED)
    drift = measure_drift(store, made(pricing()), since=NOON + 4 * SECOND, examples=1)
    assert (drift.events, drift.drifted, len(drift.examples)) == (2, 1, 1)
    assert measure_drift(store, made(pricing()), examples=0).examples == []


def test_the_earliest_examples_are_shown(tmp_path: Path) -> None:
    store = rides(tmp_path)
    log(store, 0, [ride(9, "ios", 1), ride(8, "ios", 1)])
    log(store, 1, [ride(7, "ios", 1)])
    found = measure_drift(store, made(pricing()), examples=2).examples
    assert [each.event_id for each in found] == ["ios-7", "ios-8"]


def test_schemas_are_told_apart(tmp_path: Path) -> None:
    store = rides(tmp_path)
    log(store, 0, [ride(0, "ios", 5, schema_id=7), ride(1, "ios", 5, 5, 0, 0, schema_id=8)])
    drift = measure_drift(store, made(pricing()))
    assert {whose: each.drifted for whose, each in drift.by.items()} == {("ios", 7): 1, ("ios", 8): 0}


def test_a_log_without_events_has_no_drift(tmp_path: Path) -> None:
    drift = measure_drift(rides(tmp_path), made(pricing()))
    assert (drift.events, drift.drifted, drift.share, drift.first) == (0, 0, 0.0, None)


def test_an_expression_of_another_type_is_refused(tmp_path: Path) -> None:
    wrong = made(pricing(**{"from": {"fare_cents": "concat(pricing.base, pricing.surge, pricing.tax)"}}))
    with pytest.raises(LatecomerError, match="makes a string, and the column is a bigint; write cast"):
        measure_drift(rides(tmp_path), wrong)


class OfFiles:
    """A Spark session and its DataFrames, which only note the files that are read."""

    def __init__(self) -> None:
        self.read, self.files = self, list[tuple[str, ...]]()

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: self

    def parquet(self, *paths: str) -> OfFiles:
        self.files.append(paths)
        return self

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's name
        return pa.table({"read": self.files[-1]})


def test_spark_reads_some_files_of_the_log_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, session = rides(tmp_path), OfFiles()
    for batch in range(3):
        log(store, batch, MIXED[:2])
    for name in ("build_session", "own_session", "value_or_null"):
        monkeypatch.setattr(measuring, name, lambda *_, **__: session)
    monkeypatch.setattr(measuring, "ROWS_AT_ONCE", 4)
    checks = checks_of(made(pricing()), store.layout.types)
    batches, _ = measuring.computed_by_spark(store, checks, list(checks.sql))
    first = next(batches)
    assert (first.num_rows, len(session.files)) == (2, 1), "no more than was asked for"
    assert [each.num_rows for each in batches] == [1]


def test_spark_gives_the_same_account_and_computes_the_rest(spark: SparkSession, tmp_path: Path) -> None:
    store = rides(tmp_path)
    users: list[dict[str, Any]] = [
        {"signup_date": "2025-09-14", "created_at": "2025-09-14T00:00:00Z"},
        {"signup_date": "2025-09-16", "created_at": "2025-09-15T23:00:00Z"},
        {"signup_date": "2025-09-17"},
    ]
    days: list[dict[str, Any]] = [
        {"day": date(2025, 9, 14), "moment": datetime(2025, 9, 14, tzinfo=UTC)},
        {"day": date(2025, 9, 16), "moment": datetime(2025, 9, 15, 23, tzinfo=UTC)},
    ]
    log(store, 0, MIXED)
    log(store, 1, [{"second": 10 + number, **each} for number, each in enumerate([*users, *days])])
    here, there = (measure_drift(store, made(pricing()), on_spark=each) for each in (False, True))
    assert account(here) == account(there)
    assert here.examples == there.examples
    # left() is Spark's.
    renamed = measure_drift(store, made(rename()), since=NOON + 10 * SECOND)
    kinds = {"signup_date differs": 1, "the new shape is missing": 1}
    assert account(renamed)[None, 1] == (5, kinds, NOON + 11 * SECOND, NOON + 12 * SECOND)
    # So are moments.
    typed = Migration.model_validate(
        rename(
            **{
                "from": {"day": "cast(moment as date)"},
                "to": {"moment": {"type": "long", "sql": "cast(day as timestamp)"}},
            }
        )
    )
    [example] = measure_drift(store, typed, since=NOON + 10 * SECOND).examples
    assert example.kind == "day differs"
    assert example.values == {"day": date(2025, 9, 16), "moment": datetime(2025, 9, 15, 23, tzinfo=UTC)}
    assert example.expected == {"day": date(2025, 9, 15), "moment": datetime(2025, 9, 16, tzinfo=UTC)}
