"""Dead letters are repaired and taken in again: once each, judged by the watermark in force now."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from after.letters.letters_kit import events, json_store, letters, open_and_closed, row, totals
from latecomer.after.replay.replaying import replay
from latecomer.api import replay_dead_letters
from latecomer.ledger.check import check_ledger


def test_a_time_in_another_format(spark: SparkSession, tmp_path: Path) -> None:
    bad = [row(2, 0, at="08/11/2026 14:00"), row(3, 9, at="08/11/2026 14:09"), row(4, 9, at="the eighth")]
    files = {"0.json": [row(1, 0), bad[0]], "1.json": [row(5, 9), *bad[1:]]}
    pipeline = json_store(tmp_path, spark, files)
    assert totals(pipeline)["totals"] == {"received": 5, "on_time": 2, "dead_letter": 3}

    fix = {"format": "dd/MM/yyyy HH:mm"}
    tried = replay_dead_letters(pipeline, fix=fix, dry_run=True, spark=spark)
    assert (tried.picked, tried.events, tried.batch) == (3, 2, None)
    assert tried.problems == {"unreadable_event_time": 1}
    assert totals(pipeline)["totals"]["dead_letter"] == 3

    done = replay_dead_letters(pipeline, fix=fix, spark=spark)
    assert (done.picked, done.events, done.batch, done.completed) == (3, 2, 2, None)
    assert [each["raw"] for each in done.still_dead.to_pylist()] == tried.still_dead["raw"].to_pylist()
    # The minute of the first has closed; nothing was late when it first came.
    assert totals(pipeline)["totals"] == {"received": 5, "on_time": 3, "late_accepted": 1, "dead_letter": 1}
    assert totals(pipeline)["strict"] == {"received": 5, "on_time": 3, "dropped": 1, "dead_letter": 1}
    assert open_and_closed(pipeline) == {"amul 14:00": 2, "amul 14:09": 2}
    assert len(letters(pipeline)) == 1

    arrived = {each["event_id"]: (each["arrival_time"], each["first_arrival_time"]) for each in events(pipeline)}
    now = datetime(2026, 11, 8, 14, 9, 1, tzinfo=UTC)
    assert arrived["t2"] == (now, datetime(2026, 11, 8, 14, 0, 1, tzinfo=UTC))
    assert arrived["t3"] == (now, now)
    assert arrived["t1"][1] is None

    again = replay_dead_letters(pipeline, fix=fix, spark=spark)
    assert (again.picked, again.events, again.batch) == (1, 0, None)
    assert check_ledger(pipeline, spark) == []
    replayed = replay(pipeline, spark=spark)
    assert replayed.equal, replayed.summary.to_pylist()
