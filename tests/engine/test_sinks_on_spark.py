"""Sinks behind a running engine: down and up again, added later, and filled from another store."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from faults.faults_kit import left_behind, left_without_sqlite, write_pipeline
from latecomer.config.load import load_pipeline
from latecomer.engine.running import run
from latecomer.errors import SinkError


def documented_sink() -> str:
    """The sink of docs/sinks.md."""
    text = (Path(__file__).parents[2] / "docs" / "sinks.md").read_text(encoding="utf-8")
    return text.split("```python\n")[1].split("```")[0]


@pytest.mark.long
def test_a_sink_that_was_down_or_added_later_ends_up_the_same(
    spark: SparkSession, tmp_path: Path, undisturbed: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    disturbed = write_pipeline(tmp_path / "disturbed")
    text = disturbed.read_text(encoding="utf-8")
    # One sink is not there yet, and another is locked by somebody else; a third is not of latecomer's own.
    monkeypatch.setattr("latecomer.sink.database_file.BUSY_SECONDS", 0.2)
    monkeypatch.setattr("latecomer.sink.worker.LAST_SECONDS", 0.2)
    (tmp_path / "disturbed" / "board_sinks.py").write_text(documented_sink(), encoding="utf-8")
    board = tmp_path / "board.json"
    text = text.replace("{delta: results}]", f"{{delta: results}}, {{board_sinks:Board: {board}}}]")
    disturbed.write_text(text.replace("{jsonl: alerts}, ", ""), encoding="utf-8")
    without_jsonl = load_pipeline(disturbed)
    with sqlite3.connect(tmp_path / "disturbed" / "results.db", isolation_level=None) as other:
        other.execute("create table if not exists held (x)")
        other.execute("begin exclusive")
        with pytest.raises(SinkError, match=r"sqlite sink .*results\.db.*Nothing is lost"):
            run(without_jsonl, drain=True, spark=spark)
        # It held nobody: the run has come to its end, and so have the other sinks.
        assert left_without_sqlite(disturbed)["delta"] == undisturbed["delta"]
        other.execute("rollback")
        other.execute("drop table held")
    other.close()
    disturbed.write_text(text, encoding="utf-8")
    run(load_pipeline(disturbed), drain=True, spark=spark)
    assert left_behind(disturbed) == undisturbed
    held = json.loads(board.read_text(encoding="utf-8"))
    assert sorted((row["merchant"] or "", row["payments"]) for row in held["rows"]) == sorted(
        (row["merchant"] or "", row["payments"])
        for row in DeltaTable(str(tmp_path / "disturbed" / "results")).to_pyarrow_table().to_pylist()
    )

    # The store is lost and the sinks are not: they would look as if they were far ahead.
    shutil.rmtree(tmp_path / "disturbed" / "store")
    with pytest.raises(SinkError, match="filled from another store"):
        run(load_pipeline(disturbed), once=True, spark=spark)
