from __future__ import annotations

from pathlib import Path

import pytest

from cli.cli_kit import PIPELINE, Cli, Lake, calling, pane
from cli.validate_kit import UNDECLARED


@pytest.fixture
def unrun(tmp_path: Path) -> Lake:
    """A pipeline that was never run."""
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE, encoding="utf-8")
    return Lake(file)


@pytest.fixture
def lake(unrun: Lake) -> Lake:
    """A pipeline that has a store, with nothing in it yet."""
    unrun.store.pin()
    return unrun


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Call the command line: `cli("results", file, "minute_totals")`."""
    return calling(capsys)


@pytest.fixture
def filled(lake: Lake) -> Lake:
    """A store with a row in every table."""
    lake.panes("minute_totals", 0, [pane(0, 0, merchant="a", paise=5, payments=1)])
    lake.partials("minute_totals", 0, [pane(1, 0, merchant="a", paise=5, payments=1)])
    lake.watermarks(0, [{"tick": 0, "at": 0, "watermark": 0}])
    lake.dead_letters(0, [{"reason": "no_event_time", "raw": "{}", "position": 1}])
    lake.ledger(0, [{"output": "minute_totals", "unit": "events"}])
    events = lake.store.events
    events.append(0, events.schema.empty_table())
    (lake.file.parent / "other.csv").write_text("window_start,merchant,paise\n2026-04-25T12:00:00Z,a,5\n")
    return lake


@pytest.fixture
def undeclared(tmp_path: Path) -> Path:
    """A pipeline file without the columns of its source."""
    file = tmp_path / "pipeline.yaml"
    file.write_text(UNDECLARED, encoding="utf-8")
    return file
