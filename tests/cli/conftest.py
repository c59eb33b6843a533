from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from cli_kit import PIPELINE, Cli, Lake, Said

from latecomer.cli import main


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

    def call(*arguments: object) -> Said:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Said(ended.value.code, said.out, said.err)

    return call
