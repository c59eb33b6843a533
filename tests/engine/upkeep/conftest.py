"""The store that most tests of upkeep start from: made once, and copied for each."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cli.cli_kit import Cli, calling
from engine.upkeep.upkeep_kit import Days, make_days


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Days:
    return make_days(tmp_path_factory.mktemp("days"))


@pytest.fixture
def days(made: Days, tmp_path: Path) -> Days:
    """Three days of batches."""
    shutil.copytree(made.file.parent, tmp_path, dirs_exist_ok=True)
    return Days(tmp_path / made.file.name)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Call the command line: `cli("compact", file)`."""
    return calling(capsys)
