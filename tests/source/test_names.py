"""Whatever a source calls its columns: they work, or `validate` refuses them and says what to do."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from source.source_kit import dead_letters, pipeline_in, rows_of, run_once, write_json

AT = "2026-11-08T14:00:00Z"


def test_a_source_may_have_columns_that_dead_letters_have(spark: SparkSession, tmp_path: Path) -> None:
    write_json(tmp_path, "a.json", [{"at": AT, "reason": "lost", "raw": 1}, {"at": "?", "reason": "x"}])
    store = run_once(pipeline_in(tmp_path), spark)
    assert rows_of(store.events, "select reason, raw from t") == [{"reason": "lost", "raw": 1}]
    found = [("unreadable_event_time", '{"at":"?","reason":"x","raw":null}', "a.json", 1)]
    assert dead_letters(store) == found
