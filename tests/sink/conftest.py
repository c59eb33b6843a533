from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from postgres_kit import Postgres
from sink.sink_kit import (
    TARGET,
    Place,
    let_go,
    rows_of_delta,
    rows_of_duckdb,
    rows_of_iceberg,
    rows_of_postgres,
    rows_of_sqlite,
)


@pytest.fixture(autouse=True)
def closed_at_the_end() -> Iterator[None]:
    yield
    let_go()


@pytest.fixture
def target(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> str:
    """The server, for the tests' kit and the processes that it starts."""
    monkeypatch.setenv(TARGET, postgres.url_with_password)
    return postgres.url_with_password


@pytest.fixture
def path(target: str, tmp_path: Path) -> Path:
    """What stands for a schema of the test's own in Postgres. Tests of files have a path of their own."""
    return tmp_path / "results"


@pytest.fixture(params=["delta", "sqlite", "duckdb", "iceberg", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Each sink that upserts."""
    if request.param == "postgres":
        request.getfixturevalue("target")
        return Place("postgres", tmp_path / "results", rows_of_postgres)
    if request.param == "delta":
        return Place("delta", tmp_path / "totals", rows_of_delta)
    if request.param == "duckdb":
        return Place("duckdb", tmp_path / "results.duckdb", rows_of_duckdb)
    if request.param == "iceberg":
        return Place("iceberg", tmp_path / "lake", rows_of_iceberg)
    return Place("sqlite", tmp_path / "results.db", rows_of_sqlite)
