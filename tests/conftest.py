"""One Spark session for each test process: small, two shuffle partitions, no noise.

Random examples are the same in every run of `make test`, so that it says something of the change and not
of the day; `make test-long` draws new ones each time.

The session interprets its queries: for a few rows that is quicker than compiling them. The processes that
tests start (tests/faults, tests/cli, the demo) and `make test-long` compile them, as users' do.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings as hypothesis_settings
from pyspark.sql import SparkSession

from latecomer.cli import steps
from latecomer.session import build_session
from latecomer.source import retrying

# Latecomer starts no Python workers: Spark would take them from whatever python3 is on the PATH.
os.environ["PYSPARK_PYTHON"] = "/no/python/worker/is/needed"

hypothesis_settings.register_profile("repeated", derandomize=True)
hypothesis_settings.load_profile("repeated")


@pytest.fixture(autouse=True)
def no_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long a step takes depends on the machine: what a verb prints does not, but for the steps it shows."""
    monkeypatch.setattr(steps, "MOMENT", 3600.0)


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that cannot be read is tried again at once."""
    monkeypatch.setattr(retrying, "sleep", lambda _: None)


INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@pytest.fixture(scope="session")
def spark(pytestconfig: pytest.Config) -> Iterator[SparkSession]:
    settings = {
        **({} if pytestconfig.getoption("-m") == "long" else INTERPRETED),
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1500m",
        "spark.master": "local[2]",
        "spark.sql.streaming.pollingDelay": "10",
        # The quick compiler alone: the tests' data is too small for the other to pay.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    session = build_session("tests", **settings)
    yield session
    session.stop()
