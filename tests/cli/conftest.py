from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from cli_kit import PIPELINE, Cli, Lake, calling


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
