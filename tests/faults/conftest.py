from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from faults.watch_kit import Watched, watch


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong here stays wrong until the run is over: a run that is done waits for no sink."""
    monkeypatch.setattr("latecomer.sink.worker.LAST_SECONDS", 0.0)


@pytest.fixture(scope="session")
def watched(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Watched:
    return watch(spark, tmp_path_factory)
