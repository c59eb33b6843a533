"""Times in forms of their own: a pattern in the pipeline file says how they are written, as Spark's patterns do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import latecomer
from latecomer.config.models import Pipeline
from latecomer.log.moments import micros
from latecomer.model.durations import to_micros
from latecomer.model.time_formats import time_format
from latecomer.store.store import open_store
from source.source_kit import dead_letters, rows_of
from spark_kit import on_spark

FORMS = {
    "dd.MM.yyyy HH:mm:ss": "%d.%m.%Y %H:%M:%S",
    "d/M/yyyy hh:mm a": "%d/%m/%Y %I:%M %p",
    "dd-MMM-yy HH:mm": "%d-%b-%y %H:%M",
    "yyyyMMddHHmmss": "%Y%m%d%H%M%S",
    "yyyy/MM/dd 'at' HH.mm.ss.SSSSSS": "%Y/%m/%d at %H.%M.%S.%f",
    "MM/dd/yyyy": "%m/%d/%Y",
    "dd.MM.yyyy HH:mm XXX": "%d.%m.%Y %H:%M +05:30",
}


@on_spark
@given(st.lists(st.datetimes(datetime(2000, 1, 1), datetime(2068, 1, 1)), min_size=1, max_size=20))
def test_a_pattern_means_what_it_means_to_spark(spark: SparkSession, times: list[datetime]) -> None:
    for pattern, written in FORMS.items():
        texts = [each.strftime(written) for each in times] + ["32.13.2026 10:00:00", "soon"]
        found = micros(pa.array(texts), "string", None, "UTC", pattern).to_pylist()
        read = [F.unix_micros(F.try_to_timestamp(F.lit(text), F.lit(pattern))) for text in texts]
        (row,) = spark.range(1).select(F.array(*read).alias("at")).collect()
        assert found == row["at"], pattern


def test_iso_is_read_beside_it_and_the_zone_holds_for_both() -> None:
    texts = [
        "31.10.2026 12:00:00",
        "2026-10-31T12:00:00",
        "2026-10-31T12:00:00Z",
        None,
        "31.11.2026 12:00:00",
    ]
    found = micros(pa.array(texts), "string", None, "Europe/Berlin", "dd.MM.yyyy HH:mm:ss").to_pylist()
    eleven = to_micros(datetime(2026, 10, 31, 11, tzinfo=UTC))
    assert found == [eleven, eleven, eleven + 3_600_000_000, None, None]


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("dd.MM.YYYY", "has YYYY, which is no part of a time; write yyyy"),
        ("HH:mm", "has no year"),
        ("dd.MM.yyyy hh:mm", "write hh with a, or HH alone"),
        ("dd.MM.yyyy EEE", "has EEE, which is no part of a time; put words in single quotes"),
        ("dd.MM.yyyy ss", "has no minute, and something finer"),
        ("dd.MM.yyyy dd", "has the day twice"),
        ("dd.MM.yyyy yy", "has more than one year"),
        ("dd.MM.yyyy 'um HH", "has a quote that is not closed"),
    ],
)
def test_what_is_no_pattern_is_refused_with_the_fix(pattern: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        time_format(pattern)
    with pytest.raises(ValueError, match=said.partition(";")[0]):
        latecomer.Event(time="at", time_format=pattern)


def _pipeline(folder: Path, form: str | None, **event: Any) -> Pipeline:
    return Pipeline.model_validate(
        {
            "name": "karten",
            "store": "store",
            "base": folder,
            "source": {
                "files": {"path": "in", "format": "csv", "delimiter": ";", "order_by": "Eingang"},
                "numbers": {"decimal_sign": ","},
                "schema": {"Zeitpunkt": "timestamp", "Eingang": "string", "Betrag": "decimal(12,2)"},
            },
            "event": {"time": "Zeitpunkt", "zone": "Europe/Berlin", "time_format": form, **event},
            "watermark": {"delay": "1h"},
            "outputs": {
                "tage": {
                    "window": {"tumbling": "1d", "zone": "Europe/Berlin"},
                    "aggregates": {"summe": "sum(Betrag)"},
                }
            },
        }
    )


def test_a_file_with_times_of_its_own_is_read(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    rows = [
        "25.10.2026 01:59:00;25.10.2026 02:00:00;10,50",
        "25.10.2026 23:00:00;2026-10-25T23:00:01;0,25",
        "31.11.2026 10:00:00;26.10.2026 00:00:00;7,00",
    ]
    (tmp_path / "in" / "a.csv").write_text(
        "\n".join(["Zeitpunkt;Eingang;Betrag", *rows]) + "\n", encoding="utf-8"
    )
    pipeline = _pipeline(tmp_path, "dd.MM.yyyy HH:mm:ss")
    latecomer.run(pipeline, drain=True, spark=spark)
    store = open_store(pipeline)
    berlin = datetime(2026, 10, 24, 23, 59, tzinfo=UTC)
    late = timedelta(hours=22, minutes=1)
    assert [row["event_time"] for row in rows_of(store.events, "select event_time from t order by 1")] == [
        berlin,
        berlin + late,
    ]
    ((reason, *_),) = dead_letters(store)
    assert reason == "unreadable_event_time"
    details = latecomer.Reader(pipeline).dead_letters().to_pylist()
    assert details[0]["detail"] == (
        'column Zeitpunkt: "31.11.2026 10:00:00" is not a time of the form dd.MM.yyyy HH:mm:ss (event.time_format), '
        "and not ISO-8601"
    )


def test_without_a_pattern_the_letter_says_what_to_set_and_is_then_replayed(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text(
        "Zeitpunkt;Eingang;Betrag\n25.10.2026 01:59;2026-10-25T02:00:00;1,00\n", encoding="utf-8"
    )
    pipeline = _pipeline(tmp_path, None)
    latecomer.run(pipeline, once=True, spark=spark)
    ((detail,),) = [
        row.values() for row in latecomer.Reader(pipeline).dead_letters().select(["detail"]).to_pylist()
    ]
    assert "say how it is written: event.time_format: dd.MM.yyyy HH:mm" in detail
    pipeline = _pipeline(tmp_path, "dd.MM.yyyy HH:mm")
    assert latecomer.replay_dead_letters(pipeline, spark=spark).events == 1
    assert [
        row["event_time"] for row in rows_of(open_store(pipeline).events, "select event_time from t")
    ] == [datetime(2026, 10, 24, 23, 59, tzinfo=UTC)]
