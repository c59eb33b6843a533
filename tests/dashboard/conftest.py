from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.cli_kit import Cli, Lake, calling
from dashboard.dashboard_kit import published_store
from latecomer.observe.dashboard.page_server import Dashboard


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Call the command line: `cli("dashboard", file)`."""
    return calling(capsys)


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A store with a story. Read it or copy it: it is shared."""
    return published_store(tmp_path_factory.mktemp("dashboard") / "told")


@pytest.fixture
def lake(published: Lake, tmp_path: Path) -> Lake:
    """The same, for a test to change."""
    shutil.copytree(published.file.parent, tmp_path / "told")
    return Lake(tmp_path / "told" / published.file.name)


@pytest.fixture
def served(lake: Lake) -> Iterator[Dashboard]:
    with Dashboard([lake.pipeline], "127.0.0.1", 0) as each:
        yield each
