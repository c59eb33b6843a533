from __future__ import annotations

from collections.abc import Iterator

import pytest

from schemas.registry.registry_kit import Asking, Server, fresh, serving


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A registry without tokens, for all: each test has subjects of its own, and leaves what holds everywhere."""
    with serving(tmp_path_factory.mktemp("registry") / "registry.db") as running:
        yield running


@pytest.fixture
def ask(server: Server) -> Asking:
    return server.asking


@pytest.fixture
def subject() -> str:
    return fresh()
