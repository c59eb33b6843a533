from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from registry_kit import Asking, Server, beside, fresh, serving


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A registry without tokens, for all: each test has subjects of its own, and leaves what holds everywhere."""
    pytest.importorskip("fastapi")
    with serving(tmp_path_factory.mktemp("registry") / "registry.db") as running:
        yield running


@pytest.fixture
def ask(server: Server) -> Asking:
    return server.asking


@pytest.fixture
def subject() -> str:
    return fresh()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Server]:
    """A registry of the test's own, in which it may change everything."""
    with beside(tmp_path / "registry.db") as running:
        yield running
