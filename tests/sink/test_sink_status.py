"""`latecomer status`: without Spark, with and without a run, and whatever lies where the sinks should be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from latecomer.cli import main
from latecomer.errors import StoreOutage
from latecomer.model.strategies import TickSummary
from latecomer.model.timeline import Timeline
from latecomer.sink.keeper import SinkKeeper, sink_status
from latecomer.sink.status import NOTES
from latecomer.store.layout import WATERMARKS
from latecomer.store.store import open_store
from sink.feeding_kit import START, Fed, HandClock

FOUR = "[{sqlite: results.db}, {delta: results}, {jsonl: changes}, {parquet: {path: files, on_outage: stop}}]"


def status_of(fed: Fed, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    with pytest.raises(SystemExit) as ended:
        main(["status", str(fed.file), "--format", "json"])
    printed = capsys.readouterr()
    assert ended.value.code == 0, printed.err
    rows: list[dict[str, Any]] = json.loads(printed.out)
    return rows


def test_before_a_run_every_sink_lacks_everything_and_none_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fed = Fed(tmp_path, FOUR)
    fed.publish(0, "chai")
    fed.publish(1)
    fed.publish(2, "chai")
    rows = status_of(fed, capsys)
    assert [row["sink"] for row in rows] == ["sqlite", "delta", "jsonl", "parquet"]
    for row in rows:
        assert (row["last_batch"], row["complete"], row["behind"]) == (-1, 2, 2)
        assert (row["state"], row["reason"], row["since"]) == ("behind", "no run is at work", None)
    assert [row["on_outage"] for row in rows] == ["wait", "wait", "wait", "stop"]
    assert {each.name for each in tmp_path.iterdir()} == {"in", "store", "pipeline.yaml"}


def test_a_run_goes_on_where_its_notes_cannot_be_put_into_an_object_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed = Fed(tmp_path, "[{sqlite: results.db}]")
    fed.publish(0, "chai")

    def refuse(file: Path, content: bytes) -> None:
        raise StoreOutage(f"{file} cannot be used: it does not answer")

    monkeypatch.setattr("latecomer.store.notes.replace_bytes", refuse)
    keeper = SinkKeeper(fed.store, HandClock())
    keeper.start(0)
    keeper.finish()
    keeper.close()
    assert [worker.reached for worker in keeper.workers] == [0]


def test_after_a_run_every_sink_is_up_to_date(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fed = Fed(tmp_path, FOUR)
    fed.publish(0, "chai")
    fed.publish(1)
    keeper = SinkKeeper(fed.store, HandClock())
    keeper.start(1)
    keeper.finish()
    keeper.close()
    for row in status_of(fed, capsys):
        assert (row["last_batch"], row["behind"], row["state"], row["reason"]) == (0, 0, "up to date", None)


def test_a_sink_that_cannot_be_read_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fed = Fed(tmp_path, "[{sqlite: results.db}]")
    fed.publish(0, "chai")
    (tmp_path / "results.db").write_text(
        "this is not a database, and long enough to be looked at", encoding="utf-8"
    )
    (row,) = status_of(fed, capsys)
    assert (row["state"], row["last_batch"], row["behind"]) == ("down", None, None)
    assert "not a SQLite database" in row["reason"]


@pytest.mark.parametrize(
    "damage",
    ["", "[", "[1]", '[{"output": "totals"}]', "null", '[{"output":1,"sink":1,"target":1,"reached":"x"}]'],
)
def test_a_damaged_note_is_no_note(tmp_path: Path, damage: str) -> None:
    fed = Fed(tmp_path, FOUR)
    fed.publish(0, "chai")
    (fed.store.root / NOTES).write_text(damage, encoding="utf-8")
    assert sink_status(open_store(fed.pipeline))["behind"].to_pylist() == [1, 1, 1, 1]


def test_a_pipeline_without_sinks_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fed = Fed(tmp_path, "[]")
    with pytest.raises(SystemExit):
        main(["status", str(fed.file)])
    assert "the pipeline has no sinks" in "".join(capsys.readouterr())


def test_the_watermark_is_told_by_the_wall_clock_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fed = Fed(tmp_path, "[{sqlite: results.db}]")
    fed.publish(0, "chai")
    timeline = Timeline(fed.pipeline.watermark)
    timeline.extend([TickSummary(0, START, "", 1, START), TickSummary(1, START + 1_000_000, "", 1, START)])
    fed.store.watermarks.append(
        0, pa.Table.from_pylist([{"batch": 0, "carry": timeline.carry()}], WATERMARKS)
    )
    with pytest.raises(SystemExit):
        main(["status", str(fed.file)])
    said = capsys.readouterr().err
    assert "note: watermark 2026-04-25T13:59:50Z (" in said
    assert " behind the wall clock, 11s behind the newest arrival)" in said
