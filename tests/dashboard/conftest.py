from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.cli_kit import Cli, Lake, calling
from dashboard.dashboard_kit import told_store
from latecomer.dashboard.serving import Dashboard


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Call the command line: `cli("dashboard", file)`."""
    return calling(capsys)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A store with a story."""
    return told_store(tmp_path / "told")


@pytest.fixture
def served(lake: Lake) -> Iterator[Dashboard]:
    with Dashboard([lake.pipeline], "127.0.0.1", 0) as each:
        yield each
