"""`retention` in the pipeline file: what is refused, with field, value and fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.upkeep.upkeep_kit import PIPELINE
from latecomer.config.load import load_pipeline
from latecomer.errors import PipelineError
from latecomer.model.durations import DAY, UNITS


def refused(folder: Path, text: str) -> str:
    file = folder / "pipeline.yaml"
    file.write_text(text)
    with pytest.raises(PipelineError) as error:
        load_pipeline(file)
    return str(error.value)


def test_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE + "retention: {events: 400d, late: 30d}\n")
    kept = load_pipeline(file).retention
    assert (kept.events, kept.late) == (400 * DAY, 30 * DAY)
    file.write_text(PIPELINE)
    assert (load_pipeline(file).retention.events, load_pipeline(file).retention.late) == (None, None)


def test_shorter_than_an_output_looks_back(tmp_path: Path) -> None:
    said = refused(tmp_path, PIPELINE + "retention:\n  events: 2h59m\n")
    assert "retention.events: is shorter than output totals may look back" in said
    assert "window and allowed lateness are 3h (value: '2h59m')" in said
    assert "fix: set retention.events: 3h or more" in said
    (tmp_path / "pipeline.yaml").write_text(PIPELINE + "retention: {events: 3h}\n")
    assert load_pipeline(tmp_path / "pipeline.yaml").retention.events == 3 * UNITS["h"]


@pytest.mark.parametrize(
    ("window", "reason", "fix"),
    [
        ("{global: true}", "a global window is never over", "leave retention.events out"),
        (
            "{session: 30m}",
            "a session window without max remembers every id",
            "or give outputs.totals.window a max",
        ),
    ],
)
def test_an_output_that_needs_the_log_for_ever(tmp_path: Path, window: str, reason: str, fix: str) -> None:
    said = refused(tmp_path, PIPELINE.replace("{tumbling: 1h}", window) + "retention: {events: 400d}\n")
    assert f"output totals needs the log for ever: {reason} (value: '400d')" in said
    assert fix in said


@pytest.mark.parametrize(
    "window", ["{session: 30m, max: 8h}", "{calendar: month}", "{sliding: 2h, every: 1h}"]
)
def test_windows_that_end(tmp_path: Path, window: str) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE.replace("{tumbling: 1h}", window) + "retention: {events: 400d}\n")
    load_pipeline(file)


def test_without_ids_a_session_needs_no_more_than_its_gap(tmp_path: Path) -> None:
    text = PIPELINE.replace(", id: txn_id}", "}").replace("{tumbling: 1h}", "{session: 30m}")
    said = refused(tmp_path, text + "retention: {events: 2h}\n")
    assert "set retention.events: 2h30m or more" in said


@pytest.mark.parametrize("written", ["0", "soon", "-1d", "30"])
def test_not_a_duration(tmp_path: Path, written: str) -> None:
    assert "retention.late" in refused(tmp_path, PIPELINE + f"retention: {{late: {written}}}\n")


def test_an_unknown_key(tmp_path: Path) -> None:
    said = refused(tmp_path, PIPELINE + "retention: {event: 400d}\n")
    assert "retention.event: unknown key" in said
